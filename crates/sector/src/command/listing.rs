//! `ls`, `tree`, `find`, `du` and `stat`: what is there. They never change anything.

use std::cmp::Reverse;

use client::{
    Client, ClientError, Entry, EntryKind, SectorPath,
    expand::is_glob,
    views::{EntryView, StatView, UsageView},
};
use protocol::path::JOB_NAME_PREFIX;
use terminal::{
    failure::{Failure, Failures},
    show,
};

use crate::arguments::{Global, Ls};

/// `sector ls`.
pub(crate) async fn ls(cloud: &Client, ls: Ls, global: &Global) -> Result<(), Failure> {
    let (mut entries, mut failures) = (Vec::new(), Failures::default());
    for pattern in &ls.paths {
        match matching(cloud, pattern, ls.recursive).await {
            Ok(matching) if ls.all => entries.extend(matching),
            Ok(matching) => entries.extend(shown(pattern, matching)),
            Err(failure) => failures.note(Err(failure)),
        }
    }
    sort(&mut entries, &ls);
    if global.json {
        show_found(&entries, ls.paths.len(), &failures)?;
        return failures.into_result();
    }
    let full = ls.recursive || ls.paths.len() > 1;
    let name = |entry: &Entry| {
        let name = if full { entry.path.as_str() } else { entry.path.name().unwrap_or("/") };
        if client::namespace::is_folder(entry) { format!("{}/", name.trim_end_matches('/')) } else { name.to_owned() }
    };
    let time = if ls.utc { show::utc_time } else { show::time };
    if !ls.long {
        entries.iter().for_each(|entry| show::line(name(entry)));
        return failures.into_result();
    }
    let rows: Vec<_> = entries
        .iter()
        .map(|entry| {
            let size = match &entry.kind {
                EntryKind::File(content) => show::size(content.bytes),
                EntryKind::Folder => "-".into(),
            };
            // As `ls` marks files with an access list.
            let owner = format!("{}{}", entry.owner, if entry.has_acl { " +" } else { "" });
            vec![size, owner, time(entry.modified_unix_millis), name(entry)]
        })
        .collect();
    if !rows.is_empty() || failures.is_empty() {
        show::table(&[" size", "owner", "modified", "name"], &rows);
    }
    failures.into_result()
}

/// Puts entries into the order that was asked for. Without one, they stay as they were found.
fn sort(entries: &mut [Entry], ls: &Ls) {
    let bytes = |entry: &Entry| match &entry.kind {
        EntryKind::File(content) => content.bytes,
        EntryKind::Folder => 0,
    };
    if ls.by_time {
        entries.sort_by_key(|entry| Reverse(entry.modified_unix_millis));
    } else if ls.by_size {
        entries.sort_by_key(|entry| Reverse(bytes(entry)));
    }
    if ls.reverse {
        entries.reverse();
    }
}

/// The document of what was found. Where all that was asked for failed, the error's document stands alone.
fn show_found(entries: &[Entry], asked: usize, failures: &Failures) -> Result<(), Failure> {
    if asked == 1 && !failures.is_empty() {
        return Ok(());
    }
    show::json(&entries.iter().map(EntryView::from).collect::<Vec<_>>())
}

/// `sector tree`.
pub(crate) async fn tree(cloud: &Client, paths: &[String], global: &Global) -> Result<(), Failure> {
    let mut views = Vec::new();
    for path in paths {
        let root = SectorPath::parse(path)?;
        let entries = cloud.list_recursive(&root).await.map_err(|error| Failure::from(error).about(path))?;
        let entries = shown(path, entries);
        if global.json {
            views.extend(entries.iter().map(EntryView::from));
            continue;
        }
        show::line(root.as_str());
        let above = root.components().count();
        for entry in entries.iter().filter(|entry| entry.path != root) {
            let depth = entry.path.components().count() - above;
            let slash = if client::namespace::is_folder(entry) { "/" } else { "" };
            show::line(format!("{}{}{slash}", "    ".repeat(depth), entry.path.name().unwrap_or_default()));
        }
    }
    if global.json { show::json(&views) } else { Ok(()) }
}

/// `sector find`.
pub(crate) async fn find(cloud: &Client, patterns: &[String], global: &Global) -> Result<(), Failure> {
    let (mut entries, mut failures) = (Vec::new(), Failures::default());
    for pattern in patterns {
        match cloud.expand(pattern).await {
            Ok(found) => entries.extend(shown(pattern, found)),
            Err(error) => failures.note(Err(Failure::from(error).about(pattern))),
        }
    }
    if global.json {
        show_found(&entries, patterns.len(), &failures)?;
        return failures.into_result();
    }
    entries.iter().for_each(|entry| show::line(entry.path.as_str()));
    failures.into_result()
}

/// `sector du`.
pub(crate) async fn du(cloud: &Client, paths: &[String], global: &Global) -> Result<(), Failure> {
    let (paths, mut failures) = named(cloud, paths).await;
    let mut views = Vec::new();
    for path in paths {
        match cloud.usage(&path).await {
            Ok(usage) => views.push(UsageView::of(&path, usage)),
            Err(error) => failures.note(Err(Failure::from(error).about(&path))),
        }
    }
    if global.json {
        show::json(&views)?;
        return failures.into_result();
    }
    let rows: Vec<_> = views
        .into_iter()
        .map(|view| vec![show::size(view.bytes), view.files.to_string(), view.folders.to_string(), view.path])
        .collect();
    if !rows.is_empty() {
        show::table(&[" size", " files", " folders", "path"], &rows);
    }
    failures.into_result()
}

/// `sector stat`.
pub(crate) async fn stat(cloud: &Client, paths: &[String], global: &Global) -> Result<(), Failure> {
    let is_one = matches!(paths, [path] if !is_glob(path));
    let (paths, mut failures) = named(cloud, paths).await;
    let mut views = Vec::new();
    for path in paths {
        match cloud.stat(&path).await {
            Ok(status) => views.push(StatView::from(&status)),
            Err(error) => failures.note(Err(Failure::from(error).about(&path))),
        }
    }
    if global.json {
        match views.as_slice() {
            [] if is_one => {}
            [view] if is_one => show::json(view)?,
            views => show::json(&views)?,
        }
        return failures.into_result();
    }
    for StatView { entry, copies } in views {
        let mut rows = vec![
            vec!["path".to_owned(), entry.path],
            vec!["kind".to_owned(), entry.kind.to_owned()],
            vec!["owner".to_owned(), entry.owner],
            vec!["own rights".to_owned(), if entry.acl { "yes, see `sector acl get`" } else { "no" }.to_owned()],
            vec!["modified".to_owned(), show::time_of(&entry.modified)],
        ];
        if let Some(bytes) = entry.size_bytes {
            rows.push(vec!["size".to_owned(), format!("{} ({bytes} bytes)", show::size(bytes))]);
        }
        for (name, value) in [
            ("version", entry.version.map(|version| version.to_string())),
            ("digest", entry.digest),
            ("records", entry.records),
            ("copies wanted", entry.copies_wanted.map(|copies| copies.to_string())),
            ("executable", entry.executable.filter(|is_program| *is_program).map(|_| "yes".to_owned())),
        ] {
            rows.extend(value.map(|value| vec![name.to_owned(), value]));
        }
        rows.extend(copies.into_iter().map(|copy| {
            vec!["copy".to_owned(), format!("{} at {}, rack {}, on {}", copy.state, copy.site, copy.rack, copy.node)]
        }));
        rows.iter().for_each(|row| show::line(format!("{:14} {}", row[0], row[1])));
    }
    failures.into_result()
}

/// What people want to see: what jobs keep beside their output (`.sphere-…`) only where it is named.
fn shown(pattern: &str, mut entries: Vec<Entry>) -> Vec<Entry> {
    if !pattern.contains(JOB_NAME_PREFIX) {
        entries.retain(|entry| !entry.path.components().any(|name| name.starts_with(JOB_NAME_PREFIX)));
    }
    entries
}

/// What paths and globs name. A name that matches nothing is reported, and the others go on.
async fn named(cloud: &Client, patterns: &[String]) -> (Vec<SectorPath>, Failures) {
    let (mut paths, mut failures) = (Vec::new(), Failures::default());
    for pattern in patterns {
        match cloud.matching(pattern).await {
            Ok(matching) => paths.extend(matching),
            Err(error) => failures.note(Err(Failure::from(error).about(pattern))),
        }
    }
    (paths, failures)
}

/// A glob's files, a folder's entries, or the file itself.
async fn matching(cloud: &Client, pattern: &str, recursive: bool) -> Result<Vec<Entry>, Failure> {
    let about = |error: ClientError| Failure::from(error).about(pattern);
    let Some(path) = cloud.literal(pattern).await.map_err(about)? else {
        return cloud.expand(pattern).await.map_err(about);
    };
    if recursive { cloud.list_recursive(&path).await } else { cloud.list(&path).await }.map_err(about)
}
