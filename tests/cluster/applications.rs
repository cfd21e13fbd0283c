//! Commands that are programs of their own: `sector NAME` becomes `sector-NAME`, and where there is none, the answer
//! helps. No cloud is needed.

use std::{
    fs,
    os::unix::{fs::PermissionsExt, process::ExitStatusExt},
    path::Path,
    process::{Command, Stdio},
};

use cluster::{ended, program};

/// Makes a program of one line of shell.
fn script(folder: &Path, name: &str, line: &str) {
    fs::create_dir_all(folder).unwrap();
    let file = folder.join(name);
    let text = folder.join(format!("{name}.txt"));
    fs::write(&text, format!("#!/bin/sh\n{line}\n")).unwrap();
    copy(&text, &file);
    fs::set_permissions(file, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Copies a file that will be run, by a process of its own. A program that another test starts meanwhile would inherit
/// the open file. What is open for writing cannot be run.
fn copy(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg(from).arg(to).status().unwrap().success());
}

/// `sector` as a copy in a folder of its own, where no other program is.
fn alone(folder: &Path, path: &Path, arguments: &[&str]) -> Command {
    let own = folder.join("bin/sector");
    fs::create_dir_all(own.parent().unwrap()).unwrap();
    if !own.exists() {
        copy(&program(), &own);
    }
    let mut command = Command::new(own);
    command.args(arguments).env("PATH", path).stdin(Stdio::null());
    command
}

#[test]
fn a_program_gets_its_arguments_and_its_end_is_that_of_sector() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("path");
    let run = |arguments: &[&str]| alone(folder.path(), &path, arguments).output().unwrap();
    script(&path, "sector-try", "echo \"$@\"; echo \"$SECTOR\"; exit 9");
    let tried = ended(run(&["--json", "try", "-x", "a b", "--help"]));
    let own = folder.path().join("bin/sector");
    assert_eq!((tried.code, tried.text()), (9, format!("--json -x a b --help\n{}\n", own.display())));
    let helped = ended(run(&["help", "try", "that"]));
    assert_eq!((helped.code, helped.text().lines().next()), (9, Some("that --help")));
    script(&path, "sector-fall", "kill -9 $$");
    assert_eq!(run(&["fall"]).status.signal(), Some(9));
    // The folder of `sector` goes first.
    script(own.parent().unwrap(), "sector-try", "exit 8");
    assert_eq!(ended(run(&["try"])).code, 8);
    // No program takes the place of a command.
    script(&path, "sector-down", "exit 7");
    assert_ne!(ended(run(&["down", "--help"])).code, 7);
}

#[test]
fn a_missing_program_is_named_and_a_mistyped_command_is_corrected() {
    let folder = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| ended(alone(folder.path(), folder.path(), arguments).output().unwrap());
    let missing = run(&["oct", "terasort", "gen"]);
    assert_eq!((missing.code, run(&["help", "oct"]).code), (3, 3));
    assert!(missing.errors.contains("`sector-oct`") && missing.errors.contains("cargo install"), "{}", missing.errors);
    for (typed, meant) in [("octt", "oct"), ("lss", "ls"), ("jbos", "jobs")] {
        let wrong = run(&[typed]);
        assert_eq!(wrong.code, 2, "{}", wrong.errors);
        for part in ["unrecognized subcommand", &format!("'{meant}'")] {
            assert!(wrong.errors.contains(part), "{typed}: {}", wrong.errors);
        }
        assert!(!wrong.errors.contains("no program"), "a slip of the finger asks for none: {}", wrong.errors);
    }
    assert!(run(&["qqqq"]).errors.contains("there is no program `sector-qqqq`"));
    assert!(run(&["delete", "/a"]).errors.contains("here that is `sector rm`"));
}

#[test]
fn a_command_of_oct_is_found_where_it_is_now() {
    let folder = tempfile::tempdir().unwrap();
    let help = ended(Command::new(program()).args(["oct", "--help"]).output().unwrap());
    for command in ["terasort", "malgen", "malstone", "bench", "testbed"] {
        assert!(help.text().contains(&format!("\n  {command} ")), "{}", help.text());
        let wrong = ended(alone(folder.path(), folder.path(), &[command, "--help"]).output().unwrap());
        assert_eq!(wrong.code, 2, "{}", wrong.errors);
        assert!(wrong.errors.contains(&format!("did you mean `sector oct {command}`")), "{}", wrong.errors);
    }
}

#[test]
fn oct_is_beside_sector_and_calls_itself_by_the_words_that_run_it() {
    let help = ended(Command::new(program()).args(["oct", "bench", "--help"]).output().unwrap());
    assert_eq!(help.code, 0, "{}", help.errors);
    assert!(help.text().contains("Usage: sector oct bench"), "{}", help.text());
}
