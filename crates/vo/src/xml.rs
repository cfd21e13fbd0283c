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
        self.event(Event::Text(BytesText::new(&allowed(text))));
        self.close(name);
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
        element.push_attribute((*name, allowed(value).as_str()));
    }
    element
}

/// XML has no way to write most control characters (1.0, 2.2).
fn allowed(text: &str) -> String {
    let is_allowed = |c: char| matches!(c, '\t' | '\n' | '\r') || (c >= ' ' && !matches!(c, '\u{fffe}' | '\u{ffff}'));
    text.chars().map(|c| if is_allowed(c) { c } else { '\u{fffd}' }).collect()
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
}
