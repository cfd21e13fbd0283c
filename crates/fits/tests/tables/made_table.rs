//! Files with a table made card by card, so that a test may say anything in them. It never checks what it writes.

/// A card with a value as it stands in the file.
pub(crate) fn card(name: &str, value: impl ToString) -> String {
    format!("{name:<8}= {:>20}", value.to_string())
}

/// A card with a text.
pub(crate) fn text(name: &str, value: &str) -> String {
    format!("{name:<8}= '{value:<8}'")
}

/// A header unit of these cards, with its end and its fill.
fn header(cards: &[String]) -> Vec<u8> {
    let cards = cards.iter().map(String::as_str).chain(["END"]);
    let mut bytes: Vec<u8> = cards.flat_map(|card| format!("{card:<80}").into_bytes()).collect();
    bytes.resize(bytes.len().next_multiple_of(2880), b' ');
    bytes
}

/// A file with a table of this kind, and data as they are.
pub(crate) fn file(kind: &str, row_bytes: u64, rows: u64, heap_bytes: u64, columns: &[String], data: &[u8]) -> Vec<u8> {
    let mut bytes = header(&[card("SIMPLE", "T"), card("BITPIX", 8), card("NAXIS", 0)]);
    let mut cards = vec![text("XTENSION", kind), card("BITPIX", 8), card("NAXIS", 2), card("NAXIS1", row_bytes)];
    cards.extend([card("NAXIS2", rows), card("PCOUNT", heap_bytes), card("GCOUNT", 1)]);
    let count = columns.iter().filter(|card| card.starts_with("TFORM")).count();
    cards.push(card("TFIELDS", count));
    bytes.extend(header(&[cards, columns.to_vec()].concat()));
    bytes.extend(data);
    bytes.resize(bytes.len().next_multiple_of(2880), 0);
    bytes
}

/// A binary table whose columns have these formats.
pub(crate) fn binary(row_bytes: u64, rows: u64, heap_bytes: u64, formats: &[&str], data: &[u8]) -> Vec<u8> {
    let columns: Vec<_> =
        formats.iter().zip(1..).map(|(format, number)| text(&format!("TFORM{number}"), format)).collect();
    file("BINTABLE", row_bytes, rows, heap_bytes, &columns, data)
}
