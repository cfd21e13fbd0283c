//! The header `If` (RFC 4918, 10.4), looked at before the protocol's crate reads it: that one reads beyond the end of what is
//! not closed. It never says whether a condition holds.

use http::HeaderMap;

use crate::failure::DavFailure;

/// Refuses a header in which something is not closed.
pub(crate) fn check(headers: &HeaderMap) -> Result<(), DavFailure> {
    let mut given = headers.get_all(http::header::HeaderName::from_static("if")).into_iter();
    match given.find(|value| !is_closed(value.as_bytes())) {
        Some(_) => Err(DavFailure::invalid("something in the header `If` is not closed")),
        None => Ok(()),
    }
}

/// Whether each `<` and `[` has its end, in which no blank is, and none that stands in quotes counts.
fn is_closed(text: &[u8]) -> bool {
    let mut end = None;
    let mut is_quoted = false;
    for &byte in text {
        match (end, byte) {
            (None, b'<') => end = Some(b'>'),
            (None, b'[') => end = Some(b']'),
            (None, _) => {}
            (Some(closing), byte) if byte == closing && !is_quoted => end = None,
            (Some(_), b'"') => is_quoted = !is_quoted,
            (Some(_), byte) if byte.is_ascii_whitespace() => return false,
            (Some(_), _) => {}
        }
    }
    end.is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_closed_is_refused_before_anybody_reads_beyond_its_end() {
        for good in ["(<urn:x>)", r#"<http://a/b> (["x]y"] Not <DAV:no-lock>) (<urn:y>)"#, "", "( )"] {
            assert!(is_closed(good.as_bytes()), "{good}");
        }
        for wrong in ["(<urn:x", r#"(["a"#, r#"(["a]"#, "<", "[", "(<urn:x >)", r#"(<a"b>)"#] {
            assert!(!is_closed(wrong.as_bytes()), "{wrong}");
        }
    }
}
