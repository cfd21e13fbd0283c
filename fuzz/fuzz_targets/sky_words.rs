//! Feeds `fuzz::sky_words` with libFuzzer's inputs.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::sky_words(bytes));
