//! The tuples of a job, grouped by image. It is a [`PathTable`]: each image has the digest of its content, and a line
//! for each of its tuples. It never holds the tuples of another job.

use super::Tuple;
use crate::path_table::{PathTable, TableError};

/// A table of tuples.
#[derive(Clone, Copy, Debug)]
pub struct TupleTable<'a> {
    paths: PathTable<'a>,
}

/// The tuples of one image.
#[derive(Clone, Debug, PartialEq)]
pub struct TupleGroup {
    /// What identifies the image's content; empty if that is not known.
    pub content: String,
    /// The tuples, in the order of the table they came from.
    pub tuples: Vec<Tuple>,
}

impl<'a> TupleTable<'a> {
    /// Opens a table.
    ///
    /// # Errors
    /// If the bytes are none.
    pub fn open(bytes: &'a [u8]) -> Result<Self, TableError> {
        Ok(Self { paths: PathTable::open(bytes)? })
    }

    /// The tuples of an image; `None` if there are none.
    ///
    /// # Errors
    /// If the table is damaged there.
    pub fn find(&self, path: &str) -> Result<Option<TupleGroup>, TableError> {
        let Some(text) = self.paths.find(path)? else { return Ok(None) };
        let mut lines = text.lines();
        let content = lines.next().ok_or(TableError)?.to_owned();
        let tuple = |line: &str| {
            let (number, rest) = line.split_once('\t')?;
            let (name, selection) = rest.split_once('\t')?;
            Some(Tuple {
                number: number.parse().ok()?,
                path: path.to_owned(),
                selection: selection.parse().ok()?,
                name: name.to_owned(),
            })
        };
        let tuples = lines.map(|line| tuple(line).ok_or(TableError)).collect::<Result<_, _>>()?;
        Ok(Some(TupleGroup { content, tuples }))
    }

    /// Writes a table of groups, of one image each.
    pub fn write(groups: &[TupleGroup]) -> Vec<u8> {
        let text = |TupleGroup { content, tuples }: &TupleGroup| {
            let line = |Tuple { number, name, selection, .. }: &Tuple| format!("{number}\t{name}\t{selection}\n");
            format!("{content}\n{}", tuples.iter().map(line).collect::<String>())
        };
        let entries = groups.iter().filter_map(|group| Some((group.tuples.first()?.path.as_str(), text(group))));
        PathTable::write(entries.collect())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn tuple(number: u64, path: &str, selection: &str) -> Tuple {
        Tuple { number, path: path.into(), selection: selection.parse().unwrap(), name: format!("{number}.fits") }
    }

    #[test]
    fn each_image_finds_its_own_tuples_in_their_order() {
        let group = |tuples| TupleGroup { content: "abc".into(), tuples };
        let groups = [
            group(vec![tuple(1, "/sky/b", "[1:2,3:4]"), tuple(3, "/sky/b", "AROUND 1 2 3 4")]),
            group(vec![tuple(2, "/sky/a", "[SCI,2] CIRCLE 1 2 3")]),
        ];
        let bytes = TupleTable::write(&groups);
        let table = TupleTable::open(&bytes).unwrap();
        assert_eq!(table.find("/sky/b").unwrap().as_ref(), Some(&groups[0]));
        assert_eq!(table.find("/sky/a").unwrap().as_ref(), Some(&groups[1]));
        assert_eq!(table.find("/sky").unwrap(), None);
        assert!(TupleTable::open(b"other").is_err());
    }
}
