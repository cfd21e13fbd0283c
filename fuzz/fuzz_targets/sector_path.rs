//! Feeds `fuzz::sector_path` with libFuzzer's inputs.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::sector_path(bytes));
