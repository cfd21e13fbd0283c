//! `mkdir`, `mv` and `cp`: names, and copies from node to node. Within a cloud, the bytes of a file never pass through
//! this machine.

use std::path::PathBuf;

use client::{
    Client, Condition, PutOptions, SectorPath,
    names::location::{CloudName, Location},
    tree::{self, CopyPlan},
};
use protocol::Reason;
use terminal::{
    failure::{Failure, Failures},
    show::say,
};

use super::{
    clouds::{CloudChoice, Clouds},
    transfer::{self, ShownTransfer, split},
    waiting::waiting,
};
use crate::arguments::{Cp, Global, Mkdir, Mv};

/// `sector mkdir`.
pub(crate) async fn mkdir(cloud: &Client, mkdir: Mkdir) -> Result<(), Failure> {
    let mut failures = Failures::default();
    for path in &mkdir.paths {
        let made = async { Ok(cloud.make_folder(&SectorPath::parse(path)?, mkdir.parents).await?) };
        failures.note(made.await.map_err(|mut failure: Failure| {
            if failure.reason == Reason::NotFound && !mkdir.parents {
                failure.message += ", or with -p together with this one";
            }
            failure.about(path)
        }));
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
pub(crate) async fn cp(cp: Cp, global: &Global) -> Result<(), Failure> {
    let asked = AskedCopy::new(&cp)?;
    let clouds = Clouds::connect(&asked.there, &asked.here, &cp.transfer_limit, global).await?;
    let (there, here) = clouds.pair();
    let here = waiting(&here, &cp.wait, global);
    clouds.run(copy_all((&there, &here), &asked, &cp, global)).await
}

async fn copy_all(
    (there, here): (&Client, &Client),
    asked: &AskedCopy,
    cp: &Cp,
    global: &Global,
) -> Result<(), Failure> {
    let plan = CopyPlan::new((there, here), &asked.from, &asked.to, cp.recursive).await;
    let plan = plan.map_err(transfer::plan_failure)?;
    let transfer = ShownTransfer::start("cp", plan.files().len(), plan.bytes(), here, global);
    let observer = transfer.observer(transfer::failure);
    let condition = if cp.no_clobber { Condition::Absent } else { Condition::Any };
    let options = PutOptions { condition, ..PutOptions::default() };
    let outcome = tree::copy((there, here), plan, &options, &observer).await?;
    transfer.finish(&outcome, &[], transfer::failure)
}

/// What goes where, and in which clouds that is.
#[derive(Debug, PartialEq, Eq)]
struct AskedCopy {
    there: CloudChoice,
    from: Vec<String>,
    here: CloudChoice,
    to: String,
}

impl AskedCopy {
    fn new(cp: &Cp) -> Result<Self, Failure> {
        let (sources, to) = split(&cp.paths)?;
        let to = Location::parse(to)?;
        let sources = sources.iter().map(|text| Location::parse(text)).collect::<Result<Vec<_>, _>>()?;
        let mut clouds: Vec<_> = sources.iter().map(|source| source.cloud.clone()).collect();
        clouds.dedup();
        let ([there], from) = (&clouds[..], sources.into_iter().map(|source| source.path).collect()) else {
            return Err(Failure::usage("all that is copied must lie in one cloud: use a command for each cloud"));
        };
        let chosen = |named: &Option<CloudName>, option: &Option<PathBuf>, name: &str| match (named, option) {
            (Some(_), Some(_)) => {
                Err(Failure::usage(format!("name the cloud once: in the path, or with --{name}-profile")))
            }
            (None, Some(file)) => Ok(CloudChoice::Profile(file.clone())),
            (named, None) => Ok(CloudChoice::of(named.clone())),
        };
        let there = chosen(there, &cp.from_profile, "from")?;
        Ok(Self { there, from, here: chosen(&to.cloud, &cp.to_profile, "to")?, to: to.path })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use clap::Parser;

    use super::*;
    use crate::arguments::{Arguments, Command};

    fn asked(words: &str) -> Result<AskedCopy, Failure> {
        let Ok(Arguments { command: Command::Cp(cp), .. }) = Arguments::try_parse_from(words.split(' ')) else {
            panic!("no copy: {words}")
        };
        AskedCopy::new(&cp)
    }

    #[test]
    fn a_copy_takes_the_names_of_clouds_from_paths_or_options() {
        let named = |name: &str| CloudChoice::Named(name.into());
        let two = asked("sector cp -r sector://@a/x sector://@a/y sector://@b/z/").unwrap();
        assert_eq!((two.there, two.here), (named("a"), named("b")));
        assert_eq!((two.from, two.to), (vec!["/x".to_owned(), "/y".to_owned()], "/z/".to_owned()));
        let one = asked("sector cp sector://x /y").unwrap();
        assert_eq!((one.there, one.here, one.to), (CloudChoice::OfCommand, CloudChoice::OfCommand, "/y".into()));
        let up = asked("sector cp --from-profile a.toml /x sector://@b").unwrap();
        assert_eq!((up.there, up.here), (CloudChoice::Profile("a.toml".into()), named("b")));
        for refused in [
            "sector cp -r sector://@a/x sector://@b/y /z",
            "sector cp -r sector://@a/x /y /z",
            "sector cp --to-profile b.toml /x sector://@b/y",
            "sector cp --from-profile b.toml sector://@b/y /x",
            "sector cp sector://@/x /y",
        ] {
            assert_eq!(asked(refused).unwrap_err().reason, Reason::Invalid, "{refused}");
        }
    }
}
