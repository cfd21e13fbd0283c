//! `mkdir`, `mv` and `cp`: names, and copies from node to node. The bytes of a file never pass through this machine.

use client::{
    Client, Condition, Profile, PutOptions, SectorPath,
    tree::{self, CopyPlan},
};
use terminal::{
    failure::{Failure, Failures},
    session,
    show::say,
};

use super::transfer::{self, ShownTransfer, split};
use crate::arguments::{Cp, Global, Mkdir, Mv};

/// `sector mkdir`.
pub(crate) async fn mkdir(cloud: &Client, mkdir: Mkdir) -> Result<(), Failure> {
    let mut failures = Failures::default();
    for path in &mkdir.paths {
        let made = async { Ok(cloud.make_folder(&SectorPath::parse(path)?, mkdir.parents).await?) };
        failures.note(made.await.map_err(|failure: Failure| failure.about(path)));
    }
    failures.into_result()
}

/// `sector mv`.
pub(crate) async fn mv(cloud: &Client, mv: &Mv, global: &Global) -> Result<(), Failure> {
    let (from, to) = split(&mv.from_to.paths)?;
    let mut failures = Failures::default();
    for (from, to) in tree::plan_renames(cloud, from, to).await? {
        let moved = async {
            if mv.no_clobber && cloud.find(&to).await?.is_some() {
                if !global.quiet {
                    say!("mv: `{from}` stays, since `{to}` is there");
                }
                return Ok(());
            }
            cloud.rename(&from, &to).await
        };
        failures.note(moved.await.map_err(|error| Failure::from(error).about(&from)));
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
        signal = terminal::interrupted() => Err(signal.failure(super::INTERRUPTED)),
    };
    if let Some(other) = &other {
        session::end_session(other).await;
    }
    result
}

async fn copy_all((there, here): (&Client, &Client), cp: &Cp, global: &Global) -> Result<(), Failure> {
    let (from, to) = split(&cp.from_to.paths)?;
    let plan = CopyPlan::new((there, here), from, to, cp.recursive).await.map_err(transfer::plan_failure)?;
    let transfer = ShownTransfer::start("cp", plan.files().len(), plan.bytes(), here, global);
    let observer = transfer.observer(transfer::failure);
    let condition = if cp.no_clobber { Condition::Absent } else { Condition::Any };
    let options = PutOptions { condition, ..PutOptions::default() };
    let outcome = tree::copy((there, here), plan, &options, &observer).await?;
    transfer.finish(&outcome, &[], transfer::failure)
}
