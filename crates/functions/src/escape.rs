//! Escapes paths in lines whose fields are separated by blanks and tabs. Serves the outputs of `count`,
//! `teravalidate` and `index`. A backslash becomes `\\`, a blank `\s`, a tab `\t` and a line end `\n`; an escaped
//! path never contains a separator.

/// Adds a path to a line.
pub(crate) fn push_escaped(path: &str, line: &mut Vec<u8>) {
    for byte in path.bytes() {
        match ESCAPES.iter().find(|(plain, _)| *plain == byte) {
            Some((_, letter)) => line.extend([b'\\', *letter]),
            None => line.push(byte),
        }
    }
}

/// A path as it was before; `None` if it is not one that [`push_escaped`] wrote.
pub(crate) fn unescape(text: &[u8]) -> Option<Vec<u8>> {
    let mut path = Vec::with_capacity(text.len());
    let mut bytes = text.iter();
    while let Some(byte) = bytes.next() {
        if *byte == b'\\' {
            let letter = bytes.next()?;
            path.push(ESCAPES.iter().find(|(_, known)| known == letter)?.0);
        } else {
            path.push(*byte);
        }
    }
    Some(path)
}

const ESCAPES: [(u8, u8); 4] = [(b'\\', b'\\'), (b' ', b's'), (b'\t', b't'), (b'\n', b'n')];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_escaped_path_has_no_blank_and_comes_back_whole() {
        for path in ["/a b\\s\tc\nd", "/ü/…", "\\\\ ", ""] {
            let mut line = Vec::new();
            push_escaped(path, &mut line);
            assert!(!line.iter().any(|byte| b" \t\n".contains(byte)));
            assert_eq!(unescape(&line).as_deref(), Some(path.as_bytes()));
        }
        assert_eq!(unescape(b"a\\x"), None);
        assert_eq!(unescape(b"a\\"), None);
    }
}
