//! What is written is read as it was, of all kinds and with values that are not there.

#![allow(clippy::unwrap_used)]
use fits::table::{FitsColumn, FitsTable, FitsValues, read, write};

/// A table of every kind.
pub(crate) fn all_kinds() -> FitsTable {
    let text = |text: &str| Some(text.to_owned());
    let values = [
        FitsValues::Booleans(vec![Some(true), Some(false), None]),
        FitsValues::Bytes(vec![Some(255), Some(0), None]),
        FitsValues::Shorts(vec![Some(i16::MIN), None, Some(i16::MAX)]),
        FitsValues::Ints(vec![None, Some(i32::MIN), Some(i32::MIN + 1)]),
        FitsValues::Longs(vec![Some(i64::MIN), Some(i64::MAX), None]),
        FitsValues::Floats(vec![Some(1.5), None, Some(f32::INFINITY)]),
        FitsValues::Doubles(vec![Some(-0.1), None, Some(1e300)]),
        FitsValues::Texts(vec![text(" M 31"), None, text("it's a longer one")]),
        FitsValues::IntegerLists(vec![Some(vec![1, -2, 3]), None, Some(vec![i64::from(i32::MAX)])]),
        FitsValues::IntegerLists(vec![None, Some(vec![i64::MAX]), Some(vec![0, i64::MIN])]),
        FitsValues::RealLists(vec![Some(vec![0.1]), Some(vec![2.0, -3.5]), None]),
    ];
    let columns = values.into_iter().zip(1..).map(|(values, number)| FitsColumn {
        name: format!("column_{number}"),
        unit: if number % 2 == 0 { "km / s".into() } else { String::new() },
        ucd: if number % 3 == 0 { "phys.veloc;pos.heliocentric".into() } else { String::new() },
        description: format!("A description that is longer than a card, of the column with the number {number}"),
        values,
    });
    FitsTable { columns: columns.collect(), rows: 3 }
}

#[test]
fn every_kind_is_read_as_it_was_written() {
    let table = all_kinds();
    let file = write(&table).unwrap();
    assert_eq!(file.len() % 2880, 0);
    assert_eq!(read(&file).unwrap(), table);
    let header = String::from_utf8_lossy(&file);
    for keyword in ["CHECKSUM=", "DATASUM =", "TNULL2  =                  254", "TFORM8  = '17A", "TFORM9  = '1PJ(3)"] {
        assert!(header.contains(keyword), "{keyword}");
    }
    assert!(!header.contains("TNULL1 "), "only integers have one");
}

#[test]
fn no_rows_and_no_columns_are_a_table_too() {
    let mut table = all_kinds();
    table.rows = 0;
    for column in &mut table.columns {
        column.values = match &column.values {
            FitsValues::IntegerLists(_) => FitsValues::IntegerLists(Vec::new()),
            FitsValues::RealLists(_) => FitsValues::RealLists(Vec::new()),
            FitsValues::Texts(_) => FitsValues::Texts(Vec::new()),
            _ => FitsValues::Doubles(Vec::new()),
        };
    }
    assert_eq!(read(&write(&table).unwrap()).unwrap(), table);
    let nothing = FitsTable::default();
    assert_eq!(read(&write(&nothing).unwrap()).unwrap(), nothing);
}

#[test]
fn columns_without_any_value_keep_their_kind() {
    let values = [
        FitsValues::Booleans(vec![None; 2]),
        FitsValues::Bytes(vec![None; 2]),
        FitsValues::Longs(vec![None; 2]),
        FitsValues::Texts(vec![None; 2]),
        FitsValues::IntegerLists(vec![None; 2]),
        FitsValues::RealLists(vec![None; 2]),
    ];
    let columns = values.into_iter().zip(1..).map(|(values, number)| FitsColumn::new(format!("c{number}"), values));
    let table = FitsTable { columns: columns.collect(), rows: 2 };
    assert_eq!(read(&write(&table).unwrap()).unwrap(), table);
}

#[test]
fn what_fits_cannot_say_becomes_a_question_mark_or_nothing() {
    let texts = FitsValues::Texts(["é\n", "end  ", "  "].map(|text| Some(text.to_owned())).to_vec());
    let mut column = FitsColumn::new("größe", texts);
    column.unit = "µm".into();
    let table = FitsTable { columns: vec![column], rows: 3 };
    let read = read(&write(&table).unwrap()).unwrap();
    let texts = FitsValues::Texts(vec![Some("??".into()), Some("end".into()), None]);
    let found = &read.columns[0];
    assert_eq!((found.name.as_str(), found.unit.as_str(), &found.values), ("gr??e", "?m", &texts));
}

#[test]
fn one_long_text_among_many_short_ones_is_no_column_of_blanks() {
    let mut texts = vec![Some("short".to_owned()); 2_000];
    texts[7] = Some("long ".repeat(8_000).trim_end().to_owned());
    texts[8] = None;
    let table = FitsTable { rows: texts.len(), columns: vec![FitsColumn::new("text", FitsValues::Texts(texts))] };
    let file = write(&table).unwrap();
    assert!(file.len() < 100_000);
    assert_eq!(read(&file).unwrap(), table);
}

#[test]
fn a_table_that_makes_no_sense_is_refused() {
    let bytes = (0..=255).map(Some).chain([None]).collect();
    let full = FitsTable { rows: 257, columns: vec![FitsColumn::new("full", FitsValues::Bytes(bytes))] };
    let short = FitsTable { rows: 2, columns: vec![FitsColumn::new("short", FitsValues::Shorts(vec![None]))] };
    let column = FitsColumn::new("many", FitsValues::Bytes(Vec::new()));
    let many = FitsTable { rows: 0, columns: vec![column; 1_000] };
    for (table, said) in [(full, "`full` has every integer"), (short, "`short` has 1 rows"), (many, "TFIELDS")] {
        let refused = write(&table).unwrap_err();
        assert_eq!(refused.class(), "usage");
        assert!(refused.to_string().contains(said), "{refused}");
    }
}
