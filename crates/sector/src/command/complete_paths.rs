//! What a shell asks when a person types a path and wants it completed: the names in the cloud that go on so. It is quick
//! or says nothing, and it never says why: a person who types sees no errors.

use std::{ffi::OsString, time::Duration};

use client::{Client, ClientError, SectorPath, namespace::is_folder};
use terminal::{Global, cloud_path, session, show};

/// `sector complete-paths`: prints the paths that begin as the last word does, one a line; folders with `/`.
pub(crate) async fn complete(words: Vec<OsString>) {
    let words: Vec<String> = words.into_iter().filter_map(|word| word.into_string().ok()).collect();
    let Some(Wanted { profile, typed }) = Wanted::of(&words) else { return };
    let global = Global { profile: profile.map(Into::into), quiet: true, ..Global::default() };
    let found = async {
        let cloud = session::connect(&global).await.ok()?;
        let found = candidates(&cloud, &typed).await.unwrap_or_default();
        // Before the session ends: nobody waits for that.
        found.iter().for_each(show::line);
        session::end_session(&cloud).await;
        Some(())
    };
    let _ = tokio::time::timeout(ANSWER_WITHIN, found).await;
}

/// What is to be completed.
#[derive(Debug, PartialEq, Eq)]
struct Wanted {
    profile: Option<String>,
    typed: String,
}

impl Wanted {
    /// Reads the words of a command line up to the one that is being typed. `None`: that is no path in the cloud.
    fn of(words: &[String]) -> Option<Self> {
        let (typed, before) = words.split_last()?;
        let (mut profile, mut commands) = (None, Vec::new());
        let mut before = before.iter();
        while let Some(word) = before.next() {
            match word.as_str() {
                "--profile" => profile = before.next().cloned(),
                // Their values are no commands.
                "--carrier" | "--controller" => {
                    before.next();
                }
                option if option.starts_with('-') => {
                    profile = option.strip_prefix("--profile=").map(ToOwned::to_owned).or(profile);
                }
                word => commands.push(word),
            }
        }
        let command = commands.first()?;
        let is_url = typed.starts_with("sector:");
        let is_absolute = typed.starts_with('/') && !URL.contains(command);
        let is_begun = typed.is_empty() && CLOUD.contains(command);
        let takes_paths = CLOUD.iter().chain(&MIXED).chain(&URL).any(|name| name == command);
        (takes_paths && (is_url || is_absolute || is_begun)).then(|| Self { profile, typed: typed.clone() })
    }
}

/// The paths that begin as `typed` does, written as it is.
async fn candidates(cloud: &Client, typed: &str) -> Result<Vec<String>, ClientError> {
    let Ok(path) = cloud_path(if typed.is_empty() { "/" } else { typed }) else { return Ok(Vec::new()) };
    let Some((above, begun)) = path.rsplit_once('/') else { return Ok(Vec::new()) };
    let folder = SectorPath::parse(if above.is_empty() { "/" } else { above })?;
    let mut found = Vec::new();
    let mut after = None;
    if !begun.is_empty() {
        let exact = folder.join(begun)?;
        found.extend(cloud.find(&exact).await?);
        after = Some(exact);
    }
    let page = cloud.page(&folder, false, after).await?;
    found.extend(page.entries.into_iter().filter(|entry| entry.path != folder));
    // What was typed stays as it is: only the last name goes on.
    let typed_folder = if typed.is_empty() { "/" } else { &typed[..typed.len() - begun.len()] };
    let names = found.iter().filter_map(|entry| Some((entry.path.name()?, is_folder(entry))));
    let fitting = names.take_while(|(name, _)| name.starts_with(begun));
    Ok(fitting.map(|(name, is_folder)| format!("{typed_folder}{name}{}", if is_folder { "/" } else { "" })).collect())
}

/// Commands whose paths lie in the cloud.
const CLOUD: [&str; 17] = [
    "acl", "cat", "check", "cp", "du", "find", "index", "lease", "ls", "mkdir", "mv", "policy", "rm", "stat", "trash",
    "tree", "versions",
];
/// Commands whose paths may lie in the cloud or on this machine.
const MIXED: [&str; 3] = ["get", "put", "run"];
/// Commands in which a path of the cloud is written with `sector://`.
const URL: [&str; 1] = ["sync"];
/// A shell that waits longer feels broken.
const ANSWER_WITHIN: Duration = Duration::from_millis(250);

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::arguments::Arguments;

    fn wanted(line: &str) -> Option<(Option<String>, String)> {
        let words: Vec<_> = line.split(' ').map(ToOwned::to_owned).collect();
        Wanted::of(&words).map(|wanted| (wanted.profile, wanted.typed))
    }

    #[test]
    fn a_path_is_completed_where_the_command_takes_one() {
        for line in ["ls ", "ls /a", "ls -l /a", "acl set /a", "put x sector://a", "get /a", "sync . sector://a"] {
            let typed = line.rsplit(' ').next().unwrap_or_default().to_owned();
            assert_eq!(wanted(line), Some((None, typed)), "{line}");
        }
        for line in ["", "l", "up /a", "put ", "put a", "sync /a", "ls a", "--profile ls /a", "ls -", "man /a"] {
            assert_eq!(wanted(line), None, "{line}");
        }
        let named = Some((Some("chicago".to_owned()), "/a".to_owned()));
        assert_eq!(wanted("--profile chicago ls /a"), named);
        assert_eq!(wanted("ls --profile=chicago /a"), named);
        assert_eq!(wanted("--carrier tcp ls /a"), Some((None, "/a".into())));
    }

    #[test]
    fn each_command_with_paths_is_one() {
        let all = Arguments::command();
        for name in CLOUD.iter().chain(&MIXED).chain(&URL) {
            assert!(all.find_subcommand(name).is_some(), "{name}");
        }
    }
}
