//! Rows that leave a journal and come into another.

#![allow(clippy::unwrap_used)]

use super::*;
use crate::RowChange;

fn set(table: &'static str, key: u32, bytes: usize) -> RowChange {
    RowChange::Set { table, key: key.to_be_bytes().to_vec(), value: vec![7; bytes] }
}

fn filled(folder: &Path) -> Journal {
    let journal = Journal::open(&folder.join("a.redb")).unwrap();
    let rows: Vec<_> = (0..300).map(|key| set(["b", "c"][key as usize % 2], key, key as usize)).collect();
    journal.commit(&rows).unwrap();
    journal
}

/// Table, key, value.
type Row = (String, Vec<u8>, Vec<u8>);

fn rows_of(bytes: &[u8]) -> Result<Vec<Row>, RowsError> {
    let mut rows = Vec::new();
    let mut take = |table: &str, key: &[u8], value: &[u8]| {
        rows.push((table.to_owned(), key.to_vec(), value.to_vec()));
        Ok(())
    };
    let mut from = bytes;
    let count = read_rows(&mut from, &mut take)?;
    assert_eq!(count, rows.len() as u64);
    Ok(rows)
}

/// Changes the journal at its first write, when the rows' moment is over.
struct Changing<'a> {
    journal: &'a Journal,
    out: Vec<u8>,
}

impl Write for Changing<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.out.is_empty() {
            let gone = RowChange::Remove { table: "b", key: 0_u32.to_be_bytes().to_vec() };
            self.journal.commit(&[set("b", 9_999, 1), set("new", 1, 1), gone]).unwrap();
        }
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

// Promise 62.
#[test]
fn what_is_exported_is_of_one_moment_although_the_journal_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let journal = filled(folder.path());
    let mut changing = Changing { journal: &journal, out: Vec::new() };
    assert_eq!(journal.export(&mut changing).unwrap(), 300);
    let rows = rows_of(&changing.out).unwrap();
    assert!(rows.iter().all(|(table, ..)| table != "new"));
    assert_eq!(rows.iter().filter(|(table, ..)| table == "b").count(), 150);
    assert!(rows.iter().any(|(table, key, _)| table == "b" && key[..] == [0; 4]));
    let mut count = 0;
    journal.load("b", &mut |_, _| count += 1).unwrap();
    assert_eq!(count, 150, "one came and one went meanwhile");
}

#[test]
fn an_import_has_the_rows_of_the_wanted_tables_and_overwrites_no_journal() {
    let folder = tempfile::tempdir().unwrap();
    let mut bytes = Vec::new();
    filled(folder.path()).export(&mut bytes).unwrap();
    let path = folder.path().join("b.redb");
    assert_eq!(Journal::import(&path, &mut &bytes[..], &|table| table == "c").unwrap(), 300);
    let journal = Journal::open(&path).unwrap();
    let mut found = Vec::new();
    journal.load("c", &mut |key, value| found.push((key.to_vec(), value.len()))).unwrap();
    assert_eq!(found.len(), 150);
    assert!(found.iter().all(|(key, bytes)| u32::from_be_bytes(key[..].try_into().unwrap()) as usize == *bytes));
    journal.load("b", &mut |_, _| panic!("this table was not wanted")).unwrap();
    drop(journal);
    assert!(Journal::import(&path, &mut &bytes[..], &|_| true).is_err());
}

// Promise 62.
#[test]
fn rows_that_are_cut_anywhere_or_changed_in_their_frame_are_not_taken_for_whole() {
    let folder = tempfile::tempdir().unwrap();
    let mut bytes = Vec::new();
    filled(folder.path()).export(&mut bytes).unwrap();
    for end in (0..bytes.len()).step_by(97).chain([bytes.len() - 1]) {
        assert!(matches!(rows_of(&bytes[..end]), Err(RowsError::Truncated | RowsError::NotRows)), "cut at {end}");
    }
    let with = |at: usize, byte: u8| {
        let mut bytes = bytes.clone();
        bytes[at] = byte;
        rows_of(&bytes)
    };
    assert!(matches!(with(0, b'X'), Err(RowsError::NotRows)));
    assert!(matches!(with(4, 9), Err(RowsError::Version(9))));
    assert!(matches!(with(5, ROW), Err(RowsError::Damaged(_))), "a row without a table");
    assert!(matches!(with(bytes.len() - 1, 1), Err(RowsError::Damaged(_))), "another number of rows");
    assert!(matches!(with(6, 0xff), Err(RowsError::Truncated)), "a length that is a lie");
    let mut refused = bytes[..5].to_vec();
    write_refusal(&mut refused, "the disk has failed").unwrap();
    assert!(matches!(rows_of(&refused), Err(RowsError::Refused(why)) if why == "the disk has failed"));
}
