//! Side files in an SPE: functions in each language read them, and none can change them.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod lone_spe;

use lone_spe::{in_c, program, python};
use protocol::message::spe::FunctionCode;

/// What a function wrote over two segments with these side files, or why it failed.
async fn written(code: FunctionCode, side: &[(&str, &[u8])]) -> Result<Vec<u8>, String> {
    lone_spe::run(code, side, &["x\n", "x\n"]).await.map(|(written, _)| written)
}

const IN_C: &str = "
    uint64_t length, none = 9;
    const uint8_t *words = sector_side_file(input, \"words\", &length);
    if (sector_side_file(input, \"other\", &none) || !sector_side_file(input, \"empty\", &none) || none) return 2;
    return words ? output->emit(output, 0, words, length) : 3;
";

const IN_PYTHON: &str = "
def f(segment, out):
    words = segment.side['words']
    assert words.readonly and len(segment.side['empty']) == 0 and set(segment.side) == {'words', 'empty'}
    out.write(words)
";

#[tokio::test]
async fn functions_in_every_language_read_the_same_side_file_in_each_call() {
    let words: Vec<u8> = (0..100_000u32).flat_map(|number| number.to_le_bytes()).collect();
    let side = [("words", &words[..]), ("empty", b"")];
    // Without `/proc` a descriptor has no name: a program finds a file by its variable, or at its path.
    let by_variable = ["sh", "-c", "test -f \"$SECTOR_SIDE_empty\" && exec cat \"$SECTOR_SIDE_words\""];
    for (language, code) in [
        ("C", in_c(IN_C)),
        ("Python", python(IN_PYTHON)),
        ("program", program(&by_variable)),
        ("program", program(&["cat", "side/words", "side/empty"])),
    ] {
        let found = written(code, &side).await.unwrap();
        assert!(found == [&words[..], &words].concat(), "{language}: {} bytes", found.len());
    }
}

#[tokio::test]
async fn a_side_file_that_was_not_given_is_named_by_the_error() {
    let missing = python("def f(segment, out): segment.side['centres']");
    let error = written(missing, &[("words", b"x")]).await.unwrap_err();
    assert!(error.contains("'centres'") && error.contains("--side centres=PATH"), "{error}");
}

#[tokio::test]
async fn a_function_cannot_change_what_the_others_read() {
    let writes = python("def f(segment, out): segment.side['words'][0] = 7");
    let error = written(writes, &[("words", b"x")]).await.unwrap_err();
    assert!(error.contains("read-only"), "{error}");
}
