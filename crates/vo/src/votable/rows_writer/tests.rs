//! What is written row by row is read again by the crate's own reader, in both serialisations.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::votable::TextTable;

const KINDS: [ColumnKind; 14] = [
    ColumnKind::Boolean,
    ColumnKind::UnsignedByte,
    ColumnKind::Short,
    ColumnKind::Int,
    ColumnKind::Long,
    ColumnKind::Float,
    ColumnKind::Double,
    ColumnKind::Text,
    ColumnKind::UnsignedBytes,
    ColumnKind::Shorts,
    ColumnKind::Ints,
    ColumnKind::Longs,
    ColumnKind::Floats,
    ColumnKind::Doubles,
];
const BOTH: [Serialisation; 2] = [Serialisation::TableData, Serialisation::Binary2];

fn columns(kinds: &[ColumnKind]) -> Vec<Column> {
    kinds.iter().enumerate().map(|(at, &kind)| Column::new(format!("c{at}"), kind)).collect()
}

fn document_of(kinds: &[ColumnKind], serialisation: Serialisation, rows: &[Vec<Value<'_>>]) -> Vec<u8> {
    let mut writer = RowsWriter::new(columns(kinds), serialisation, &[]);
    rows.iter().for_each(|row| writer.row(row.iter().copied()));
    writer.finish(Ending::Complete)
}

/// The rows as the reader gives them. Infinities have two names there.
fn read_rows(document: &[u8]) -> Vec<Vec<String>> {
    let rows = TextTable::read(document).unwrap().rows;
    let named = |text: &str| match text {
        "+Inf" => "inf".to_owned(),
        "-Inf" => "-inf".to_owned(),
        text => text.to_owned(),
    };
    let numbers = |text: String| {
        if text.contains("Inf") { text.split(' ').map(named).collect::<Vec<_>>().join(" ") } else { text }
    };
    rows.into_iter().map(|row| row.into_iter().map(numbers).collect()).collect()
}

#[test]
fn each_kind_of_value_comes_back_from_both() {
    use ColumnKind as Kind;
    let (small, large) = ([0, 255], [i64::MIN, -1, i64::MAX]);
    let cases: &[(ColumnKind, Value<'_>, &str)] = &[
        (Kind::Boolean, Value::Boolean(true), "true"),
        (Kind::Boolean, Value::Boolean(false), "false"),
        (Kind::UnsignedByte, Value::Integer(255), "255"),
        (Kind::UnsignedByte, Value::Integer(256), ""),
        (Kind::UnsignedByte, Value::Integer(-1), ""),
        (Kind::Short, Value::Integer(-32_768), "-32768"),
        (Kind::Short, Value::Integer(32_768), ""),
        (Kind::Int, Value::Integer(-2_147_483_648), "-2147483648"),
        (Kind::Int, Value::Integer(2_147_483_648), ""),
        (Kind::Long, Value::Integer(i64::MIN), "-9223372036854775808"),
        (Kind::Float, Value::Real(0.1), "0.1"),
        (Kind::Float, Value::Real(1e300), "inf"),
        (Kind::Float, Value::Real(f64::NAN), ""),
        (Kind::Double, Value::Real(0.1), "0.1"),
        (Kind::Double, Value::Real(-1.5e-300), "-1.5e-300"),
        (Kind::Double, Value::Real(f64::NEG_INFINITY), "-inf"),
        (Kind::Double, Value::Real(f64::NAN), ""),
        (Kind::Text, Value::Text("a < b & \"c\" ]]> '\u{3b1}\u{1f600}"), "a < b & \"c\" ]]> '\u{3b1}\u{1f600}"),
        (Kind::Text, Value::Text("a\r\n\tb"), "a\r\n\tb"),
        (Kind::Text, Value::Text("a\0b\u{ffff}c"), "a\u{fffd}b\u{fffd}c"),
        (Kind::Text, Value::Text(""), ""),
        (Kind::UnsignedBytes, Value::Integers(&small), "0 255"),
        (Kind::UnsignedBytes, Value::Integers(&large), ""),
        (Kind::Shorts, Value::Integers(&small), "0 255"),
        (Kind::Ints, Value::Integers(&[7]), "7"),
        (Kind::Longs, Value::Integers(&large), "-9223372036854775808 -1 9223372036854775807"),
        (Kind::Longs, Value::Integers(&[]), ""),
        (Kind::Floats, Value::Reals(&[0.1, f64::INFINITY]), "0.1 inf"),
        (Kind::Doubles, Value::Reals(&[0.1, -2.0]), "0.1 -2.0"),
    ];
    for (kind, value, text) in cases {
        for serialisation in BOTH {
            let rows = read_rows(&document_of(&[*kind], serialisation, &[vec![*value], vec![Value::Null]]));
            assert_eq!(rows, [[*text], [""]], "{kind:?} {value:?} {serialisation:?}");
        }
    }
}

#[test]
fn elements_say_what_the_reader_does_not_tell_apart() {
    let kinds = [ColumnKind::Text, ColumnKind::Text, ColumnKind::Double, ColumnKind::Doubles];
    let reals = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e16];
    let row = vec![Value::Null, Value::Text(""), Value::Real(f64::NAN), Value::Reals(&reals)];
    let text = String::from_utf8(document_of(&kinds, Serialisation::TableData, &[row])).unwrap();
    let expected = "\n<TR><TD/><TD></TD><TD>NaN</TD><TD>NaN +Inf -Inf 1e16</TD></TR>\n</TABLEDATA>";
    assert!(text.contains(expected), "{text}");
}

/// The bytes of the stream of a document.
fn stream(document: &[u8]) -> Vec<u8> {
    let text = std::str::from_utf8(document).unwrap();
    let (_, rest) = text.split_once("<STREAM encoding=\"base64\">").unwrap();
    BASE64.decode(rest.split_once("</STREAM>").unwrap().0.as_bytes()).unwrap()
}

#[test]
fn bytes_are_as_the_standard_has_them() {
    let row = |all: &[Value<'static>]| all.to_vec();
    let few = [ColumnKind::Boolean, ColumnKind::Short, ColumnKind::Text, ColumnKind::Float, ColumnKind::Ints];
    let rows = [
        row(&[
            Value::Boolean(true),
            Value::Integer(-2),
            Value::Text("\u{3b1}\u{1f600}"),
            Value::Real(1.5),
            Value::Null,
        ]),
        vec![Value::Null; 5],
    ];
    let mut expected = b"\x08T\xff\xfe\0\0\0\x03\x03\xb1\xd8\x3d\xde\0\x3f\xc0\0\0\0\0\0\0".to_vec();
    expected.extend(b"\xf8?\0\0\0\0\0\0");
    expected.extend(f32::NAN.to_be_bytes());
    expected.extend(b"\0\0\0\0");
    assert_eq!(stream(&document_of(&few, Serialisation::Binary2, &rows)), expected);
    // The ninth column begins a second byte of the mask.
    let mut nine = vec![Value::Integer(1); 9];
    nine[0] = Value::Null;
    nine[8] = Value::Null;
    let bytes = stream(&document_of(&[ColumnKind::UnsignedByte; 9], Serialisation::Binary2, &[nine]));
    assert_eq!(bytes, [0x80, 0x80, 0, 1, 1, 1, 1, 1, 1, 1, 0]);
    assert_eq!(stream(&document_of(&few, Serialisation::Binary2, &[])), b"");
}

#[test]
fn columns_and_infos_are_said_at_the_head() {
    let column = Column {
        name: "ra".into(),
        kind: ColumnKind::Double,
        unit: "deg".into(),
        ucd: "pos.eq.ra;meta.main".into(),
        utype: "a:b.c".into(),
        xtype: "x".into(),
        description: "Right <ascension>".into(),
    };
    let kinds = columns(&KINDS);
    let all = [vec![column], kinds].concat();
    let writer = RowsWriter::new(all.clone(), Serialisation::TableData, &[("QUERY", "SELECT \"a\" < 1")]);
    let document = writer.finish(Ending::Complete);
    let read = TextTable::read(&document).unwrap();
    assert_eq!((read.fields[0].unit.as_str(), read.fields[0].ucd.as_str()), ("deg", "pos.eq.ra;meta.main"));
    assert_eq!(read.fields[0].description, "Right <ascension>");
    for (column, field) in all.iter().zip(&read.fields) {
        assert_eq!((&column.name, column.kind.datatype()), (&field.name, field.datatype.as_str()));
        assert_eq!(column.kind.arraysize().unwrap_or_default(), field.arraysize);
    }
    let text = String::from_utf8(document).unwrap();
    for part in [
        "<VOTABLE version=\"1.4\" xmlns=\"http://www.ivoa.net/xml/VOTable/v1.3\">\n <RESOURCE type=\"results\">\n",
        "<INFO name=\"QUERY_STATUS\" value=\"OK\"/>\n  <INFO name=\"QUERY\" value=\"SELECT &quot;a&quot; &lt; 1\"/>\n  <TABLE>",
        "utype=\"a:b.c\" unit=\"deg\" xtype=\"x\">",
        "<FIELD name=\"c7\" datatype=\"unicodeChar\" arraysize=\"*\"/>",
    ] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
}

#[test]
fn the_end_says_what_became_of_the_query() {
    for serialisation in BOTH {
        let end = |ending| {
            let mut writer = RowsWriter::new(columns(&[ColumnKind::Int]), serialisation, &[]);
            writer.row([Value::Integer(7)]);
            let document = writer.finish(ending);
            assert_eq!(read_rows(&document), [["7"]]);
            let text = String::from_utf8(document).unwrap();
            text.split_once("</DATA>").unwrap().1.replace('\n', "")
        };
        assert_eq!(end(Ending::Complete), "</TABLE></RESOURCE></VOTABLE>");
        let overflow = "</TABLE><INFO name=\"QUERY_STATUS\" value=\"OVERFLOW\"/></RESOURCE></VOTABLE>";
        assert_eq!(end(Ending::Overflow), overflow);
        let failed = "</TABLE><INFO name=\"QUERY_STATUS\" value=\"ERROR\">a &lt; b</INFO></RESOURCE></VOTABLE>";
        assert_eq!(end(Ending::Failed("a < b")), failed);
    }
}

#[test]
fn pieces_are_the_document_wherever_they_are_taken() {
    // Rows of each length modulo 3, so that each rest of base 64 occurs.
    let kinds = [ColumnKind::UnsignedBytes];
    let numbers: Vec<i64> = (0..12).collect();
    let rows: Vec<Vec<Value<'_>>> =
        (0..numbers.len()).map(|length| vec![Value::Integers(&numbers[..length])]).collect();
    for serialisation in BOTH {
        let whole = document_of(&kinds, serialisation, &rows);
        let head = RowsWriter::new(columns(&kinds), serialisation, &[]).take();
        for cuts in 0..1 << rows.len() {
            let mut writer = RowsWriter::new(columns(&kinds), serialisation, &[]);
            let mut pieces = Vec::new();
            for (at, row) in rows.iter().enumerate() {
                writer.row(row.iter().copied());
                if cuts >> at & 1 == 1 {
                    let buffered = writer.buffered();
                    let piece = writer.take();
                    assert_eq!((piece.len(), writer.buffered()), (buffered, 0));
                    pieces.extend(piece);
                    let is_whole = (pieces.len() - head.len()).is_multiple_of(4);
                    assert!(serialisation == Serialisation::TableData || is_whole);
                }
            }
            pieces.extend(writer.finish(Ending::Complete));
            assert_eq!(pieces, whole, "{cuts:b}");
        }
    }
}

#[test]
fn many_rows_are_one_stream() {
    let text = "M 51".repeat(30);
    let count = 3 * RAW_BYTES_MAX / (2 * text.len());
    let rows = vec![vec![Value::Text(&text)]; count];
    let mut writer = RowsWriter::new(columns(&[ColumnKind::Text]), Serialisation::Binary2, &[]);
    let (mut taken, mut pieces) = (0, Vec::new());
    for row in &rows {
        writer.row(row.iter().copied());
        if writer.buffered() > 1_000_000 / 16 {
            taken += 1;
            pieces.extend(writer.take());
        }
    }
    pieces.extend(writer.finish(Ending::Complete));
    assert!(taken >= 2, "{taken}");
    assert!(pieces == document_of(&[ColumnKind::Text], Serialisation::Binary2, &rows));
    assert!(read_rows(&pieces).iter().all(|row| row == std::slice::from_ref(&text)));
    assert_eq!(read_rows(&pieces).len(), count);
}

/// Numbers that look random and are the same each time (Numerical Recipes, 7.1.4).
struct Generator(u64);

impl Generator {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // The low bits of such a generator are poor.
        self.0 >> 33
    }

    fn below(&mut self, bound: u64) -> usize {
        usize::try_from(self.next() % bound).unwrap()
    }

    /// A whole number of up to 63 bits, often a small one.
    fn integer(&mut self) -> i64 {
        let bits = (self.next() << 32 | self.next()) << 1;
        bits.cast_signed() >> self.below(64)
    }

    /// A real number that is one.
    fn real(&mut self) -> f64 {
        self.integer() as f64 / [1.0, 3.0, 1e9, 1e-12][self.below(4)]
    }

    fn text(&mut self) -> String {
        const CHARS: [char; 16] = [
            'a',
            '<',
            '>',
            '&',
            '"',
            '\'',
            ']',
            ' ',
            '\n',
            '\r',
            '\u{1}',
            '\u{e9}',
            '\u{3b1}',
            '\u{ffff}',
            '\u{ff21}',
            '\u{1f600}',
        ];
        let middle: String = (0..self.below(20)).map(|_| CHARS[self.below(16)]).collect();
        // The reader cuts blanks off the ends.
        format!("[{middle}]")
    }
}

/// What a value of its own holds.
enum Owned {
    Null,
    Boolean(bool),
    Integer(i64),
    Real(f64),
    Text(String),
    Integers(Vec<i64>),
    Reals(Vec<f64>),
}

impl Owned {
    fn random(kind: ColumnKind, generator: &mut Generator) -> Self {
        if generator.below(5) == 0 {
            return Self::Null;
        }
        let count = generator.below(5);
        match kind {
            ColumnKind::Boolean => Self::Boolean(generator.below(2) == 1),
            ColumnKind::Float | ColumnKind::Double => Self::Real(generator.real()),
            ColumnKind::Text => Self::Text(generator.text()),
            ColumnKind::Floats | ColumnKind::Doubles => Self::Reals((0..count).map(|_| generator.real()).collect()),
            _ if kind.arraysize().is_some() => Self::Integers((0..count).map(|_| generator.integer()).collect()),
            _ => Self::Integer(generator.integer()),
        }
    }

    fn value(&self) -> Value<'_> {
        match self {
            Self::Null => Value::Null,
            Self::Boolean(is_true) => Value::Boolean(*is_true),
            Self::Integer(number) => Value::Integer(*number),
            Self::Real(number) => Value::Real(*number),
            Self::Text(text) => Value::Text(text),
            Self::Integers(numbers) => Value::Integers(numbers),
            Self::Reals(numbers) => Value::Reals(numbers),
        }
    }

    /// As the reader should give it, said in another way than the writer's.
    fn expected(&self, kind: ColumnKind) -> String {
        let is_small = |number: &i64| match kind.datatype() {
            "unsignedByte" => u8::try_from(*number).is_ok(),
            "short" => i16::try_from(*number).is_ok(),
            "int" => i32::try_from(*number).is_ok(),
            _ => true,
        };
        let real = |number: &f64| match kind.datatype() {
            "float" => format!("{:?}", *number as f32),
            _ => format!("{number:?}"),
        };
        match self {
            Self::Null => String::new(),
            Self::Boolean(is_true) => is_true.to_string(),
            Self::Integer(number) => {
                if is_small(number) {
                    number.to_string()
                } else {
                    String::new()
                }
            }
            Self::Real(number) => real(number),
            Self::Text(text) => text.replace(['\u{1}', '\u{ffff}'], "\u{fffd}"),
            Self::Integers(numbers) if numbers.iter().all(is_small) => {
                numbers.iter().map(i64::to_string).collect::<Vec<_>>().join(" ")
            }
            Self::Integers(_) => String::new(),
            Self::Reals(numbers) => numbers.iter().map(real).collect::<Vec<_>>().join(" "),
        }
    }
}

#[test]
fn random_tables_come_back_from_both() {
    for seed in 0..40 {
        let mut generator = Generator(seed);
        let kinds: Vec<_> = (0..1 + generator.below(20)).map(|_| KINDS[generator.below(14)]).collect();
        let mut row = || kinds.iter().map(|&kind| Owned::random(kind, &mut generator)).collect::<Vec<_>>();
        let rows: Vec<_> = (0..30).map(|_| row()).collect();
        let expected: Vec<Vec<_>> = rows
            .iter()
            .map(|row| row.iter().zip(&kinds).map(|(value, &kind)| value.expected(kind)).collect())
            .collect();
        let values: Vec<Vec<_>> = rows.iter().map(|row| row.iter().map(Owned::value).collect()).collect();
        for serialisation in BOTH {
            let read = read_rows(&document_of(&kinds, serialisation, &values));
            assert_eq!(read, expected, "seed {seed} {serialisation:?}");
        }
    }
}

#[test]
fn a_value_of_another_kind_is_none_of_the_column() {
    let of_each = [
        Value::Boolean(true),
        Value::Integer(1),
        Value::Real(1.0),
        Value::Text("a"),
        Value::Integers(&[1]),
        Value::Reals(&[1.0]),
    ];
    for kind in KINDS {
        assert!(kind.is_kind_of(&Value::Null));
        assert_eq!(of_each.iter().filter(|value| kind.is_kind_of(value)).count(), 1, "{kind:?}");
    }
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "is none of Int")]
fn a_value_of_another_kind_is_a_fault_of_the_program() {
    RowsWriter::new(columns(&[ColumnKind::Int]), Serialisation::TableData, &[]).row([Value::Text("1")]);
}
