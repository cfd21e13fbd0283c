//! Which columns of a table are its position: those that say so, by their unified content descriptor, or by names that
//! catalogues use. It never guesses between two.

use client::Reason;
use datafusion::arrow::datatypes::Schema;
use terminal::Failure;

/// The columns of right ascension and declination, in degrees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PositionColumns {
    pub(crate) ra: String,
    pub(crate) dec: String,
}

impl PositionColumns {
    /// Those of a table, which is named `table` to people.
    ///
    /// # Errors
    /// A table that does not say where its rows are.
    pub(crate) fn of(schema: &Schema, table: &str) -> Result<Self, Failure> {
        let ra = find(schema, RA_UCD, &RA_NAMES);
        let dec = find(schema, DEC_UCD, &DEC_NAMES);
        match (ra, dec) {
            (Some(ra), Some(dec)) => Ok(Self { ra, dec }),
            _ => {
                let message = format!(
                    "`{table}` does not say where its rows are: no column has the UCD pos.eq.ra or pos.eq.dec, nor a name \
                     like ra and dec"
                );
                Err(Failure::new(Reason::Invalid, message))
            }
        }
    }
}

fn find(schema: &Schema, ucd: &str, names: &[&str]) -> Option<String> {
    let numbers = || schema.fields().iter().filter(|field| field.data_type().is_numeric());
    let said = |main: bool| {
        numbers().find(|field| {
            let words = field.metadata().get("ucd").map(|ucd| ucd.to_ascii_lowercase()).unwrap_or_default();
            let mut words = words.split(';').map(str::trim);
            words.next() == Some(ucd) && (!main || words.any(|word| word == "meta.main"))
        })
    };
    let named = || names.iter().find_map(|name| numbers().find(|field| field.name().eq_ignore_ascii_case(name)));
    said(true).or_else(|| said(false)).or_else(named).map(|field| field.name().clone())
}

const RA_UCD: &str = "pos.eq.ra";
const DEC_UCD: &str = "pos.eq.dec";
const RA_NAMES: [&str; 8] = ["ra", "raj2000", "ra_icrs", "radeg", "ra_deg", "_raj2000", "s_ra", "right_ascension"];
const DEC_NAMES: [&str; 8] = ["dec", "dej2000", "de_icrs", "dedeg", "dec_deg", "_dej2000", "s_dec", "declination"];

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::collections::HashMap;

    use datafusion::arrow::datatypes::{DataType, Field};

    use super::*;

    fn field(name: &str, ucd: &str) -> Field {
        Field::new(name, DataType::Float64, true).with_metadata(HashMap::from([("ucd".to_owned(), ucd.to_owned())]))
    }

    #[test]
    fn what_a_column_says_counts_more_than_its_name() {
        let schema = Schema::new(vec![
            field("ra", ""),
            field("alpha_b", "pos.eq.ra"),
            field("alpha", "pos.eq.ra;meta.main"),
            field("delta", "POS.EQ.DEC;meta.main"),
            field("e_delta", "stat.error;pos.eq.dec"),
        ]);
        let found = PositionColumns::of(&schema, "t").unwrap();
        assert_eq!(found, PositionColumns { ra: "alpha".into(), dec: "delta".into() });
    }

    #[test]
    fn names_of_catalogues_are_known() {
        let schema = Schema::new(vec![field("RAJ2000", ""), field("DEJ2000", "")]);
        assert_eq!(PositionColumns::of(&schema, "t").unwrap().dec, "DEJ2000");
        let none = Schema::new(vec![field("ra", ""), Field::new("dec", DataType::Utf8, true)]);
        assert!(PositionColumns::of(&none, "/t").unwrap_err().message.contains("`/t`"));
    }
}
