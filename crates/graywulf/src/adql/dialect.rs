//! What the parser is to know of ADQL (2.1, 2.1). It never allows what only some database has.

use datafusion::sql::sqlparser::dialect::Dialect;

/// ADQL.
#[derive(Debug)]
pub(super) struct AdqlDialect;

impl Dialect for AdqlDialect {
    /// Letters, and what names of catalogues begin with, such as `_RAJ2000`.
    fn is_identifier_start(&self, c: char) -> bool {
        c.is_ascii_alphabetic() || c == '_'
    }

    fn is_identifier_part(&self, c: char) -> bool {
        c.is_ascii_alphanumeric() || c == '_'
    }

    fn is_delimited_identifier_start(&self, c: char) -> bool {
        c == '"'
    }
}
