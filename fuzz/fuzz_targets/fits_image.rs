//! Feeds `fuzz::fits_image` with libFuzzer's inputs.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::fits_image(bytes));
