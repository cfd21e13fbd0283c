//! ADQL 2.1 (IVOA), the SQL of the Virtual Observatory, as a statement of the engine. The parser is the engine's own, with
//! a dialect; what ADQL has and SQL has not is rewritten in the parsed statement. It never makes a text that is parsed
//! again.

mod dialect;
mod error;
mod geometry;
mod mathematics;
mod query;
mod top;

pub(crate) use query::AdqlQuery;
