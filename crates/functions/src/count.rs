//! `count`: records and bytes of a segment, as one line. Serves the path *job*: the smallest useful function. It
//! never looks at what a record contains.

use udf::{FunctionError, Input, Output};

use crate::escape::push_escaped;

/// Emits `path`, `from`, `records`, `bytes`, separated by tabs, to bucket 0.
pub(crate) fn count(input: &Input<'_>, output: &mut Output<'_>) -> Result<(), FunctionError> {
    let bytes = input.bytes().len();
    let records = input.records().count();
    let mut line = Vec::new();
    push_escaped(input.path(), &mut line);
    line.extend(format!("\t{}\t{records}\t{bytes}\n", input.from()).bytes());
    output.progress(bytes as u64);
    output.emit(0, &line)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use udf::RecordFormat;

    use crate::testing::run;

    #[test]
    fn a_segment_becomes_one_line() {
        let line = |bytes: &[u8], format| {
            String::from_utf8(run("count", bytes, format, 1, &[]).unwrap().bucket(0).to_vec()).unwrap()
        };
        assert_eq!(line(b"a\nb\nc", RecordFormat::Lines), "/in\\sput\t800\t3\t5\n");
        assert_eq!(line(b"abcd", RecordFormat::Fixed(2)), "/in\\sput\t800\t2\t4\n");
        assert_eq!(line(b"", RecordFormat::File), "/in\\sput\t800\t1\t0\n");
    }
}
