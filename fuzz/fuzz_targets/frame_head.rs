//! Feeds `fuzz::frame_head` with libFuzzer's inputs.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::frame_head(bytes));
