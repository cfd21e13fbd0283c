//! Tables as other programs write them: scaled, without signs, with bits, arrays, complex values, and in ASCII.

#![allow(clippy::unwrap_used)]
use fits::table::{FitsValues, read};

use crate::made_table::{binary, card, file, text};

/// The values of the only column, of a format and further cards.
fn values(format: &str, row_bytes: u64, further: &[String], data: &[u8]) -> FitsValues {
    let columns = [&[text("TFORM1", format)], further].concat();
    let rows = data.len() as u64 / row_bytes;
    read(&file("BINTABLE", row_bytes, rows, 0, &columns, data)).unwrap().columns.remove(0).values
}

#[test]
fn the_other_signedness_is_the_next_larger_integer() {
    let zero = |zero: &str| vec![card("TZERO1", zero), card("TSCAL1", 1)];
    let null = |zero: &str, null: i64| vec![card("TZERO1", zero), card("TNULL1", null)];
    assert_eq!(values("B", 1, &zero("-128"), &[0, 255]), FitsValues::Shorts(vec![Some(-128), Some(127)]));
    let shorts = [i16::MIN, i16::MAX].map(i16::to_be_bytes).concat();
    assert_eq!(values("1I", 2, &zero("32768"), &shorts), FitsValues::Ints(vec![Some(0), Some(65_535)]));
    assert_eq!(values("1I", 2, &null("32768", -32_768), &shorts), FitsValues::Ints(vec![None, Some(65_535)]));
    let ints = [i32::MIN, i32::MAX].map(i32::to_be_bytes).concat();
    assert_eq!(values("J", 4, &zero("2147483648.0"), &ints), FitsValues::Longs(vec![Some(0), Some(4_294_967_295)]));
    let longs = [i64::MIN, -1].map(i64::to_be_bytes).concat();
    let large = "9223372036854775808";
    assert_eq!(values("K", 8, &zero(large), &longs), FitsValues::Longs(vec![Some(0), Some(i64::MAX)]));
    let longs = [i64::MIN, 0, 7].map(i64::to_be_bytes).concat();
    let digits = vec![Some("0".into()), Some(large.into()), None];
    assert_eq!(values("K", 8, &null(large, 7), &longs), FitsValues::Texts(digits));
}

#[test]
fn scaled_numbers_are_reals() {
    let scaled = [card("TSCAL1", "0.5"), card("TZERO1", "10"), card("TNULL1", "-1")];
    let shorts = [4_i16, -1].map(i16::to_be_bytes).concat();
    assert_eq!(values("I", 2, &scaled, &shorts), FitsValues::Doubles(vec![Some(12.0), None]));
    let pairs = [4_i16, -1, 0, 2].map(i16::to_be_bytes).concat();
    let FitsValues::RealLists(lists) = values("2I", 4, &scaled, &pairs) else { panic!("no list of reals") };
    assert!(lists[0].as_ref().unwrap()[1].is_nan());
    assert_eq!((lists[0].as_ref().unwrap()[0], lists[1].as_deref()), (12.0, Some(&[10.0, 11.0][..])));
    let floats = [2.0_f32, f32::NAN].map(f32::to_be_bytes).concat();
    assert_eq!(values("E", 4, &scaled, &floats), FitsValues::Doubles(vec![Some(11.0), None]));
}

#[test]
fn arrays_bits_and_complex_values_are_lists() {
    let lists = |lists: &[&[i64]]| FitsValues::IntegerLists(lists.iter().map(|list| Some(list.to_vec())).collect());
    assert_eq!(values("11X", 2, &[], &[0b1010_0000, 0b0010_0000]), lists(&[&[1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1]]));
    assert_eq!(values("2L", 2, &[], b"TFFT"), lists(&[&[1, 0], &[0, 1]]));
    assert_eq!(values("3B", 3, &[card("TZERO1", -128)], &[0, 128, 255]), lists(&[&[-128, 0, 127]]));
    let complex = [1.0_f32, -2.0].map(f32::to_be_bytes).concat();
    assert_eq!(values("C", 8, &[], &complex), FitsValues::RealLists(vec![Some(vec![1.0, -2.0])]));
    let moved = [card("TSCAL1", 2), card("TZERO1", 10)];
    assert_eq!(values("C", 8, &moved, &complex), FitsValues::RealLists(vec![Some(vec![12.0, -4.0])]));
    let FitsValues::RealLists(lists) = values("2L", 2, &[], b"T\0") else { panic!("no list of reals") };
    assert!(lists[0].as_ref().unwrap()[0] == 1.0 && lists[0].as_ref().unwrap()[1].is_nan());
    let large = [i64::MAX, 5].map(i64::to_be_bytes).concat();
    let columns = [text("TFORM1", "2K"), text("TTYPE1", "id"), card("TNULL1", 5)];
    let refused = read(&file("BINTABLE", 16, 1, 0, &columns, &large)).unwrap_err();
    assert_eq!(refused.class(), "unsupported");
    assert!(refused.to_string().contains("`id`"), "{refused}");
}

#[test]
fn arrays_of_variable_length_are_found_in_the_heap() {
    let descriptors = [2_i32, 4, 0, -7, 3, 0].map(i32::to_be_bytes).concat();
    // Behind a gap of two bytes, `THEAP` says where the heap begins.
    let heap = [&[9, 9][..], b"abc ", &5_i16.to_be_bytes(), &(-6_i16).to_be_bytes()].concat();
    let data = [&descriptors[..], &heap].concat();
    let found = |format: &str| {
        let columns = [text("TFORM1", format), card("THEAP", 26)];
        read(&file("BINTABLE", 8, 3, heap.len() as u64, &columns, &data)).unwrap().columns.remove(0)
    };
    let shorts = vec![Some(vec![5, -6]), None, Some(vec![0x6162, 0x6320, 5])];
    assert_eq!(found("1PI(3)").values, FitsValues::IntegerLists(shorts));
    assert_eq!(found("1PA").values, FitsValues::Texts(vec![None, None, Some("abc".into())]), "a zero ends a text");
    assert_eq!(found("1PA").name, "col1");
    let bits = FitsValues::IntegerLists(vec![Some(vec![0, 0]), None, Some(vec![0, 1, 1])]);
    assert_eq!(found("PX").values, bits);
}

#[test]
fn texts_end_at_a_zero_or_at_their_blanks() {
    let texts = vec![Some("a b".into()), Some("x".into()), None, None];
    assert_eq!(values("4A", 4, &[], b"a b x\0zz    \0yyy"), FitsValues::Texts(texts));
    let shape = [text("TDIM1", "(3,2)")];
    let texts = vec![Some("a  bcd".into()), Some("   e".into()), Some("f".into())];
    assert_eq!(
        values("6A", 6, &shape, b"a\0xbcd\0\0\0e  f  \0  "),
        FitsValues::Texts(texts.clone()),
        "arrays of texts"
    );
    assert_eq!(values("6A3", 6, &[], b"a\0xbcd\0\0\0e  f  \0  "), FitsValues::Texts(texts), "arrays of texts");
    let empty = read(&binary(1, 2, 0, &["0A", "B", "0J", "0PE"], &[1, 2])).unwrap();
    assert_eq!(empty.columns[0].values, FitsValues::Texts(vec![None, None]));
    assert_eq!(empty.columns[2].values, FitsValues::IntegerLists(vec![None, None]));
}

#[test]
fn an_ascii_table_is_read_by_its_places() {
    let mut columns = Vec::new();
    for (number, (format, place)) in
        (1..).zip([("A6", 1), ("I4", 8), ("F6.2", 12), ("E9.2", 19), ("I2", 10), ("D9.2", 19)])
    {
        columns.extend([text(&format!("TFORM{number}"), format), card(&format!("TBCOL{number}"), place)]);
    }
    columns.extend([text("TNULL2", "-99"), text("TTYPE1", "name"), text("TUNIT3", "mag"), card("TSCAL5", "0.5")]);
    columns.extend([text("TUCD3", "phot.mag"), text("TCOMM3", "How bright"), text("TNULL6", "")]);
    let rows = ["M 31     12  3.44 -1.00E+01", "        -99   344          "];
    let found = read(&file("TABLE", 27, 2, 0, &columns, rows.concat().as_bytes())).unwrap();
    let [name, number, real, other, scaled, blank] = &found.columns[..] else { panic!("six columns") };
    assert_eq!((name.name.as_str(), &name.values), ("name", &FitsValues::Texts(vec![Some("M 31".into()), None])));
    assert_eq!(number.values, FitsValues::Longs(vec![Some(12), None]));
    assert_eq!(real.values, FitsValues::Doubles(vec![Some(3.44), Some(3.44)]), "without a point, it is implied");
    assert_eq!([real.unit.as_str(), &real.ucd, &real.description], ["mag", "phot.mag", "How bright"]);
    assert_eq!(other.values, FitsValues::Doubles(vec![Some(-10.0), Some(0.0)]));
    assert_eq!(scaled.values, FitsValues::Doubles(vec![Some(6.0), Some(49.5)]));
    assert_eq!(blank.values, FitsValues::Doubles(vec![Some(-10.0), None]));
}

#[test]
fn reals_that_are_not_finite_are_read_of_ascii_tables_too() {
    let columns = [text("TFORM1", "D9.2"), card("TBCOL1", 1), text("TNULL1", "none")];
    let found = |rows: &str| read(&file("TABLE", 9, rows.len() as u64 / 9, 0, &columns, rows.as_bytes()));
    let reals = vec![None, Some(-150.0), Some(f64::NEG_INFINITY), None, Some(0.0)];
    let table = found("      NAN-1.50D+02     -INF     none         ").unwrap();
    assert_eq!(table.columns[0].values, FitsValues::Doubles(reals));
    for rows in ["      NAN      150", "      NAN    1.5.0", "infinit e"] {
        let refused = found(rows).unwrap_err();
        assert!(refused.class() == "damaged" && refused.to_string().contains("`col1`"), "{refused}");
    }
}
