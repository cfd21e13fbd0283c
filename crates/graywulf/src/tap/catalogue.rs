//! The tables that somebody may ask, and their names: `/sky/stars` is `sky.stars`. They are looked up as the user who
//! asks, so that what a user may not read is not there. It never opens a slice.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use client::{Client, SectorPath};
use dali::{of_client, of_reason};
use vo::Fault;

use crate::tables::{TableDescription, TableFolder};

/// Tables that somebody may ask.
#[derive(Debug)]
pub(super) struct Catalogue {
    pub(super) tables: Vec<CatalogueTable>,
    read: Instant,
}

/// One of them.
#[derive(Debug)]
pub(super) struct CatalogueTable {
    pub(super) path: SectorPath,
    /// The parts of its name in statements: up to three, or its path as one.
    pub(super) parts: Vec<String>,
    pub(super) description: TableDescription,
}

impl CatalogueTable {
    fn new(table: TableFolder) -> Self {
        let TableFolder { path, description, .. } = table;
        let text = path.as_str();
        let folders: Vec<_> = text.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect();
        // The engine's names have three parts at most.
        let parts = if folders.len() > 3 { vec![text.to_owned()] } else { folders };
        Self { path, parts, description }
    }

    /// Its name as a statement writes it.
    pub(super) fn name(&self) -> String {
        self.parts.iter().map(|part| identifier(part)).collect::<Vec<_>>().join(".")
    }

    /// The name of its schema: all but the last part.
    pub(super) fn schema(&self) -> String {
        match self.parts.split_last() {
            Some((_, folders)) if !folders.is_empty() => {
                folders.iter().map(|part| identifier(part)).collect::<Vec<_>>().join(".")
            }
            Some((path, _)) if path.starts_with('/') => {
                let folder = path.rsplit_once('/').map(|(folder, _)| folder).unwrap_or_default();
                identifier(folder)
            }
            _ => NO_SCHEMA.to_owned(),
        }
    }

    fn is_named(&self, parts: &[String], same: impl Fn(&str, &str) -> bool) -> bool {
        self.parts.len() == parts.len() && self.parts.iter().zip(parts).all(|(one, other)| same(one, other))
    }
}

impl Catalogue {
    /// The table of a name. In names without quotes the letters' case says nothing, as long as it is clear which is meant.
    pub(super) fn find(&self, parts: &[String]) -> Option<&CatalogueTable> {
        let exact = self.tables.iter().find(|table| table.is_named(parts, |one, other| one == other));
        exact.or_else(|| {
            let mut alike = self.tables.iter().filter(|table| table.is_named(parts, str::eq_ignore_ascii_case));
            alike.next().filter(|_| alike.next().is_none())
        })
    }
}

/// The name of a folder or table, in quotes where it needs them. Two may differ by case alone.
fn identifier(name: &str) -> String {
    if is_regular(name) && !name.contains(|c: char| c.is_ascii_uppercase()) { name.to_owned() } else { quoted(name) }
}

/// The name of a column, in quotes where it needs them. No table has two that differ by case alone.
pub(super) fn column_identifier(name: &str) -> String {
    if is_regular(name) { name.to_owned() } else { quoted(name) }
}

/// Whether it is a regular identifier of ADQL (2.1, 2.1.4).
fn is_regular(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && !RESERVED.iter().any(|word| word.eq_ignore_ascii_case(name))
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// The catalogues of all who ask, each kept for a little while.
#[derive(Debug)]
pub(super) struct Catalogues {
    folder: SectorPath,
    kept: Mutex<HashMap<Option<String>, Arc<Catalogue>>>,
}

impl Catalogues {
    /// Of the tables below a folder.
    pub(super) fn new(folder: SectorPath) -> Self {
        Self { folder, kept: Mutex::default() }
    }

    /// The tables that a user may ask. It may be a little old.
    ///
    /// # Errors
    /// A cloud that does not answer.
    pub(super) async fn of(&self, cloud: &Client, user: Option<&str>) -> Result<Arc<Catalogue>, Fault> {
        self.of_age(cloud, user, AGE_USUAL).await
    }

    /// The same, for a table that was not in it: it may be new.
    ///
    /// # Errors
    /// As [`of`](Self::of).
    pub(super) async fn newer(&self, cloud: &Client, user: Option<&str>) -> Result<Arc<Catalogue>, Fault> {
        self.of_age(cloud, user, AGE_OF_MISSING).await
    }

    async fn of_age(&self, cloud: &Client, user: Option<&str>, age: Duration) -> Result<Arc<Catalogue>, Fault> {
        let user = user.map(str::to_owned);
        let kept = self.lock().get(&user).cloned();
        if let Some(kept) = kept.filter(|kept| kept.read.elapsed() < age) {
            return Ok(kept);
        }
        let read = Instant::now();
        let (found, failures) = TableFolder::all_below(cloud, &self.folder).await.map_err(|error| of_client(&error))?;
        for failure in failures {
            // One table that cannot be read must not hide the others.
            tracing::warn!(%failure, "a table is left out");
            if failure.reason == client::Reason::Unavailable {
                return Err(of_reason(failure.reason, failure.message));
            }
        }
        let mut tables: Vec<_> = found.into_iter().map(CatalogueTable::new).collect();
        tables.sort_by(|one, other| one.path.cmp(&other.path));
        let catalogue = Arc::new(Catalogue { tables, read });
        let mut kept = self.lock();
        if kept.len() >= USERS_KEPT {
            kept.clear();
        }
        kept.insert(user, Arc::clone(&catalogue));
        Ok(catalogue)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Option<String>, Arc<Catalogue>>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The schema of tables that lie in no folder.
pub(super) const NO_SCHEMA: &str = "\"/\"";
const AGE_USUAL: Duration = Duration::from_secs(30);
const AGE_OF_MISSING: Duration = Duration::from_secs(1);
/// Users whose catalogues are kept.
const USERS_KEPT: usize = 1_000;
/// Words of ADQL and SQL that people call tables and columns, too.
const RESERVED: [&str; 40] = [
    "all", "and", "as", "at", "between", "by", "case", "cast", "column", "cross", "date", "day", "distinct", "else",
    "end", "exists", "false", "from", "full", "group", "having", "in", "index", "inner", "join", "left", "limit",
    "natural", "not", "null", "offset", "on", "or", "order", "select", "size", "top", "union", "values", "where",
];

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::tables::{ColumnDescription, Layout};

    fn table(path: &str) -> CatalogueTable {
        let column = ColumnDescription {
            name: "a".into(),
            column_type: "int".into(),
            unit: String::new(),
            ucd: String::new(),
            description: String::new(),
        };
        let description = TableDescription::new(vec![column], Layout::Unordered).unwrap();
        let path = SectorPath::parse(path).unwrap();
        let folders: Vec<_> = path.as_str().split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect();
        let parts = if folders.len() > 3 { vec![path.as_str().to_owned()] } else { folders };
        CatalogueTable { path, parts, description }
    }

    #[test]
    fn a_path_has_a_name_and_a_schema() {
        for (path, name, schema) in [
            ("/stars", "stars", "\"/\""),
            ("/sky/stars", "sky.stars", "sky"),
            ("/a/b/c", "a.b.c", "a.b"),
            ("/sky/2MASS", "sky.\"2MASS\"", "sky"),
            ("/sky/order", "sky.\"order\"", "sky"),
            ("/a/b/c/d", "\"/a/b/c/d\"", "\"/a/b/c\""),
        ] {
            let table = table(path);
            assert_eq!((table.name().as_str(), table.schema().as_str()), (name, schema), "{path}");
        }
    }

    #[test]
    fn a_name_is_found_whatever_its_case_unless_two_are_alike() {
        let tables = vec![table("/sky/Stars"), table("/sky/a"), table("/sky/A")];
        let catalogue = Catalogue { tables, read: Instant::now() };
        let find = |name: &str| {
            let parts: Vec<_> = name.split('.').map(str::to_owned).collect();
            catalogue.find(&parts).map(|table| table.path.as_str().to_owned())
        };
        assert_eq!(find("sky.stars").as_deref(), Some("/sky/Stars"));
        assert_eq!(find("sky.a").as_deref(), Some("/sky/a"));
        assert_eq!(find("Sky.A"), None);
        assert_eq!(find("stars"), None);
    }
}
