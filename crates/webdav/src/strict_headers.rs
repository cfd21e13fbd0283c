//! Headers of WebDAV, looked at before the protocol's crate reads them. A condition that it cannot read counts for none there,
//! and it reads beyond the end of what is not closed. So what cannot be read is refused. It never says whether a condition
//! holds.

use http::{HeaderMap, HeaderName, HeaderValue, header};
use url::Url;

use crate::failure::DavFailure;

/// Refuses headers that would be read as if they were not there, and writes those in one way that are written in several.
pub(crate) fn check(headers: &mut HeaderMap) -> Result<(), DavFailure> {
    for name in ONCE {
        if headers.get_all(&name).iter().nth(1).is_some() {
            return Err(DavFailure::invalid(format!("the header `{name}` is there more than once")));
        }
    }
    for name in [header::IF_MATCH, header::IF_NONE_MATCH] {
        if !text(headers, name.as_str())?.is_none_or(|tags| tags.trim() == "*" || tags.split(',').all(is_tag)) {
            return Err(DavFailure::invalid(format!("`{name}` is no list of entity tags")));
        }
    }
    if let Some(list) = text(headers, "if")? {
        conditions(list).ok_or_else(|| DavFailure::invalid("the header `If` cannot be read"))?;
    }
    if let Some(word) = text(headers, "overwrite")? {
        let word = match word.trim() {
            "T" | "t" => "T",
            "F" | "f" => "F",
            other => return Err(DavFailure::invalid(format!("`Overwrite: {other}` is neither T nor F"))),
        };
        headers.insert("overwrite", HeaderValue::from_static(word));
    }
    if let Some(depth) = text(headers, "depth")? {
        let depth = match depth.trim().to_ascii_lowercase().as_str() {
            "0" => "0",
            "1" => "1",
            "1,noroot" => "1,noroot",
            "infinity" => "infinity",
            other => return Err(DavFailure::invalid(format!("`Depth: {other}` is neither 0, 1 nor infinity"))),
        };
        headers.insert("depth", HeaderValue::from_static(depth));
    }
    // A length that is only expected would cut what is longer.
    headers.remove("x-expected-entity-length");
    // With it the protocol's crate would list whole trees.
    headers.remove("x-litmus");
    Ok(())
}

/// The tokens of locks that the header `If` submits; `None` if it has other conditions, too.
pub(crate) fn lock_tokens(headers: &HeaderMap) -> Option<Vec<String>> {
    let Some(list) = headers.get("if").and_then(|list| list.to_str().ok()) else { return Some(Vec::new()) };
    let tokens = conditions(list)?.into_iter().map(|condition| match condition {
        (false, Item::Token(token)) => Some(token),
        _ => None,
    });
    tokens.collect()
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, DavFailure> {
    let value = headers.get(name).map(HeaderValue::to_str).transpose();
    value.map_err(|_| DavFailure::invalid(format!("the header `{name}` is no text")))
}

/// Whether it is an entity tag.
fn is_tag(text: &str) -> bool {
    let text = text.trim();
    let quoted = text.strip_prefix("W/").unwrap_or(text);
    quoted.len() >= 2 && quoted.starts_with('"') && quoted.ends_with('"') && !quoted[1..quoted.len() - 1].contains('"')
}

/// What a condition of `If` is about.
#[derive(Debug, PartialEq, Eq)]
enum Item {
    Token(String),
    Tag(String),
}

/// The conditions of `If` (RFC 4918, 10.4), each with whether it is turned round; `None` if it cannot be read.
fn conditions(text: &str) -> Option<Vec<(bool, Item)>> {
    let (mut rest, mut found) = (text.trim(), Vec::new());
    while !rest.is_empty() {
        if rest.starts_with('<') {
            let (resource, after) = closed(rest, '>')?;
            Url::parse(resource).ok()?;
            rest = after;
        }
        rest = rest.strip_prefix('(')?.trim_start();
        let before = found.len();
        while !rest.starts_with(')') {
            let turned = rest.strip_prefix("Not").map(str::trim_start);
            rest = turned.unwrap_or(rest);
            let (item, after) = match rest.chars().next()? {
                '<' => closed(rest, '>').map(|(token, after)| (Item::Token(token.to_owned()), after))?,
                '[' => closed(rest, ']').map(|(tag, after)| (Item::Tag(tag.to_owned()), after))?,
                _ => return None,
            };
            let is_one = match &item {
                Item::Token(token) => token.contains(':'),
                Item::Tag(tag) => is_tag(tag),
            };
            found.push((turned.is_some(), is_one.then_some(item)?));
            rest = after;
        }
        if found.len() == before {
            return None;
        }
        rest = rest[1..].trim_start();
    }
    (!found.is_empty()).then_some(found)
}

/// What stands between brackets, without blanks or quotes of one side alone, and what follows.
fn closed(text: &str, end: char) -> Option<(&str, &str)> {
    let mut is_quoted = false;
    for (at, letter) in text.char_indices().skip(1) {
        match letter {
            '"' => is_quoted = !is_quoted,
            letter if letter == end && !is_quoted => {
                return Some((&text[1..at], text[at + end.len_utf8()..].trim_start()));
            }
            letter if letter.is_whitespace() => return None,
            _ => {}
        }
    }
    None
}

/// Headers of which only one is read.
const ONCE: [HeaderName; 8] = [
    HeaderName::from_static("if"),
    HeaderName::from_static("overwrite"),
    HeaderName::from_static("depth"),
    HeaderName::from_static("destination"),
    HeaderName::from_static("source"),
    HeaderName::from_static("lock-token"),
    header::IF_MATCH,
    header::IF_NONE_MATCH,
];

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn checked(pairs: &[(&'static str, &str)]) -> Result<HeaderMap, DavFailure> {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, value.parse().unwrap());
        }
        check(&mut headers).map(|()| headers)
    }

    #[test]
    fn what_cannot_be_read_is_refused_and_not_left_out() {
        for good in ["(<urn:x>)", r#"<http://a/b> (["x]y"] Not <DAV:no-lock>) (<urn:y>)"#, r#"(Not[W/"a"]<urn:b>)"#] {
            assert!(checked(&[("if", good)]).is_ok(), "{good}");
        }
        for wrong in [
            "(<urn:x",
            r#"(["a"#,
            r#"(["a]"#,
            "<",
            "[",
            "(<urn:x >)",
            r#"(<a"b>)"#,
            "",
            "()",
            "( )",
            "(Not)",
            "x",
            "(<x>)",
            r#"(["a"]) x"#,
            r#"("a")"#,
            "</a> (<urn:x>)",
            "<http://a>",
            "(urn:x)",
            r#"([a])"#,
            r#"(["])"#,
        ] {
            assert!(checked(&[("if", wrong)]).is_err(), "{wrong}");
        }
        for (name, wrong) in
            [("if-match", "\""), ("if-none-match", "\"a\", \""), ("if-match", "a"), ("overwrite", "no"), ("depth", "2")]
        {
            assert!(checked(&[(name, wrong)]).is_err(), "{name}: {wrong}");
        }
        assert!(checked(&[("overwrite", "F"), ("overwrite", "F")]).is_err());
        assert!(checked(&[("if-none-match", "*")]).is_ok() && checked(&[("if-match", "\"a\", W/\"b\"")]).is_ok());
    }

    #[test]
    fn what_is_written_in_several_ways_is_read_in_one() {
        let headers = checked(&[("overwrite", "f"), ("depth", "Infinity"), ("x-litmus", "1")]).unwrap();
        assert_eq!(
            (&headers["overwrite"], &headers["depth"]),
            (&HeaderValue::from_static("F"), &HeaderValue::from_static("infinity"))
        );
        assert!(!headers.contains_key("x-litmus"));
    }

    #[test]
    fn tokens_of_locks_are_taken_where_nothing_else_is_asked() {
        let tokens = |list: &str| lock_tokens(&checked(&[("if", list)]).unwrap());
        assert_eq!(tokens("(<urn:x>) (<urn:y>)"), Some(vec!["urn:x".into(), "urn:y".into()]));
        assert_eq!(tokens(r#"(<urn:x> ["a"])"#), None);
        assert_eq!(tokens("(Not <urn:x>)"), None);
        assert_eq!(lock_tokens(&HeaderMap::new()), Some(Vec::new()));
    }
}
