//! A table in memory, the same for what is read and what is written. It never says in which of several ways a file holds
//! a value.

use fits_well::header::Header;

use crate::Keywords;

/// A table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FitsTable {
    /// The columns, in the order of the file.
    pub columns: Vec<FitsColumn>,
    /// How many rows each column has (`NAXIS2`).
    pub rows: usize,
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct FitsColumn {
    /// Its name (`TTYPEn`; FITS 4.0, 7.2.2 and 7.3.2). One without is named by its number, `col1` and so on.
    pub name: String,
    /// The unit of its values (`TUNITn`); empty if there is none.
    pub unit: String,
    /// What it means, as a word of the IVOA's (`TUCDn`, a convention of many archives); empty if nothing says so.
    pub ucd: String,
    /// What it means, for readers (`TCOMMn`, a convention as well); empty if nothing says so.
    pub description: String,
    /// Its values.
    pub values: FitsValues,
}

/// The values of a column, row by row. `None` is a value that is not there.
///
/// In files that is the integer `TNULLn`, or not a number, or what is empty. Of booleans it is a byte of zero (FITS 4.0,
/// 7.3.2 and 7.3.3).
#[derive(Clone, Debug, PartialEq)]
pub enum FitsValues {
    /// Logical values (`L`).
    Booleans(Vec<Option<bool>>),
    /// Integers of 8 bits without sign (`B`).
    Bytes(Vec<Option<u8>>),
    /// Integers of 16 bits (`I`), and of 8 bits with sign.
    Shorts(Vec<Option<i16>>),
    /// Integers of 32 bits (`J`), and of 16 bits without sign.
    Ints(Vec<Option<i32>>),
    /// Integers of 64 bits (`K`), of 32 bits without sign, and those of 64 bits without sign that all fit.
    Longs(Vec<Option<i64>>),
    /// Reals of single precision (`E`).
    Floats(Vec<Option<f32>>),
    /// Reals of double precision (`D`), and all values that `TSCALn` or `TZEROn` make real.
    Doubles(Vec<Option<f64>>),
    /// Texts (`A`), without the blanks at their ends. Integers of 64 bits without sign are digits where one is too large.
    Texts(Vec<Option<String>>),
    /// Arrays of integers, of logical values (0 and 1) or of bits (`X`).
    IntegerLists(Vec<Option<Vec<i64>>>),
    /// Arrays of reals, and of integers of which some are undefined; those are not a number here. A complex value is two
    /// reals after each other.
    RealLists(Vec<Option<Vec<f64>>>),
}

impl FitsValues {
    /// How many rows they are.
    pub fn rows(&self) -> usize {
        match self {
            Self::Booleans(values) => values.len(),
            Self::Bytes(values) => values.len(),
            Self::Shorts(values) => values.len(),
            Self::Ints(values) => values.len(),
            Self::Longs(values) => values.len(),
            Self::Floats(values) => values.len(),
            Self::Doubles(values) => values.len(),
            Self::Texts(values) => values.len(),
            Self::IntegerLists(values) => values.len(),
            Self::RealLists(values) => values.len(),
        }
    }
}

impl FitsColumn {
    /// A column of these values alone.
    pub fn new(name: impl Into<String>, values: FitsValues) -> Self {
        let (unit, ucd, description) = (String::new(), String::new(), String::new());
        Self { name: name.into(), unit, ucd, description, values }
    }

    /// What the header says of the column with this number, counted from 1, without values.
    pub(super) fn described(header: &Header, number: usize) -> Self {
        let keywords = Keywords::new(header);
        let text = |name: &str| keywords.text(&format!("{name}{number}")).map(str::to_owned);
        Self {
            name: text("TTYPE").unwrap_or_else(|| format!("col{number}")),
            unit: text("TUNIT").unwrap_or_default(),
            ucd: text("TUCD").unwrap_or_default(),
            description: text("TCOMM").unwrap_or_default(),
            values: FitsValues::Booleans(Vec::new()),
        }
    }
}
