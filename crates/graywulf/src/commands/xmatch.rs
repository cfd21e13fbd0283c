//! `sector xmatch`: the pairs of two catalogues, as a statement would give them. It never forms a pair itself.

use client::{Client, SectorPath};
use terminal::{Failure, Global};

use super::sql::{Asked, answer_to};
use crate::arguments::Xmatch;

/// `sector xmatch`.
pub(super) async fn run(cloud: &Client, arguments: &Xmatch, global: &Global) -> Result<(), Failure> {
    let Xmatch { left, right, radius, best, columns, output, workers, room } = arguments;
    let settings = room.settings(SectorPath::root())?;
    let columns: Vec<_> = columns.iter().map(|column| identifier(column.trim())).collect();
    let columns = if columns.is_empty() { "*".to_owned() } else { columns.join(", ") };
    let keep = if *best { "best" } else { "all" };
    let (left, right) = (literal(left), literal(right));
    let statement = format!("SELECT {columns} FROM xmatch({left}, {right}, {radius:?}, '{keep}')");
    let asked = Asked { settings, statement, output, workers: workers.workers()? };
    answer_to(cloud, &asked, global).await
}

/// A text as SQL writes it.
fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// A name as SQL writes it.
fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_named_ends_no_text() {
        assert_eq!(literal("/a'b"), "'/a''b'");
        assert_eq!(identifier("a\" FROM x"), "\"a\"\" FROM x\"");
    }
}
