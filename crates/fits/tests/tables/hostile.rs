//! Tables that claim what is not so: each ends with an error that says it, before memory is taken.

#![allow(clippy::unwrap_used)]
use fits::table::{FitsTable, FitsTableError, read, write};

use crate::{
    made_table::{binary, card, file, text},
    round_trip::all_kinds,
};

fn class(file: &[u8]) -> &'static str {
    read(file).map_or_else(|error: FitsTableError| error.class(), |_| "ok")
}

#[test]
fn what_has_no_table_says_so() {
    let images = write(&FitsTable::default()).unwrap()[..2880].to_vec();
    assert_eq!(class(&images), "no-table");
    for bytes in [&b""[..], b"SIMPLE  =", &[0; 2880], &[b' '; 5760], b"\x1f\x8b\x08", &[b'A'; 10_000]] {
        assert_eq!(class(bytes), "damaged");
    }
}

#[test]
fn headers_that_contradict_the_file_are_damaged() {
    let data = [0; 12];
    for (row_bytes, rows, heap_bytes, formats) in [
        (4, 1 << 40, 0, &["J"][..]),
        (4, u64::MAX / 2, 0, &["J"]),
        (1 << 62, 1 << 62, 0, &["J"]),
        (4, 3_000, 0, &["J"]),
        (5, 2, 0, &["J"]),
        (4, 3, 0, &["4611686018427387904J"]),
        (4, 3, 0, &["99999999999999999999999J"]),
        (4, 3, 0, &["J", "K"]),
        (4, 3, 0, &["Z"]),
        (4, 3, 0, &[""]),
        (8, 1, 0, &["2PJ"]),
        (4, 3, 1 << 50, &["J"]),
        (0, 1 << 60, 0, &["0J"]),
        (0, 1 << 60, 0, &[]),
    ] {
        assert_eq!(
            class(&binary(row_bytes, rows, heap_bytes, formats, &data)),
            "damaged",
            "{row_bytes} {rows} {formats:?}"
        );
    }
    let whole = write(&all_kinds()).unwrap();
    for bytes in [0, 1, 2_880, 3_000, 5_760, whole.len() - 2_880, whole.len() - 2_800] {
        assert_ne!(class(&whole[..bytes]), "ok", "the first {bytes} bytes");
    }
}

#[test]
fn arrays_outside_of_the_heap_are_damaged() {
    for (count, place) in [(1_i32, 0_i32), (-1, 0), (1, -4), (i32::MAX, 0), (1, i32::MAX), (3, 4)] {
        let data = [count.to_be_bytes(), place.to_be_bytes(), [0; 4]].concat();
        let found = class(&binary(8, 1, 0, &["1PJ(9)"], &data));
        assert!(["damaged", "too-large"].contains(&found), "{count} {place}: {found}");
    }
    let data = [i64::MAX.to_be_bytes(), i64::MAX.to_be_bytes()].concat();
    assert!(["damaged", "too-large"].contains(&class(&binary(16, 1, 0, &["1QX"], &data))));
}

#[test]
fn small_files_take_no_large_memory() {
    // Each row is the whole heap.
    let rows = 4_000;
    let descriptor = [100_000_i32.to_be_bytes(), [0; 4]].concat();
    let shared = [descriptor.repeat(rows), vec![0; 100_000]].concat();
    assert_eq!(class(&binary(8, rows as u64, 100_000, &["1PB(100000)"], &shared)), "too-large");
    // Columns of no bytes, beside one that has one.
    let formats = [vec!["B"], vec!["0J"; 998]].concat();
    assert_eq!(class(&binary(1, 100_000, 0, &formats, &vec![0; 100_000])), "too-large");
    // Columns of the same bytes.
    let mut columns = Vec::new();
    for number in 1..=999 {
        columns.extend([text(&format!("TFORM{number}"), "A100"), card(&format!("TBCOL{number}"), 1)]);
    }
    assert_eq!(class(&file("TABLE", 100, 10_000, 0, &columns, &vec![b'x'; 1_000_000])), "too-large");
    // What the standard's plainest columns take is allowed.
    for format in ["1A", "1L", "1B"] {
        assert_eq!(class(&binary(1, 300_000, 0, &[format], &vec![b'T'; 300_000])), "ok", "{format}");
    }
}

#[test]
fn random_damage_never_panics() {
    let mut random = fastrand::Rng::with_seed(2026);
    let whole = write(&all_kinds()).unwrap();
    let ascii_columns = [text("TFORM1", "I4"), card("TBCOL1", 1), text("TFORM2", "E8.1"), card("TBCOL2", 5)];
    let ascii = file("TABLE", 12, 3, 0, &ascii_columns, b"  12 1.0E+02   7        -9999       3");
    let other = binary(37, 2, 6, &["11X", "1PX", "3A", "2C", "8B"], &[1; 80]);
    assert_eq!([class(&whole), class(&ascii)], ["ok", "ok"]);
    let digits = b"0123456789";
    let letters = b"LXBIJKAEDCMPQ'(), -+T";
    let mut found = std::collections::BTreeMap::new();
    for turn in 0..4_000 {
        let mut bent = [&whole, &ascii, &other][turn % 3].clone();
        for _ in 0..random.usize(1..6) {
            // The headers of the tables are what most of the damage is for.
            let at = if random.bool() { random.usize(2_880..5_760) } else { random.usize(..bent.len()) };
            bent[at] = match bent[at] {
                byte if byte.is_ascii_digit() && random.u8(..4) > 0 => digits[random.usize(..digits.len())],
                b'A'..=b'Z' if random.u8(..4) > 0 => letters[random.usize(..letters.len())],
                _ => random.u8(..),
            };
        }
        if random.u8(..8) == 0 {
            bent.truncate(random.usize(..bent.len()));
        }
        *found.entry(class(&bent)).or_insert(0) += 1;
    }
    assert!(found["ok"] > 100 && found["damaged"] > 100, "{found:?}");
}
