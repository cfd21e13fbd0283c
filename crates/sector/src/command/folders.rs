//! `mkdir`, `mv`, `cp` and `rm`: names, with the semantics of Unix. The bytes of a file never pass through this
//! machine.

use std::sync::Arc;

use client::{
    Client, Profile, PutOptions, SectorPath,
    tree::{self, CopyPlan},
};
use protocol::Status;
use terminal::{
    failure::{Failure, Failures},
    session,
    show::Meter,
};

use super::tree_progress;
use crate::arguments::{Cp, FromTo, Global, Mkdir, Rm};

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
    let (to, from) = split(&from_to)?;
    let mut failures = Failures::default();
    for (from, to) in tree::plan_renames(cloud, from, to).await? {
        failures.note(cloud.rename(&from, &to).await.map_err(Failure::from));
    }
    failures.into_result()
}

/// `sector cp`.
pub(crate) async fn cp(cloud: &Client, cp: Cp, global: &Global) -> Result<(), Failure> {
    let other = match cp.from_profile.as_ref().or(cp.to_profile.as_ref()) {
        Some(file) => Some(
            session::connect_with(Profile::load(&Profile::chosen_file(file)?)?, global)
                .await?
                .throttled(cloud.throttle().clone()),
        ),
        None => None,
    };
    let (from, to) = match &other {
        Some(other) if cp.from_profile.is_some() => (other, cloud),
        Some(other) => (cloud, other),
        None => (cloud, cloud),
    };
    let result = tokio::select! {
        copied = copy_all((from, to), &cp, global) => copied,
        () = terminal::interrupted() => Err(Failure::failed(super::INTERRUPTED)),
    };
    if let Some(other) = &other {
        session::end_session(other).await;
    }
    result
}

async fn copy_all((there, here): (&Client, &Client), cp: &Cp, global: &Global) -> Result<(), Failure> {
    let (to, from) = split(&cp.from_to)?;
    let plan = CopyPlan::new((there, here), from, to, cp.recursive).await.map_err(tree_progress::plan_failure)?;
    let what = match plan.files() {
        [file] => format!("cp {}", file.from),
        files => format!("cp {} files", files.len()),
    };
    let meter = Arc::new(Meter::start(what, plan.bytes(), global).of(here));
    let observer = tree_progress::observer(&meter, tree_progress::failure);
    let outcome = tree::copy((there, here), plan, &PutOptions::default(), &observer).await?;
    meter.finish();
    tree_progress::result_of(&outcome)
}

/// The last path, and those before it.
fn split(from_to: &FromTo) -> Result<(&str, &[String]), Failure> {
    let (to, from) = from_to.paths.split_last().ok_or_else(|| Failure::usage("name what, and where to"))?;
    Ok((to, from))
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
