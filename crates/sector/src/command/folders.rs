//! `mkdir`, `mv`, `cp` and `rm`: names, with the semantics of Unix. The bytes of a file never pass through this
//! machine.

use client::{Client, EntryKind, Profile, PutOptions, SectorPath};
use protocol::{Reason, Status};

use super::target_conflicts::{PathMapping, resolve_targets};
use crate::{
    arguments::{Cp, FromTo, Global, Mkdir, Rm},
    failure::{Failure, Failures},
    show::Meter,
};

/// `sector mkdir`.
pub(crate) async fn mkdir(cloud: &Client, mkdir: Mkdir) -> Result<(), Failure> {
    let mut failures = Failures::default();
    for path in &mkdir.paths {
        let made = async { Ok(cloud.make_folder(&SectorPath::parse(path)?, mkdir.parents).await?) };
        failures.note(made.await);
    }
    failures.into_result()
}

/// `sector mv`.
pub(crate) async fn mv(cloud: &Client, from_to: FromTo) -> Result<(), Failure> {
    let mut failures = Failures::default();
    for (from, to) in resolve_targets(pairs(cloud, cloud, &from_to).await?, path_mapping, true)? {
        failures.note(cloud.rename(&from, &to).await.map_err(Failure::from));
    }
    failures.into_result()
}

/// `sector cp`.
pub(crate) async fn cp(cloud: &Client, cp: Cp, global: &Global) -> Result<(), Failure> {
    let other = match cp.from_profile.as_ref().or(cp.to_profile.as_ref()) {
        Some(file) => {
            Some(super::connect_with(Profile::load(file)?, global).await?.throttled(cloud.throttle().clone()))
        }
        None => None,
    };
    let (from, to) = match &other {
        Some(other) if cp.from_profile.is_some() => (other, cloud),
        Some(other) => (cloud, other),
        None => (cloud, cloud),
    };
    let result = tokio::select! {
        copied = copy_all((from, to), &cp, other.is_some(), global) => copied,
        () = super::interrupted() => Err(Failure::failed(super::INTERRUPTED)),
    };
    if let Some(other) = &other {
        super::end_session(other).await;
    }
    result
}

async fn copy_all((there, here): (&Client, &Client), cp: &Cp, abroad: bool, global: &Global) -> Result<(), Failure> {
    let (mut folders, mut files) = (Vec::new(), Vec::new());
    for (from, to) in pairs(there, here, &cp.from_to).await? {
        let is_folder = client::namespace::is_folder(&there.stat(&from).await?.entry);
        if is_folder && !cp.recursive {
            return Err(Failure::usage(format!("`{from}` is a folder; use -r for all that it holds")));
        }
        if from == to && !abroad {
            return Err(Failure::usage(format!("`{from}` and `{to}` are the same")));
        }
        if is_folder && to.is_within(&from) && !abroad {
            return Err(Failure::usage(format!("`{from}` cannot be copied into itself")));
        }
        for entry in there.list_recursive(&from).await? {
            let to = SectorPath::parse(&format!("{to}{}", &entry.path.as_str()[from.as_str().len()..]))?;
            match &entry.kind {
                EntryKind::Folder => folders.push(to),
                EntryKind::File(content) => {
                    files.push(PendingCopy { from: entry.path, to, bytes: content.bytes, is_folder })
                }
            }
        }
        if is_folder {
            // Even if it is empty.
            folders.push(to);
        }
    }
    let files = resolve_targets(files, |file| path_mapping(&(file.from.clone(), file.to.clone())), !abroad)?;
    folders.sort();
    for folder in folders {
        here.make_folder(&folder, true).await?;
    }
    for PendingCopy { from, to, bytes, is_folder } in files {
        let options = PutOptions { parents: is_folder, ..PutOptions::default() };
        let meter = Meter::start(format!("cp {from}"), bytes, global).of(here);
        here.copy_from(there, &from, &to, &options, &|bytes| meter.add(bytes)).await?;
    }
    Ok(())
}

/// A file to copy.
struct PendingCopy {
    from: SectorPath,
    to: SectorPath,
    bytes: u64,
    /// Whether it is part of a folder: then the folders above it are made.
    is_folder: bool,
}

fn path_mapping((from, to): &(SectorPath, SectorPath)) -> PathMapping {
    PathMapping { from: from.as_str().into(), to: to.as_str().into() }
}

/// `sector rm`.
pub(crate) async fn rm(cloud: &Client, rm: Rm) -> Result<(), Failure> {
    for pattern in &rm.paths {
        let paths = match pattern.contains(['*', '?', '[', '{']) {
            true => cloud.expand(pattern).await.map(|entries| entries.into_iter().map(|entry| entry.path).collect()),
            false => Ok(vec![SectorPath::parse(pattern)?]),
        };
        let removed = async {
            for path in paths? {
                match rm.now {
                    true => cloud.remove_now(&path, rm.recursive).await?,
                    false => cloud.remove(&path, rm.recursive).await?,
                }
            }
            Ok::<_, client::ClientError>(())
        };
        match removed.await {
            Err(error) if rm.force && error.status() == Status::NotFound => {}
            result => result?,
        }
    }
    Ok(())
}

/// Pairs of source and destination: into the last path if that is a folder, otherwise the first becomes the last.
async fn pairs(there: &Client, here: &Client, from_to: &FromTo) -> Result<Vec<(SectorPath, SectorPath)>, Failure> {
    let Some((to, from)) = from_to.paths.split_last() else { return Err(Failure::usage("name what, and where to")) };
    let path = SectorPath::parse(to)?;
    let is_folder = path.is_root() || here.find(&path).await?.is_some_and(|entry| client::namespace::is_folder(&entry));
    if !is_folder && (from.len() > 1 || to.ends_with('/')) {
        return Err(Failure::new(
            Reason::NotFound,
            format!("there is no folder `{path}`; make it with `sector mkdir`"),
        ));
    }
    let mut sources = Vec::new();
    for pattern in from {
        sources.extend(there.matching(pattern).await?);
    }
    if sources.len() > 1 && !is_folder {
        return Err(Failure::usage(format!("several files cannot all become `{path}`; name a folder")));
    }
    let mut pairs = Vec::new();
    for from in sources {
        let to = match (is_folder, from.name()) {
            (true, Some(name)) => path.join(name)?,
            (true, None) => return Err(Failure::usage("the root folder cannot be moved or copied into a folder")),
            (false, _) => path.clone(),
        };
        pairs.push((from, to));
    }
    Ok(pairs)
}
