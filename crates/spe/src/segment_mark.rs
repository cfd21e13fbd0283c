//! The mark that an SPE's process writes between what its function printed over one segment and the next. It goes the
//! same way as the prints, since the socket is another way and its messages may overtake them. Serves the path *job*,
//! door 7. A function may write marks itself: what it then confuses is never more than its own job's log.

/// The mark after a segment, or after a function was loaded. It begins with a line end, so that it has a line of its
/// own. It is shorter than what the kernel writes in one go.
pub(crate) fn mark(segment: Option<u64>) -> String {
    match segment {
        Some(segment) => format!("\n{MARK}{segment}\n"),
        None => format!("\n{MARK}{LOADED}\n"),
    }
}

/// What a line marks the end of, if it is a mark.
pub(crate) fn parse(line: &[u8]) -> Option<Option<u64>> {
    let word = line.strip_prefix(MARK.as_bytes())?.strip_suffix(b"\n")?;
    let word = str::from_utf8(word).ok()?;
    if word == LOADED { Some(None) } else { word.parse().ok().map(Some) }
}

/// No text begins like this.
const MARK: &str = "\0sector segment ";
const LOADED: &str = "loaded";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_a_line_of_its_own_that_is_read_back() {
        for segment in [None, Some(0), Some(u64::MAX)] {
            let mark = mark(segment);
            assert_eq!(mark.strip_prefix('\n').and_then(|line| parse(line.as_bytes())), Some(segment));
        }
        for line in
            ["", "\n", "sector segment 1\n", "\0sector segment \n", "\0sector segment 1", "\0sector segment x\n"]
        {
            assert_eq!(parse(line.as_bytes()), None, "{line:?}");
        }
    }
}
