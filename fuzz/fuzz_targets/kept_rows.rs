//! Feeds `fuzz::kept_rows` with libFuzzer's inputs.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::kept_rows(bytes));
