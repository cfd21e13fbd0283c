//! Commands that are programs of their own, as with `git` and `cargo`: `sector NAME` runs `sector-NAME` from the folder
//! of `sector`, or else from `PATH`. Arguments, exit code and signals are the program's. It never hides a mistyped
//! command: where there is no such program, the answer names the command that was probably meant.

use std::{
    env,
    ffi::{OsStr, OsString},
    os::unix::{ffi::OsStrExt, process::CommandExt},
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use clap::{CommandFactory, error::ContextKind};
use protocol::{Reason, Status};
use rustix::fs::{Access, access};
use terminal::{Failure, Global, say, show};

use crate::arguments::Arguments;

/// Becomes the program of `words[0]`, with the other words as its arguments. Options before the name come first.
/// Returns only if there is no such program, or it cannot be run.
pub(crate) fn become_program(words: &[OsString], global: &Global) -> ExitCode {
    let Some((name, arguments)) = words.split_first() else { return ExitCode::FAILURE };
    let own = env::current_exe().ok();
    let (program, command_of) = home_of(name);
    let Some(file) = find(program, &folders(own.as_deref())) else { return report_missing(program, global.json) };
    let mut command = Command::new(&file);
    command.args(global.words()).args(command_of).args(arguments);
    if let Some(own) = own {
        command.env(OWN_PROGRAM, own);
    }
    let error = command.exec();
    Failure::local("run", &file, &error).report(global.json)
}

/// The program that a name means, and its command where the name is one: `portal` is `images portal`.
fn home_of(name: &OsStr) -> (&OsStr, Option<&OsStr>) {
    let home = SHORT_NAMES.iter().find(|(short, _)| *short == name);
    home.map_or((name, None), |(_, program)| (OsStr::new(program), Some(name)))
}

/// The words that ask a program for its help, of `help NAME …`. Of a command of `sector` it is none: clap has answered.
pub(crate) fn asked_help(words: &[OsString]) -> Option<Vec<OsString>> {
    let (help, of) = words.split_first()?;
    let name = of.first().filter(|name| help == "help" && !name.as_bytes().starts_with(b"-"))?;
    let is_ours = Arguments::command().get_subcommands().any(|command| command.get_name() == name);
    (!is_ours).then(|| of.iter().cloned().chain(["--help".into()]).collect())
}

/// Where programs are looked for, in this order.
fn folders(own: Option<&Path>) -> Vec<PathBuf> {
    let beside = own.and_then(Path::parent).map(Path::to_owned);
    let path = env::var_os("PATH").unwrap_or_default();
    beside.into_iter().chain(env::split_paths(&path)).collect()
}

/// The first `sector-NAME` in these folders that may be run.
fn find(name: &OsStr, folders: &[PathBuf]) -> Option<PathBuf> {
    // A name is not a path: the program is only where programs are.
    if name.as_bytes().contains(&b'/') {
        return None;
    }
    let file = program_name(name);
    // An empty entry of PATH would mean the working folder, where anybody may have put a program.
    let places = folders.iter().filter(|folder| folder.is_absolute()).map(|folder| folder.join(&file));
    places.into_iter().find(|file| file.is_file() && access(file, Access::EXEC_OK).is_ok())
}

fn program_name(name: &OsStr) -> OsString {
    let mut program = OsString::from("sector-");
    program.push(name);
    program
}

/// Says what is missing and how to get it; of an unknown name, what was probably meant.
fn report_missing(name: &OsStr, json: bool) -> ExitCode {
    let program = program_name(name);
    if let Some(known) = APPLICATIONS.iter().find(|known| known.name == name) {
        let Application { name, install, .. } = known;
        let program = program.display();
        let message = format!(
            "`sector {name}` needs the program `{program}`, which is neither beside `sector` nor on PATH; \
             install it from a copy of the sources: `{install}`"
        );
        return Failure::new(Reason::NotFound, message).report(json);
    }
    let Err(error) = built_in().try_get_matches_from([OsStr::new("sector"), name]) else {
        return ExitCode::from(Status::Usage.exit_code());
    };
    let code = show::usage(&error);
    if let Some(known) = APPLICATIONS.iter().find(|known| known.commands.iter().any(|command| *command == name)) {
        say!("sector: did you mean `sector {} {}`?", known.name, name.display());
        return code;
    }
    if let Some((_, ours)) = ELSEWHERE.iter().find(|(theirs, _)| *theirs == name) {
        say!("sector: here that is `sector {ours}`");
    } else if error.get(ContextKind::SuggestedSubcommand).is_none() {
        say!(
            "sector: there is no program `{}` either, beside `sector` or on PATH",
            terminal::sanitize(&program.to_string_lossy())
        );
    }
    code
}

/// What other programs call commands that have another name here.
const ELSEWHERE: [(&str, &str); 23] = [
    ("chmod", "acl add"),
    ("copy", "cp"),
    ("delete", "rm"),
    ("df", "nodes"),
    ("dir", "ls"),
    ("download", "get"),
    ("head", "cat --range 0-999"),
    ("info", "stat"),
    ("kill", "job ID --cancel"),
    ("list", "ls"),
    ("logs", "job ID --logs"),
    ("mirror", "sync"),
    ("move", "mv"),
    ("ps", "jobs"),
    ("rename", "mv"),
    ("rmdir", "rm"),
    ("rsync", "sync"),
    ("start", "up"),
    ("status", "health"),
    ("stop", "down"),
    ("submit", "run"),
    ("tail", "cat --range -1000"),
    ("upload", "put"),
];

/// What is written here in the place of an option of another program; `words` are those behind `sector`.
pub(crate) fn foreign_option(words: &[OsString]) -> Option<&'static str> {
    let mut words = words.iter().filter_map(|word| word.to_str());
    let command = words.find(|word| !word.starts_with('-'))?;
    let find = |word: &str| FOREIGN_OPTIONS.iter().find(|(of, option, _)| *of == command && *option == word);
    words.find_map(find).map(|(_, _, ours)| *ours)
}

const FOREIGN_OPTIONS: [(&str, &str, &str); 4] = [
    ("cp", "-a", "cp -r"),
    ("cp", "-R", "cp -r"),
    ("find", "-name", "find '/folder/**/*.txt'"),
    ("mkdir", "-m", "acl set"),
];

/// The commands by name: clap suggests similar ones only where no other is allowed.
fn built_in() -> clap::Command {
    let all = Arguments::command();
    let known = APPLICATIONS.iter().map(|known| clap::Command::new(known.name));
    clap::Command::new("sector")
        .disable_help_subcommand(true)
        .subcommand_required(true)
        .args(all.get_arguments())
        .subcommands(all.get_subcommands())
        .subcommands(known)
}

/// A program of this repository that is installed by itself.
struct Application {
    name: &'static str,
    /// Its commands, which a user may look for in `sector` itself.
    commands: &'static [&'static str],
    install: &'static str,
}

/// What `sector --help` says of further programs.
pub(crate) const FURTHER_HELP: &str = "Further commands are programs named sector-NAME, beside this one or on PATH:\n  \
    images       An index of sky images, and cutouts of them, one or many\n  \
    portal       Sky images over HTTP, by the standards of the Virtual Observatory\n  \
    graywulf     Tables of Parquet slices, and what asks them: the next four\n  \
    sql          Ask tables and files of the cloud in SQL\n  \
    table        Make, fill, describe and check tables\n  \
    xmatch       The pairs of two catalogues that lie near each other on the sky\n  \
    tap          Offer tables to programs of the Virtual Observatory: ADQL over TAP\n  \
    worker       Run parts of queries beside a node, where slices lie\n  \
    oct          Terasort, MalStone, measurements, and sites with wide-area links on one machine";

/// Commands of programs that are called without the program's name, too.
const SHORT_NAMES: [(&str, &str); 6] = [
    ("portal", "images"),
    ("sql", "graywulf"),
    ("table", "graywulf"),
    ("xmatch", "graywulf"),
    ("tap", "graywulf"),
    ("worker", "graywulf"),
];

const APPLICATIONS: &[Application] = &[
    Application {
        name: "oct",
        commands: &["terasort", "malgen", "malstone", "bench", "testbed"],
        install: "cargo install --locked --path crates/oct",
    },
    Application {
        name: "images",
        commands: &["cutout", "cutouts"],
        // Its library comes along, which `cargo install` would leave behind.
        install: "cargo build --release --package sector-astroportal",
    },
    Application {
        name: "graywulf",
        commands: &["sql", "table", "xmatch", "tap", "worker"],
        install: "cargo install --locked --path crates/graywulf",
    },
];
/// Tells such a program where `sector` is.
const OWN_PROGRAM: &str = "SECTOR";

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::{fs, os::unix::fs::PermissionsExt};

    use super::*;

    #[test]
    fn the_first_program_that_may_be_run_is_found_and_no_path_is_a_name() {
        let folder = tempfile::tempdir().unwrap();
        let folders: Vec<_> = ["a", "b", "c"].iter().map(|name| folder.path().join(name)).collect();
        for (place, mode) in folders.iter().zip([0o644, 0o755, 0o755]) {
            fs::create_dir(place).unwrap();
            fs::write(place.join("sector-x"), "").unwrap();
            fs::set_permissions(place.join("sector-x"), fs::Permissions::from_mode(mode)).unwrap();
        }
        fs::create_dir(folders[0].join("sector-y")).unwrap();
        assert_eq!(find("x".as_ref(), &folders), Some(folders[1].join("sector-x")));
        for name in ["y", "z", "../b/sector-x", ""] {
            assert_eq!(find(name.as_ref(), &folders), None, "{name}");
        }
        let here: Vec<_> = ["", "."].iter().map(PathBuf::from).collect();
        assert_eq!(find("x".as_ref(), &here), None);
    }

    #[test]
    fn a_mistyped_command_is_answered_with_the_one_that_was_meant() {
        for (typed, meant) in [("octt", "'oct'"), ("statt", "'stat'"), ("jbos", "'jobs'")] {
            let error = built_in().try_get_matches_from(["sector", typed]).unwrap_err().to_string();
            assert!(error.contains("unrecognized subcommand") && error.contains(meant), "{error}");
        }
    }

    #[test]
    fn help_of_a_program_is_asked_of_the_program_and_of_a_command_of_ours_it_is_not() {
        let asked = |line: &str| {
            let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
            asked_help(&words).map(|words| words.join(OsStr::new(" ")))
        };
        assert_eq!(asked("help oct"), Some("oct --help".into()));
        assert_eq!(asked("help oct bench"), Some("oct bench --help".into()));
        for other in ["help put nosuch", "help", "help --nosuch", "put", "oct help", ""] {
            assert_eq!(asked(other), None, "{other}");
        }
    }

    #[test]
    fn what_other_programs_call_commands_and_options_is_answered_and_none_of_ours() {
        let ours = Arguments::command();
        for (theirs, named) in ELSEWHERE {
            assert!(ours.find_subcommand(theirs).is_none(), "{theirs}");
            let first = named.split(' ').next().unwrap();
            assert!(ours.find_subcommand(first).is_some(), "{named}");
        }
        let asked = |line: &str| {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            foreign_option(&words)
        };
        assert_eq!(asked("--json find / -name *.txt"), Some("find '/folder/**/*.txt'"));
        assert_eq!((asked("ls -name"), asked("find /-name"), asked("-name")), (None, None, None));
    }

    #[test]
    fn the_help_names_each_program_of_this_repository() {
        assert!(APPLICATIONS.iter().all(|known| FURTHER_HELP.contains(&format!("\n  {} ", known.name))));
    }
}
