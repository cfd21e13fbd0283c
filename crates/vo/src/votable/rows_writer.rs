//! A document with one table of results (VOTable 1.4; DALI 1.1, 4.4) whose columns are known at run time. It is written
//! row by row, so that a server sends the beginning before it has the end. It never holds more than was not taken.

use data_encoding::BASE64;

use super::column::{Column, ColumnKind, Value};
use crate::xml::Xml;

mod encoding;
#[cfg(test)]
mod tests;

/// How rows are written (VOTable 1.4, 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Serialisation {
    /// An element for each value (VOTable 1.4, 5.1).
    TableData,
    /// Bytes in base 64, with masks of nulls (VOTable 1.4, 5.4).
    Binary2,
}

/// How a table ends (DALI 1.1, 4.4). What went wrong on the way is only known there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending<'a> {
    /// With all rows.
    Complete,
    /// With as many rows as were wanted, and there are more.
    Overflow,
    /// Too early, for this reason.
    Failed(&'a str),
}

/// A table that is being written.
#[derive(Clone, Debug)]
pub struct RowsWriter {
    kinds: Vec<ColumnKind>,
    serialisation: Serialisation,
    /// What can be sent.
    ready: Vec<u8>,
    /// Bytes of rows that are not in base 64 yet.
    raw: Vec<u8>,
}

impl RowsWriter {
    /// Begins a table. Each of `infos` is an INFO of this name and value.
    pub fn new(columns: Vec<Column>, serialisation: Serialisation, infos: &[(&str, &str)]) -> Self {
        Self::begin(&columns, serialisation, infos, false)
    }

    /// The same; with `has_ids`, columns have their names as IDs. Names must be unlike each other for that.
    pub(super) fn begin(
        columns: &[Column],
        serialisation: Serialisation,
        infos: &[(&str, &str)],
        has_ids: bool,
    ) -> Self {
        let mut xml = document();
        xml.open("RESOURCE", &[("type", "results")]);
        for (name, value) in [("QUERY_STATUS", "OK")].iter().chain(infos) {
            xml.empty("INFO", &[("name", name), ("value", value)]);
        }
        xml.open("TABLE", &[]);
        columns.iter().for_each(|column| write_field(&mut xml, column, has_ids));
        xml.open("DATA", &[]);
        match serialisation {
            Serialisation::TableData => xml.open("TABLEDATA", &[]),
            Serialisation::Binary2 => {
                xml.open("BINARY2", &[]);
                xml.open("STREAM", &[("encoding", "base64")]);
            }
        }
        let kinds = columns.iter().map(|column| column.kind).collect();
        Self { kinds, serialisation, ready: xml.finish(), raw: Vec::new() }
    }

    /// Writes a row of one value for each column. What a column cannot hold is null in it, as is what is missing.
    pub fn row<'a>(&mut self, values: impl IntoIterator<Item = Value<'a>>) {
        let mut values = values.into_iter();
        let cells = self.kinds.iter().map(|&kind| {
            let value = values.next();
            debug_assert!(value.is_some(), "a row has a value for each column");
            let value = value.unwrap_or(Value::Null);
            let is_kind = kind.is_kind_of(&value);
            debug_assert!(is_kind, "{value:?} is none of {kind:?}");
            (kind, if is_kind && kind.has_room_for(&value) { value } else { Value::Null })
        });
        match self.serialisation {
            Serialisation::TableData => encoding::tabledata(cells, &mut self.ready),
            Serialisation::Binary2 => encoding::binary2(self.kinds.len(), cells, &mut self.raw),
        }
        debug_assert!(values.next().is_none(), "a row has no more values than columns");
        if self.raw.len() >= RAW_BYTES_MAX {
            self.encode();
        }
    }

    /// What can be sent so far, each byte once. Of base 64 these are whole groups; the rest is kept for the next.
    pub fn take(&mut self) -> Vec<u8> {
        self.encode();
        // The next piece is likely as long.
        let next = Vec::with_capacity(self.ready.len());
        std::mem::replace(&mut self.ready, next)
    }

    /// How many bytes [`take`](Self::take) gives.
    pub fn buffered(&self) -> usize {
        self.ready.len() + self.raw.len() / 3 * 4
    }

    /// Ends the table, and gives what was not taken.
    pub fn finish(self, ending: Ending<'_>) -> Vec<u8> {
        self.close(ending, |_| {})
    }

    /// The same, with `further` behind the results.
    pub(super) fn close(mut self, ending: Ending<'_>, further: impl FnOnce(&mut Xml)) -> Vec<u8> {
        self.encode();
        self.encode_first(self.raw.len());
        if self.serialisation == Serialisation::TableData {
            self.ready.push(b'\n');
        }
        let mut xml = Xml::onto(self.ready);
        match self.serialisation {
            Serialisation::TableData => xml.close("TABLEDATA"),
            Serialisation::Binary2 => {
                xml.close("STREAM");
                xml.close("BINARY2");
            }
        }
        xml.close("DATA");
        xml.close("TABLE");
        match ending {
            Ending::Complete => {}
            Ending::Overflow => xml.empty("INFO", &[("name", "QUERY_STATUS"), ("value", "OVERFLOW")]),
            Ending::Failed(why) => write_error(&mut xml, why),
        }
        xml.close("RESOURCE");
        further(&mut xml);
        xml.close("VOTABLE");
        xml.finish()
    }

    /// Puts into base 64 what needs no padding.
    fn encode(&mut self) {
        self.encode_first(self.raw.len() / 3 * 3);
    }

    fn encode_first(&mut self, count: usize) {
        let from = self.ready.len();
        self.ready.resize(from + BASE64.encode_len(count), 0);
        BASE64.encode_mut(&self.raw[..count], &mut self.ready[from..]);
        self.raw.drain(..count);
    }
}

/// A document with its root.
pub(super) fn document() -> Xml {
    let mut xml = Xml::new();
    xml.open("VOTABLE", &[("version", "1.4"), ("xmlns", "http://www.ivoa.net/xml/VOTable/v1.3")]);
    xml
}

/// The INFO that says why there are no rows, or no more (DALI 1.1, 4.4).
pub(super) fn write_error(xml: &mut Xml, why: &str) {
    xml.text("INFO", &[("name", "QUERY_STATUS"), ("value", "ERROR")], why);
}

fn write_field(xml: &mut Xml, column: &Column, has_ids: bool) {
    let id = if has_ids { column.name.as_str() } else { "" };
    let further = [
        ("ID", id),
        ("datatype", column.kind.datatype()),
        ("arraysize", column.kind.arraysize().unwrap_or_default()),
        ("ucd", &column.ucd),
        ("utype", &column.utype),
        ("unit", &column.unit),
        ("xtype", &column.xtype),
    ];
    let mut attributes = vec![("name", column.name.as_str())];
    attributes.extend(further.into_iter().filter(|(_, value)| !value.is_empty()));
    if column.description.is_empty() {
        return xml.empty("FIELD", &attributes);
    }
    xml.open("FIELD", &attributes);
    xml.text("DESCRIPTION", &[], &column.description);
    xml.close("FIELD");
}

/// Bytes of rows that wait for base 64. They still lie in the processor's cache then.
const RAW_BYTES_MAX: usize = 48 << 10;
