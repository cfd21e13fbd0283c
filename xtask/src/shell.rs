//! Runs other programs. The command is printed before its output, so that a failure can be repeated by hand. A
//! command never passes for successful when its exit status says otherwise.

use std::{env, path::PathBuf, process::Command, time::Instant};

/// The folder of the workspace.
pub(crate) fn root() -> PathBuf {
    let own = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    own.parent().map_or_else(|| own.clone(), Into::into)
}

/// Runs cargo in the workspace's folder.
pub(crate) fn cargo(arguments: &[&str]) -> Result<(), String> {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments);
    run(command)
}

/// Runs a command in the workspace's folder; fails if the command fails.
pub(crate) fn run(mut command: Command) -> Result<(), String> {
    let words: Vec<_> = std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let line = words.join(" ");
    println!("\n$ {line}");
    let begun = Instant::now();
    let status = command.current_dir(root()).status().map_err(|error| format!("cannot run `{line}`: {error}"))?;
    println!("  ({:.0} s)", begun.elapsed().as_secs_f64());
    if status.success() { Ok(()) } else { Err(format!("`{line}` failed ({status})")) }
}

/// Whether a program runs with these arguments and succeeds.
pub(crate) fn has(program: &str, arguments: &[&str]) -> bool {
    let quiet = || std::process::Stdio::null();
    Command::new(program).args(arguments).stdout(quiet()).stderr(quiet()).status().is_ok_and(|status| status.success())
}
