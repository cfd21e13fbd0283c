//! The Python package: its wheel is built and installed as a user would, in an environment of its own. Its tests run
//! there with pinned libraries (`tests/python/requirements.txt`). The machine's own Python packages are never
//! changed.

use std::{env, ffi::OsString, fs, path::PathBuf, process::Command};

use crate::{
    shell,
    test::{binary, target},
};

/// Builds, installs, checks and tests the package. The program in the wheel is the one that was built before.
pub(crate) fn run() -> Result<(), String> {
    let path = build_wheel()?;
    let mut install = module("pip install --quiet --disable-pip-version-check --no-deps --no-index --force-reinstall");
    install.arg("--find-links").arg(wheels()).arg("sector-sphere");
    shell::run(install)?;

    shell::run(module("ruff check crates/python tests/python examples/python bench/peers"))?;
    shell::run(module("ruff format --check crates/python tests/python examples/python bench/peers"))?;
    shell::run(module("mypy"))?;
    // Most of the time a test waits for a program. Those of a file share what they have made.
    let mut tests = module("pytest --quiet --numprocesses 2 --dist loadfile");
    // The tests use the installed package.
    tests.env_remove("SECTOR_BINARY").env_remove("SECTOR_PROFILE").env_remove("PYTHONPATH").env("PATH", path);
    shell::run(tests)
}

/// Builds the wheel, and returns the `PATH` with the environment's programs.
pub(crate) fn build_wheel() -> Result<OsString, String> {
    let environment = environment();
    if !environment.join("bin/python").exists() {
        let mut make = Command::new("python3");
        make.args(["-m", "venv"]).arg(&environment);
        shell::run(make)?;
    }
    shell::run(module("pip install --quiet --disable-pip-version-check --requirement tests/python/requirements.txt"))?;

    // Wheels of earlier versions would be found too. If there are none, there is nothing to remove.
    let _ = fs::remove_dir_all(wheels());
    // maturin is installed already, in the version that pyproject.toml wants, and is found through PATH.
    let path = env::var_os("PATH").unwrap_or_default();
    // `sector-oct`, which some pages name, is no part of the wheel.
    let programs = binary().parent().map(PathBuf::from);
    let folders = [environment.join("bin")].into_iter().chain(env::split_paths(&path)).chain(programs);
    let path = env::join_paths(folders).map_err(|error| format!("cannot extend PATH: {error}"))?;
    let mut build = module("pip wheel --quiet --no-deps --no-build-isolation --disable-pip-version-check --wheel-dir");
    build.arg(wheels()).arg(".").env("PATH", &path).env("SECTOR_BINARY", binary());
    shell::run(build)?;
    Ok(path)
}

/// A module of the environment's Python, with its arguments.
fn module(words: &str) -> Command {
    let mut command = Command::new(environment().join("bin/python"));
    command.arg("-m").args(words.split(' '));
    command
}

/// Where the wheel is put.
pub(crate) fn wheels() -> PathBuf {
    target().join("wheels")
}

fn environment() -> PathBuf {
    target().join("python")
}
