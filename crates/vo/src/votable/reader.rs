//! Tables that others send (VOTable 1.4): the first table of a document, as texts, from TABLEDATA, BINARY and BINARY2. What
//! it reads is not trusted: nothing in it makes it hold more than some times its length. It never follows a link.

use data_encoding::BASE64;
use quick_xml::{
    Reader,
    events::{BytesStart, Event},
};

use super::binary_rows::{self, BinaryField};
use crate::Fault;

/// A column of such a table, as the document says it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextField {
    /// Its name.
    pub name: String,
    /// The type of its values, such as `double`.
    pub datatype: String,
    /// How many values each one is; empty for a single one.
    pub arraysize: String,
    /// Its unit; may be empty.
    pub unit: String,
    /// What it means; may be empty.
    pub ucd: String,
    /// The type beyond the datatype; may be empty.
    pub xtype: String,
    /// What it is, in a sentence; may be empty.
    pub description: String,
}

/// A table of texts. A value that is none is an empty text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextTable {
    /// The columns.
    pub fields: Vec<TextField>,
    /// A text for each column; columns that end a row may be missing.
    pub rows: Vec<Vec<String>>,
}

impl TextTable {
    /// Whether bytes look like a document in XML.
    pub fn is_document(bytes: &[u8]) -> bool {
        let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        text.trim_ascii_start().starts_with(b"<")
    }

    /// Reads the first table of a document.
    ///
    /// # Errors
    /// What is wrong with it, and what it has that is not read here.
    pub fn read(bytes: &[u8]) -> Result<Self, Fault> {
        let mut reader = Reader::from_reader(bytes);
        let mut reading = Reading::default();
        let mut buffer = Vec::new();
        loop {
            let event = reader.read_event_into(&mut buffer);
            match event.map_err(|error| wrong(&format!("it is no document in XML: {error}")))? {
                Event::Start(element) => reading.begin(&element, false)?,
                Event::Empty(element) => {
                    reading.begin(&element, true)?;
                    if reading.end(element.local_name().as_ref())? {
                        break;
                    }
                }
                Event::End(element) => {
                    if reading.end(element.local_name().as_ref())? {
                        break;
                    }
                }
                Event::Text(text) => reading.text(&text.xml10_content()),
                Event::CData(text) => reading.text(&text),
                Event::GeneralRef(reference) => {
                    let number = reference.resolve_char_ref().map_err(|error| wrong(&error.to_string()))?;
                    let name = reference.to_string();
                    let text = number
                        .map(String::from)
                        .or_else(|| quick_xml::escape::resolve_predefined_entity(&name).map(str::to_owned));
                    reading.text(&text.ok_or_else(|| wrong(&format!("the entity `{name}` is not known")))?);
                }
                // The table's end leaves this loop: what ends before it was cut off.
                Event::Eof if reading.is_table => return Err(wrong("it ends in the middle of its table")),
                Event::Eof => break,
                Event::Comment(_) | Event::Decl(_) | Event::PI(_) | Event::DocType(_) => {}
            }
            buffer.clear();
        }
        if reading.is_table { Ok(reading.table) } else { Err(wrong("it has no table")) }
    }
}

/// Where values stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Serialisation {
    #[default]
    None,
    /// An element for each value.
    Elements,
    /// Bytes in base 64; `true` with a mask of missing values before each row.
    Binary(bool),
}

/// What was read so far.
#[derive(Debug, Default)]
struct Reading {
    table: TextTable,
    fields: Vec<BinaryField>,
    /// What stands for a missing value.
    nulls: Vec<Option<String>>,
    is_table: bool,
    is_field: bool,
    serialisation: Serialisation,
    row: Vec<String>,
    /// The text of an element that counts.
    text: Option<String>,
}

impl Reading {
    fn begin(&mut self, element: &BytesStart<'_>, is_empty: bool) -> Result<(), Fault> {
        match element.local_name().as_ref() {
            "TABLE" => self.is_table = true,
            "FIELD" if self.is_table => {
                let name = attribute(element, "name")?.unwrap_or_default();
                let datatype = attribute(element, "datatype")?.unwrap_or_default();
                let arraysize = attribute(element, "arraysize")?.unwrap_or_default();
                self.fields
                    .push(BinaryField::new(&datatype, &arraysize).map_err(|why| wrong(&format!("`{name}`: {why}")))?);
                self.table.fields.push(TextField {
                    name,
                    datatype,
                    arraysize,
                    unit: attribute(element, "unit")?.unwrap_or_default(),
                    ucd: attribute(element, "ucd")?.unwrap_or_default(),
                    xtype: attribute(element, "xtype")?.unwrap_or_default(),
                    description: String::new(),
                });
                self.nulls.push(None);
                self.is_field = !is_empty;
                if self.fields.len() > COLUMNS_MAX {
                    return Err(wrong(&format!("it has more than {COLUMNS_MAX} columns")));
                }
            }
            "VALUES" if self.is_field => {
                if let Some(null) = self.nulls.last_mut() {
                    *null = attribute(element, "null")?;
                }
            }
            "DESCRIPTION" if self.is_field => self.text = Some(String::new()),
            "TABLEDATA" => self.serialisation = Serialisation::Elements,
            "BINARY" => self.serialisation = Serialisation::Binary(false),
            "BINARY2" => self.serialisation = Serialisation::Binary(true),
            "FITS" if self.is_table => {
                return Err(wrong("its rows lie in a FITS file: write them as TABLEDATA or BINARY2"));
            }
            "STREAM" => {
                if attribute(element, "href")?.is_some() {
                    return Err(wrong("its rows lie elsewhere, and links are not followed"));
                }
                match attribute(element, "encoding")?.as_deref() {
                    Some("base64") => self.text = Some(String::new()),
                    other => {
                        return Err(wrong(&format!("the encoding `{}` of rows is not read", other.unwrap_or("none"))));
                    }
                }
            }
            "TR" => self.row = Vec::with_capacity(self.fields.len().min(64)),
            "TD" => {
                if attribute(element, "encoding")?.is_some() {
                    return Err(wrong("a value with an encoding of its own is not read"));
                }
                self.text = Some(String::new());
            }
            _ => {}
        }
        Ok(())
    }

    fn text(&mut self, more: &str) {
        if let Some(text) = &mut self.text {
            text.push_str(more);
        }
    }

    /// Whether the table has ended.
    fn end(&mut self, element: &str) -> Result<bool, Fault> {
        match element {
            "FIELD" => self.is_field = false,
            "DESCRIPTION" if self.is_field => {
                let words = self.text.take().unwrap_or_default();
                if let Some(field) = self.table.fields.last_mut() {
                    field.description = words.split_whitespace().collect::<Vec<_>>().join(" ");
                }
            }
            "TD" => {
                let text = self.text.take().unwrap_or_default();
                let at = self.row.len();
                let is_null = self.nulls.get(at).is_some_and(|null| null.as_deref() == Some(text.trim()));
                self.row.push(if is_null || text.trim() == "NaN" { String::new() } else { text.trim().to_owned() });
            }
            "TR" if self.serialisation == Serialisation::Elements => {
                let row = std::mem::take(&mut self.row);
                if row.len() > self.fields.len() {
                    return Err(wrong(&format!("row {} has more values than columns", self.table.rows.len() + 1)));
                }
                // Not filled up: `<TR/>` would be 5 bytes that hold a thousand texts.
                self.table.rows.push(row);
            }
            "STREAM" => {
                let Some(text) = self.text.take() else { return Ok(false) };
                let Serialisation::Binary(has_mask) = self.serialisation else { return Ok(false) };
                let packed: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
                let bytes =
                    BASE64.decode(&packed).map_err(|error| wrong(&format!("its rows are no base 64: {error}")))?;
                let rows = binary_rows::rows(&self.fields, &self.nulls, has_mask, &bytes);
                self.table.rows = rows.map_err(|why| wrong(&why))?;
            }
            "TABLE" => return Ok(true),
            _ => {}
        }
        Ok(false)
    }
}

fn attribute(element: &BytesStart<'_>, name: &str) -> Result<Option<String>, Fault> {
    let found = element.try_get_attribute(name).map_err(|error| wrong(&error.to_string()))?;
    let value = |value: quick_xml::events::attributes::Attribute<'_>| {
        value
            .normalized_value(quick_xml::XmlVersion::Implicit1_0)
            .map(std::borrow::Cow::into_owned)
            .map_err(|error| wrong(&error.to_string()))
    };
    found.map(value).transpose()
}

fn wrong(why: &str) -> Fault {
    Fault::Usage(format!("the VOTable cannot be read: {why}"))
}

/// Columns at most: a row of a byte each would have that many texts.
const COLUMNS_MAX: usize = 1_000;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::votable::{Cell, Datatype, Field, QueryStatus, Table};

    fn document(fields: &str, data: &str) -> Vec<u8> {
        format!(
            "<?xml version='1.0'?><!DOCTYPE x><vot:VOTABLE xmlns:vot='v'><vot:RESOURCE><vot:PARAM name='p' \
             datatype='int' value='1'/><vot:TABLE>{fields}<vot:DATA>{data}</vot:DATA></vot:TABLE></vot:RESOURCE>\
             <vot:RESOURCE><vot:TABLE><vot:FIELD name='other' datatype='int'/></vot:TABLE></vot:RESOURCE></vot:VOTABLE>"
        )
        .into_bytes()
    }

    const FIELDS: &str = "<FIELD name='name' datatype='char' arraysize='*'/><FIELD name='ra' datatype='double'/>\
                          <FIELD name='n' datatype='int'><VALUES null='-9'/></FIELD>";

    #[test]
    fn what_is_written_here_is_read_again() {
        const COLUMNS: &[Field] = &[
            Field::new("name", Datatype::Text, ""),
            Field::new("ra", Datatype::Double, ""),
            Field::new("n", Datatype::Long, ""),
        ];
        let rows = vec![
            vec![Cell::from("a < b & \"c\""), Cell::from(1.5e-300), Cell::from(7_i64)],
            vec![Cell::Null, Cell::Null, Cell::from(-1_i64)],
        ];
        let table =
            Table { fields: COLUMNS, rows, outcome: QueryStatus::Complete, standard_id: "", services: Vec::new() };
        let read = TextTable::read(&table.document()).unwrap();
        let names: Vec<_> = read.fields.iter().map(|field| field.name.as_str()).collect();
        assert_eq!(names, ["name", "ra", "n"]);
        assert_eq!(read.rows, [["a < b & \"c\"", "1.5e-300", "7"], ["", "", "-1"]]);
    }

    #[test]
    fn columns_are_said_with_unit_and_meaning() {
        let fields = "<FIELD name='ra' datatype='double' unit='deg' ucd='pos.eq.ra'><DESCRIPTION>Right\n ascension \
                      </DESCRIPTION></FIELD><FIELD name='b' datatype='char' arraysize='8'/>";
        let read = TextTable::read(&document(fields, "<TABLEDATA/>")).unwrap();
        let ra = TextField {
            name: "ra".into(),
            datatype: "double".into(),
            arraysize: String::new(),
            unit: "deg".into(),
            ucd: "pos.eq.ra".into(),
            xtype: String::new(),
            description: "Right ascension".into(),
        };
        assert_eq!(read.fields[0], ra);
        assert_eq!((read.fields[1].arraysize.as_str(), read.fields[1].description.as_str()), ("8", ""));
    }

    #[test]
    fn rows_of_elements_may_be_short_and_have_null_values() {
        let data = "<TABLEDATA><TR><TD>M&#32;51<![CDATA[ <core>]]></TD><TD> 202.5 </TD><TD>-9</TD></TR>\
                    <TR><TD/><TD>NaN</TD></TR></TABLEDATA>";
        let read = TextTable::read(&document(FIELDS, data)).unwrap();
        assert_eq!(read.rows, [vec!["M 51 <core>", "202.5", ""], vec!["", ""]]);
    }

    #[test]
    fn rows_of_bytes_are_read_with_and_without_a_mask() {
        let mut plain = Vec::new();
        let mut masked = Vec::new();
        for (mask, name, ra, n) in [(0, "M51", 202.5_f64, 3_i32), (0b0110_0000, "x", f64::NAN, 4)] {
            let mut row = Vec::new();
            row.extend(u32::try_from(name.len()).unwrap().to_be_bytes());
            row.extend(name.as_bytes());
            row.extend(ra.to_be_bytes());
            row.extend(n.to_be_bytes());
            plain.extend(&row);
            masked.push(mask);
            masked.extend(&row);
        }
        let stream = |kind: &str, bytes: &[u8]| {
            let text = BASE64.encode(bytes);
            let (first, second) = text.split_at(text.len() / 2);
            document(FIELDS, &format!("<{kind}><STREAM encoding='base64'>{first}\n {second}</STREAM></{kind}>"))
        };
        let read = |kind, bytes: &[u8]| TextTable::read(&stream(kind, bytes)).map(|table| table.rows);
        assert_eq!(read("BINARY", &plain).unwrap(), [["M51", "202.5", "3"], ["x", "", "4"]]);
        assert_eq!(read("BINARY2", &masked).unwrap(), [["M51", "202.5", "3"], ["x", "", ""]]);
        for cut in 1..masked.len() - 1 {
            // Whole rows are a table; anything else is said.
            assert!(read("BINARY2", &masked[..cut]).is_err() || cut == 20, "{cut}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_said() {
        let refused = |bytes: &[u8]| TextTable::read(bytes).unwrap_err().to_string();
        for (bytes, why) in [
            (b"".to_vec(), "no table"),
            (b"<a>".to_vec(), "no table"),
            (b"<VOTABLE><TABLE></VOTABLE>".to_vec(), "no document"),
            (b"<VOTABLE><TABLE><DATA><TABLEDATA><TR></TR>".to_vec(), "in the middle"),
            (document(FIELDS, "<FITS><STREAM encoding='base64'>AA==</STREAM></FITS>"), "FITS"),
            (document(FIELDS, "<BINARY2><STREAM href='file:///etc/passwd'/></BINARY2>"), "not followed"),
            (document(FIELDS, "<BINARY2><STREAM encoding='gzip'>x</STREAM></BINARY2>"), "gzip"),
            (document(FIELDS, "<BINARY2><STREAM encoding='base64'>!</STREAM></BINARY2>"), "base 64"),
            (document(FIELDS, "<TABLEDATA><TR><TD/><TD/><TD/><TD/></TR></TABLEDATA>"), "more values"),
            (document("<FIELD name='a' datatype='colour'/>", ""), "colour"),
            (document("<FIELD name='a' datatype='int' arraysize='0'/>", ""), "array size"),
            (document(FIELDS, "<TABLEDATA><TR><TD>&boom;</TD></TR></TABLEDATA>"), "boom"),
        ] {
            assert!(refused(&bytes).contains(why), "{why}: {}", refused(&bytes));
        }
    }
}
