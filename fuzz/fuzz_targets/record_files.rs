//! Feeds `fuzz::record_files` with libFuzzer's inputs.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::record_files(bytes));
