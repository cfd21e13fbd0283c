//! Tests the control groups of SPEs on a real kernel, in a QEMU machine that holds nothing but the tests. There, a
//! tree of version 2 belongs to the node. Most containers and builders lack such a tree, so they cannot run these
//! tests directly. Neither QEMU nor the kernel is part of what we distribute. This machine's own control
//! groups are never touched.

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::{shell, test};

/// `cargo xtask cgroups [--kernel FILE]`.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    let kernel = match arguments {
        [] => newest_kernel().ok_or_else(|| format!("no kernel is in /boot or {}; {ADVICE}", folder().display()))?,
        [name, file] if name == "--kernel" => file.into(),
        _ => return Err("`cgroups` takes `--kernel FILE` and nothing else".into()),
    };
    for (program, there) in [(QEMU, shell::has(QEMU, &["--version"])), (BUSYBOX, shell::has(BUSYBOX, &["true"]))] {
        if !there {
            return Err(format!("{program} is missing; {ADVICE}"));
        }
    }
    let folder = folder();
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let image = folder.join("initramfs");
    fs::write(&image, make_image(&folder)?).map_err(|error| format!("{}: {error}", image.display()))?;
    boot(&kernel, &image)
}

/// The contents of the machine: one program for what a shell needs, the tests, and the libraries of both.
fn make_image(folder: &Path) -> Result<Vec<u8>, String> {
    let mut files = BTreeMap::new();
    let mut libraries = BTreeSet::new();
    let mut add = |name: &str, from: &Path| -> Result<(), String> {
        let stripped = folder.join(name);
        let mut strip = Command::new("strip");
        strip.arg("-o").arg(&stripped).arg(from);
        shell::run(strip)?;
        libraries.extend(libraries_of(from)?);
        files.insert(format!("tests/{name}"), read(&stripped)?);
        Ok(())
    };
    for (name, from) in built()? {
        add(&name, &from)?;
    }
    for (name, flags) in [("attacks.so", &["-shared", "-fPIC"][..]), ("attacks", &["-DCONTROL"])] {
        let made = folder.join(format!("{name}.built"));
        let mut compile = Command::new("cc");
        compile.args(["-std=gnu11", "-O1", "-pthread", "-I", "crates/udf/include"]).args(flags);
        compile.arg("-o").arg(&made).arg("crates/spe/tests/escape/attacks.c");
        shell::run(compile)?;
        add(name, &made)?;
    }
    for library in libraries {
        files.insert(library.trim_start_matches('/').to_owned(), read(Path::new(&library))?);
    }
    files.insert("bin/busybox".into(), read(&program(BUSYBOX)?)?);
    files.insert("init".into(), INIT.as_bytes().to_vec());
    files.insert("etc/passwd".into(), b"root:x:0:0::/:/bin/sh\n".to_vec());
    Ok(archive(&files))
}

/// The programs under test, by name.
fn built() -> Result<Vec<(String, PathBuf)>, String> {
    shell::cargo(&["build", "--quiet", "--locked", "--package", "sector"])?;
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command
        .args(["test", "--no-run", "--locked", "--package", "sector-spe", "--lib", "--bins", "--test", "escape"])
        .args(["--message-format", "json-render-diagnostics"])
        .current_dir(shell::root())
        .stderr(Stdio::inherit());
    let output = command.output().map_err(|error| format!("cannot run cargo: {error}"))?;
    if !output.status.success() {
        return Err("the tests of sector-spe could not be built".into());
    }
    let text = String::from_utf8_lossy(&output.stdout);
    // This field holds only whole paths of programs, and none of ours needs escapes.
    let programs = text.lines().filter_map(|line| line.split("\"executable\":\"").nth(1)?.split('"').next());
    let programs: Vec<_> = programs.map(PathBuf::from).collect();
    let find = |name: &str, begins: &str| {
        let is_it = |path: &&PathBuf| path.file_name().is_some_and(|file| file.to_string_lossy().starts_with(begins));
        let found = programs.iter().find(is_it).cloned();
        found.map(|path| (name.to_owned(), path)).ok_or_else(|| format!("cargo built no {name}"))
    };
    let mut found = vec![find("spe", "spe-")?, find("escape", "escape-")?];
    let debug = test::target().join("debug");
    found.extend(["sector-spe", "sector"].map(|name| (name.to_owned(), debug.join(name))));
    Ok(found)
}

/// The shared libraries of a program, by path.
fn libraries_of(program: &Path) -> Result<Vec<String>, String> {
    let output = Command::new("ldd").arg(program).output().map_err(|error| format!("cannot run ldd: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.split_whitespace().filter(|word| word.starts_with('/')).map(str::to_owned).collect())
}

/// Runs the machine. The output of its tests decides, since the machine itself has no exit status.
fn boot(kernel: &Path, image: &Path) -> Result<(), String> {
    let mut command = Command::new(QEMU);
    // A processor emulated in software: slow, but the same wherever this runs, even inside another machine.
    command
        .args(["-accel", "tcg", "-cpu", "max", "-smp", "2", "-m", MEMORY])
        .args(["-nodefaults", "-nographic", "-no-reboot", "-serial", "stdio", "-kernel"])
        .arg(kernel)
        .arg("-initrd")
        .arg(image)
        .args(["-append", "console=ttyS0 loglevel=1 panic=-1 rdinit=/init"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    println!("\n$ {QEMU} -kernel {} -initrd {} …", kernel.display(), image.display());
    let mut machine = command.spawn().map_err(|error| format!("cannot run {QEMU}: {error}"))?;
    let mut has_passed = false;
    for line in machine.stdout.take().into_iter().flat_map(|output| BufReader::new(output).split(b'\n')) {
        let line = line.map_err(|error| format!("the machine cannot be heard: {error}"))?;
        let line = String::from_utf8_lossy(&line);
        println!("{}", line.trim_end());
        has_passed |= line.trim_end() == PASSED;
    }
    machine.wait().map_err(|error| format!("{QEMU}: {error}"))?;
    if has_passed { Ok(()) } else { Err("what ran in the machine has not passed".into()) }
}

/// An archive that the kernel unpacks at its start (`cpio`, format `newc`).
fn archive(files: &BTreeMap<String, Vec<u8>>) -> Vec<u8> {
    let mut folders = BTreeSet::new();
    for name in files.keys() {
        folders.extend(Path::new(name).ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty()));
    }
    let mut archive = Vec::new();
    // In this order each folder comes before what is in it.
    for folder in folders {
        append(&mut archive, &folder.to_string_lossy(), 0o040_755, &[]);
    }
    for (name, content) in files {
        append(&mut archive, name, 0o100_755, content);
    }
    append(&mut archive, "TRAILER!!!", 0, &[]);
    archive
}

fn append(archive: &mut Vec<u8>, name: &str, mode: u32, content: &[u8]) {
    // Number, mode, user, group, links, time, length, four numbers of devices, length of the name, checksum.
    let number = archive.len() + 1;
    let (length, name_length) = (content.len(), name.len() + 1);
    archive.extend(format!("070701{number:08x}{mode:08x}{:08x}{:08x}{:08x}{:08x}", 0, 0, 1, 0).bytes());
    archive.extend(format!("{length:08x}{:032x}{name_length:08x}{:08x}", 0, 0).bytes());
    for part in [format!("{name}\0").as_bytes(), content] {
        archive.extend(part);
        archive.resize(archive.len().next_multiple_of(4), 0);
    }
}

/// The newest kernel of this machine, or of a package that was unpacked where [`ADVICE`] says.
fn newest_kernel() -> Option<PathBuf> {
    let places = [folder().join("kernel/boot"), "/boot".into()];
    places.iter().find_map(|place| {
        let entries = fs::read_dir(place).ok()?.flatten().map(|entry| entry.path());
        let is_kernel =
            |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("vmlinuz"));
        entries.filter(is_kernel).max()
    })
}

/// The path of a program with this name.
fn program(name: &str) -> Result<PathBuf, String> {
    let path = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file());
    found.ok_or_else(|| format!("{name} is missing; {ADVICE}"))
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Where all of this is kept between two runs.
fn folder() -> PathBuf {
    test::target().join("cgroups")
}

/// The machine.
const QEMU: &str = "qemu-system-x86_64";
/// Shell and tools in it, without libraries.
const BUSYBOX: &str = "busybox";
/// Its memory: what the attacks allocate when nothing limits them, and as much again.
const MEMORY: &str = "3G";
/// What runs in it.
const INIT: &str = include_str!("cgroups/init.sh");
/// Its last line if all went well.
const PASSED: &str = "cgroups: all passed";
/// How to get what is needed, on Debian.
const ADVICE: &str = "`apt-get install qemu-system-x86 busybox-static binutils`, and a kernel of 6.1 or newer as \
                      `--kernel FILE`: `apt-get download linux-image-6.1.0-56-cloud-amd64` (a name that `apt-cache depends \
                      linux-image-cloud-amd64` gives) and `dpkg -x linux-image-*.deb target/cgroups/kernel`";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_has_folders_before_what_is_in_them_and_all_of_it_begins_at_fours() {
        let files = BTreeMap::from([("a/b/c".to_owned(), b"xyz".to_vec()), ("init".to_owned(), vec![])]);
        let archive = archive(&files);
        let text = String::from_utf8_lossy(&archive);
        let heads: Vec<_> = text.match_indices("070701").map(|(at, _)| at).collect();
        assert!(heads.iter().all(|at| at % 4 == 0), "{heads:?}");
        let names: Vec<_> = heads.iter().map(|at| text[at + 110..].split('\0').next().unwrap_or_default()).collect();
        assert_eq!(names, ["a", "a/b", "a/b/c", "init", "TRAILER!!!"]);
        assert_eq!(&text[heads[2] + 54..heads[2] + 62], "00000003", "the length of its content");
    }
}
