//! Documents in XML. Text and attributes are escaped here, once. It never reads one.

use quick_xml::{
    Writer,
    events::{BytesDecl, BytesEnd, BytesStart, BytesText, Event},
};

/// A document that is being written.
pub(crate) struct Xml {
    writer: Writer<Vec<u8>>,
}

impl Xml {
    /// A document with its declaration.
    pub(crate) fn new() -> Self {
        let mut xml = Self { writer: Writer::new_with_indent(Vec::new(), b' ', 1) };
        xml.event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)));
        xml
    }

    /// Goes on behind what is there, such as the ends of elements that were begun in it.
    pub(crate) fn onto(bytes: Vec<u8>) -> Self {
        Self { writer: Writer::new_with_indent(bytes, b' ', 1) }
    }

    /// Begins an element.
    pub(crate) fn open(&mut self, name: &str, attributes: &[(&str, &str)]) {
        self.event(Event::Start(start(name, attributes)));
    }

    /// Ends it.
    pub(crate) fn close(&mut self, name: &str) {
        self.event(Event::End(BytesEnd::new(name)));
    }

    /// An element without content.
    pub(crate) fn empty(&mut self, name: &str, attributes: &[(&str, &str)]) {
        self.event(Event::Empty(start(name, attributes)));
    }

    /// An element with a text.
    pub(crate) fn text(&mut self, name: &str, attributes: &[(&str, &str)], text: &str) {
        if text.is_empty() {
            return self.empty(name, attributes);
        }
        self.open(name, attributes);
        self.event(Event::Text(BytesText::new(&allowed_text(text))));
        self.close(name);
    }

    /// An element with a text, where there is one.
    pub(crate) fn optional(&mut self, name: &str, text: &str) {
        if !text.is_empty() {
            self.text(name, &[], text);
        }
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        self.writer.into_inner()
    }

    fn event(&mut self, event: Event<'_>) {
        // Writing to memory does not fail.
        let _ = self.writer.write_event(event);
    }
}

fn start<'a>(name: &'a str, attributes: &[(&str, &str)]) -> BytesStart<'a> {
    let mut element = BytesStart::new(name);
    for (name, value) in attributes {
        element.push_attribute((*name, allowed_text(value).as_str()));
    }
    element
}

/// XML has no way to write most control characters (1.0, 2.2). This one stands for them.
pub(crate) fn allowed(c: char) -> char {
    let is_allowed = matches!(c, '\t' | '\n' | '\r') || (c >= ' ' && !matches!(c, '\u{fffe}' | '\u{ffff}'));
    if is_allowed { c } else { char::REPLACEMENT_CHARACTER }
}

fn allowed_text(text: &str) -> String {
    text.chars().map(allowed).collect()
}

/// Appends the text of an element, escaped. It allocates nothing else.
pub(crate) fn escape_onto(bytes: &mut Vec<u8>, text: &str) {
    // `0xef` begins the two characters beyond the control characters that are not allowed.
    let is_plain = |byte: u8| byte >= b' ' && !matches!(byte, b'<' | b'>' | b'&' | 0xef);
    // Most texts are plain, and this loop needs no decoding.
    if text.bytes().all(is_plain) {
        return bytes.extend_from_slice(text.as_bytes());
    }
    for c in text.chars().map(allowed) {
        match c {
            '<' => bytes.extend_from_slice(b"&lt;"),
            '>' => bytes.extend_from_slice(b"&gt;"),
            '&' => bytes.extend_from_slice(b"&amp;"),
            // As itself, a reader takes it for an end of line (XML 1.0, 2.11).
            '\r' => bytes.extend_from_slice(b"&#13;"),
            c => bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_strangers_write_stays_text() {
        let mut xml = Xml::new();
        xml.open("a", &[("b", "\"<&\u{1}")]);
        xml.text("c", &[], "</c><d>&\u{0}");
        xml.text("e", &[], "");
        xml.close("a");
        let text = String::from_utf8(xml.finish()).unwrap();
        assert!(text.contains("<a b=\"&quot;&lt;&amp;\u{fffd}\">"), "{text}");
        assert!(text.contains("<c>&lt;/c&gt;&lt;d&gt;&amp;\u{fffd}</c>"), "{text}");
        assert!(text.contains("<e/>") && text.ends_with("</a>"), "{text}");
    }

    #[test]
    fn texts_are_appended_as_a_reader_takes_them() {
        for (text, escaped) in [
            ("", ""),
            ("plain \"text\"", "plain \"text\""),
            ("a<b>&c", "a&lt;b&gt;&amp;c"),
            ("\t\n\r\u{0}\u{1f}", "\t\n&#13;\u{fffd}\u{fffd}"),
            ("\u{ffff}\u{fffe}\u{fffd}\u{ff21}\u{1f600}", "\u{fffd}\u{fffd}\u{fffd}\u{ff21}\u{1f600}"),
        ] {
            let mut bytes = b"x".to_vec();
            escape_onto(&mut bytes, text);
            assert_eq!(String::from_utf8(bytes).unwrap(), format!("x{escaped}"));
        }
    }
}
