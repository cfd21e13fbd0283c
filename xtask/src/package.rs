//! What users install: a Debian package with a service for each role, and the wheel. The package is tried in a root
//! folder of its own: installed, run, upgraded, removed and purged. The machine's own packages are never touched.

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    process::Command,
};

use walkdir::WalkDir;

use crate::{
    python, shell,
    test::{build_release, program, target},
};

/// `cargo xtask package`: builds both, and says where they are.
pub(crate) fn run() -> Result<(), String> {
    build_release()?;
    println!("{}", debian()?.display());
    python::build_wheel()?;
    println!("{}\nan image: docker build --file Containerfile --tag sector .", python::wheels().display());
    Ok(())
}

/// The step of the tests. What was built for a release before is what is packed.
pub(crate) fn check() -> Result<(), String> {
    let alerts = |name: &str| shell::root().join("packaging/prometheus").join(name);
    shell::run(command("promtool", &["check", "rules", text(&alerts("alerts.yml"))?]))?;
    shell::run(command("promtool", &["test", "rules", text(&alerts("alerts_test.yml"))?]))?;
    let package = debian()?;
    let root = folder().join("root");
    remove(&root)?;
    if fs::metadata("/proc/self").map_err(said("/proc/self"))?.uid() != 0 {
        println!("SKIPPED: only root may install a package, also in a folder of its own; its files are unpacked alone");
        shell::run(command("dpkg-deb", &["--extract", text(&package)?, text(&root)?]))?;
        return says_its_version(&root);
    }
    for needed in ["var/lib/dpkg/info", "var/lib/dpkg/updates", "var/log"] {
        fs::create_dir_all(root.join(needed)).map_err(said(needed))?;
    }
    write(&root.join("var/lib/dpkg/status"), "", 0o644)?;
    let dpkg = |words: &[&str]| {
        let at = format!("--root={}", root.display());
        // There is nothing in the folder but this package, not even a shell for its scripts.
        let forced = ["--force-depends", "--force-script-chrootless"];
        let mut dpkg = command("dpkg", &[&[at.as_str()], &forced[..], words].concat());
        // The scripts find `systemd-sysusers` as root does.
        dpkg.env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
        shell::run(dpkg)
    };
    dpkg(&["--install", text(&package)?])?;
    says_its_version(&root)?;
    needs_only_what_it_names(&root)?;
    has_users_and_folders(&root)?;
    verify_units(&root)?;

    let (settings, slice) = (root.join("etc/default/sector"), root.join("srv/sector/node/slice"));
    write(&settings, "SECTOR_LOG=debug\n", 0o644)?;
    write(&slice, "the only copy", 0o600)?;
    dpkg(&["--force-confold", "--install", text(&package)?])?;
    expect(fs::read_to_string(&settings).is_ok_and(|text| text.contains("debug")), "an upgrade keeps settings")?;
    dpkg(&["--remove", "sector"])?;
    expect(!root.join("usr/bin/sector").exists(), "a removed program is gone")?;
    expect(settings.exists(), "settings stay when the package is removed")?;
    dpkg(&["--purge", "sector"])?;
    expect(!settings.exists(), "settings go when the package is purged")?;
    expect(slice.exists(), "what nodes keep stays, whatever happens to the package")
}

/// Builds the Debian package of what was built for a release, and returns its file.
fn debian() -> Result<PathBuf, String> {
    let tree = folder().join("tree");
    remove(&tree)?;
    let source = shell::root();
    let packaging = source.join("packaging");
    for name in PROGRAMS {
        copy(&program(name), &tree.join("usr/bin").join(name), 0o755)?;
    }
    copy(&program(JOB_LIBRARY), &tree.join("usr/lib/sector").join(JOB_LIBRARY), 0o644)?;
    for role in ROLES {
        let unit = format!("sector-{role}.service");
        copy(&packaging.join("systemd").join(&unit), &tree.join("usr/lib/systemd/system").join(&unit), 0o644)?;
    }
    for (from, to) in FILES {
        copy(&source.join(from), &tree.join(to), 0o644)?;
    }
    let pages = tree.join("usr/share/man/man1");
    shell::run(command(text(&program("sector"))?, &["man", text(&pages)?, "--quiet"]))?;
    shell::run(command("gzip", &["-9", "--no-name", "--recursive", text(&pages)?]))?;
    for (shell, to) in COMPLETIONS {
        let output = command(text(&program("sector"))?, &["completions", shell]).output().map_err(said(shell))?;
        write(&tree.join(to), &String::from_utf8_lossy(&output.stdout), 0o644)?;
    }
    let control = fs::read_to_string(packaging.join("debian/control")).map_err(said("debian/control"))?;
    let version = version()?;
    let architecture = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
    let control = control
        .replace("@VERSION@", &version)
        .replace("@ARCHITECTURE@", architecture)
        .replace("@INSTALLED_KIB@", &(bytes_below(&tree) / 1024).to_string())
        .replace("@GLIBC@", &glibc()?);
    write(&tree.join("DEBIAN/control"), &control, 0o644)?;
    copy(&packaging.join("debian/conffiles"), &tree.join("DEBIAN/conffiles"), 0o644)?;
    for script in ["postinst", "prerm", "postrm"] {
        copy(&packaging.join("debian").join(script), &tree.join("DEBIAN").join(script), 0o755)?;
    }
    // Whatever this machine gives to new folders.
    for item in WalkDir::new(&tree).into_iter().flatten().filter(|item| item.file_type().is_dir()) {
        fs::set_permissions(item.path(), fs::Permissions::from_mode(0o755)).map_err(said("set modes"))?;
    }
    let package = folder().join(format!("sector_{version}_{architecture}.deb"));
    let build = ["--root-owner-group", "-Zxz", "-z1", "--build", text(&tree)?, text(&package)?];
    shell::run(command("dpkg-deb", &build))?;
    Ok(package)
}

fn says_its_version(root: &Path) -> Result<(), String> {
    let output = Command::new(root.join("usr/bin/sector")).arg("--version").output().map_err(said("sector"))?;
    let wanted = format!("sector {}\n", version()?);
    expect(output.stdout == wanted.as_bytes(), "the installed program says its version")
}

/// The program runs in a root folder with nothing but the libraries of the packages that it depends on: as in an image.
fn needs_only_what_it_names(root: &Path) -> Result<(), String> {
    let output = command("ldd", &[text(&root.join("usr/bin/sector"))?]).output().map_err(said("ldd"))?;
    let needed = String::from_utf8_lossy(&output.stdout).into_owned();
    let libraries = needed.split_whitespace().filter(|word| word.starts_with('/'));
    for library in libraries.filter(|path| LIBRARIES.iter().any(|name| path.contains(name))) {
        copy(Path::new(library), &root.join(library.trim_start_matches('/')), 0o755)?;
    }
    shell::run(command("chroot", &[text(root)?, "/usr/bin/sector", "--version"]))
}

fn has_users_and_folders(root: &Path) -> Result<(), String> {
    let users = fs::read_to_string(root.join("etc/passwd")).map_err(said("etc/passwd"))?;
    for role in ROLES {
        expect(users.contains(&format!("sector-{role}:")), "each role has a user")?;
        let folder = fs::metadata(root.join("srv/sector").join(role)).map_err(said(role))?;
        expect(folder.is_dir() && folder.permissions().mode() & 0o777 == 0o700, "a role's folder is its own")?;
        expect(folder.uid() != 0, "a role's folder is not root's")?;
    }
    Ok(())
}

/// Has systemd read the units as they are installed, and judge how closed those are that run no functions.
fn verify_units(root: &Path) -> Result<(), String> {
    // What the units themselves name.
    for target in ["sysinit", "basic", "multi-user", "network-online", "shutdown"] {
        let name = format!("usr/lib/systemd/system/{target}.target");
        copy(&Path::new("/").join(&name), &root.join(&name), 0o644)?;
    }
    let at = format!("--root={}", root.display());
    let units = ROLES.map(|role| format!("sector-{role}.service"));
    let units: Vec<&str> = units.iter().map(String::as_str).collect();
    shell::run(command("systemd-analyze", &[&["verify", "--man=no", &at], &units[..]].concat()))?;
    for unit in units.into_iter().filter(|unit| *unit != "sector-node.service") {
        let judge = ["security", "--offline=true", "--no-pager", EXPOSURE_MAX, &at, unit];
        let output = command("systemd-analyze", &judge).output().map_err(said(unit))?;
        expect(output.status.success(), &format!("{unit} is closed: {}", String::from_utf8_lossy(&output.stdout)))?;
    }
    Ok(())
}

/// The version of all crates.
fn version() -> Result<String, String> {
    let text = fs::read_to_string(shell::root().join("Cargo.toml")).map_err(said("Cargo.toml"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("version = ")).ok_or("Cargo.toml has no version")?;
    Ok(line.trim_matches('"').to_owned())
}

/// The oldest C library that the programs run with.
fn glibc() -> Result<String, String> {
    let mut newest = 0;
    for name in PROGRAMS {
        newest = newest.max(glibc_minor(&fs::read(program(name)).map_err(said(name))?));
    }
    expect(newest > 0, "the programs name the C library that they need")?;
    Ok(format!("2.{newest}"))
}

/// The newest `GLIBC_2.N` that a program asks for.
fn glibc_minor(program: &[u8]) -> u32 {
    const NAME: &[u8] = b"GLIBC_2.";
    let names = program.windows(NAME.len() + 2).filter(|bytes| bytes.starts_with(NAME));
    let digits = names.map(|bytes| bytes[NAME.len()..].iter().take_while(|byte| byte.is_ascii_digit()));
    digits.map(|digits| digits.fold(0, |number, digit| number * 10 + u32::from(digit - b'0'))).max().unwrap_or(0)
}

fn bytes_below(folder: &Path) -> u64 {
    let files = WalkDir::new(folder).into_iter().flatten().filter_map(|file| file.metadata().ok());
    files.filter(fs::Metadata::is_file).map(|file| file.len()).sum()
}

fn command(program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments);
    command
}

fn copy(from: &Path, to: &Path, mode: u32) -> Result<(), String> {
    let bytes = fs::read(from).map_err(said(&from.display().to_string()))?;
    write_bytes(to, &bytes, mode)
}

fn write(to: &Path, text: &str, mode: u32) -> Result<(), String> {
    write_bytes(to, text.as_bytes(), mode)
}

fn write_bytes(to: &Path, bytes: &[u8], mode: u32) -> Result<(), String> {
    let name = to.display().to_string();
    fs::create_dir_all(to.parent().unwrap_or(to)).map_err(said(&name))?;
    fs::write(to, bytes).map_err(said(&name))?;
    fs::set_permissions(to, fs::Permissions::from_mode(mode)).map_err(said(&name))
}

fn remove(folder: &Path) -> Result<(), String> {
    if folder.exists() { fs::remove_dir_all(folder).map_err(said(&folder.display().to_string())) } else { Ok(()) }
}

fn text(path: &Path) -> Result<&str, String> {
    path.to_str().ok_or_else(|| format!("{} is no text", path.display()))
}

fn expect(holds: bool, what: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(format!("this does not hold: {what}")) }
}

fn said<E: std::fmt::Display>(what: &str) -> impl FnOnce(E) -> String {
    let what = what.to_owned();
    move |error| format!("{what}: {error}")
}

/// Where packages are made and tried.
fn folder() -> PathBuf {
    target().join("package")
}

/// The roles that have a service.
const ROLES: [&str; 4] = ["security", "master", "node", "gateway"];
/// The programs of the package.
const PROGRAMS: &[&str] = &["sector", "sector-oct", "sector-images", "sector-graywulf"];
/// The library that `sector images` sends to nodes.
const JOB_LIBRARY: &str = "libastroportal.so";
/// Its other files, and where they go.
const FILES: &[(&str, &str)] = &[
    ("packaging/default", "etc/default/sector"),
    ("packaging/sysusers.conf", "usr/lib/sysusers.d/sector.conf"),
    ("packaging/tmpfiles.conf", "usr/lib/tmpfiles.d/sector.conf"),
    ("LICENSE", "usr/share/doc/sector/copyright"),
    ("CHANGELOG.md", "usr/share/doc/sector/CHANGELOG.md"),
];
/// How exposed a service may be that runs no functions, by systemd's scale of 0 to 100.
const EXPOSURE_MAX: &str = "--threshold=25";
/// The libraries of libc6 and libgcc-s1.
const LIBRARIES: &[&str] = &["/ld-linux-", "/libc.so.", "/libm.so.", "/libgcc_s.so."];
/// What shells need, and where they look for it.
const COMPLETIONS: &[(&str, &str)] = &[
    ("bash", "usr/share/bash-completion/completions/sector"),
    ("zsh", "usr/share/zsh/vendor-completions/_sector"),
    ("fish", "usr/share/fish/vendor_completions.d/sector.fish"),
];

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn file(name: &str) -> String {
        fs::read_to_string(shell::root().join(name)).unwrap()
    }

    /// The instructions of a `Containerfile`, each with what stands behind it.
    fn instructions(text: &str) -> Vec<(String, String)> {
        let lines = text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
        lines.map(|line| line.split_once(' ').unwrap()).map(|(word, rest)| (word.to_owned(), rest.to_owned())).collect()
    }

    #[test]
    fn the_image_is_built_of_what_is_there_and_runs_the_program_as_no_root() {
        let steps = instructions(&file("Containerfile"));
        let known = ["FROM", "WORKDIR", "COPY", "RUN", "VOLUME", "USER", "EXPOSE", "ENTRYPOINT", "CMD"];
        assert!(steps.iter().all(|(word, _)| known.contains(&word.as_str())), "{steps:?}");
        let rest =
            |word: &'static str| steps.iter().filter(move |(name, _)| name == word).map(|(_, rest)| rest.as_str());
        let minimum =
            file("Cargo.toml").lines().find_map(|line| Some(line.strip_prefix("rust-version = ")?.to_owned()));
        let images: Vec<&str> = rest("FROM").collect();
        assert!(images[0].contains(&format!("rust:{}-", minimum.unwrap().trim_matches('"'))), "{images:?}");
        assert_eq!(images.len(), 2);
        // A build in the image needs the lock file, and takes nothing that was built outside.
        assert!(
            file(".dockerignore").lines().any(|line| line == "target") && shell::root().join("Cargo.lock").exists()
        );
        for script in rest("RUN") {
            assert!(shell::has("sh", &["-n", "-c", script]), "{script}");
        }
        let binary = rest("COPY").find_map(|copy| copy.strip_prefix("--from=build /build/")).unwrap();
        assert_eq!(binary, "target/release/sector /usr/bin/sector");
        assert!(rest("ENTRYPOINT").eq(["[\"/usr/bin/sector\"]"]) && rest("USER").eq(["sector"]));
    }

    #[test]
    fn a_service_starts_what_is_configured_and_nothing_else() {
        for role in ROLES {
            let unit = file(&format!("packaging/systemd/sector-{role}.service"));
            let settings = format!("/srv/sector/{role}/{role}.toml");
            let lines = [
                format!("ConditionPathExists={settings}"),
                format!("ExecStart=/usr/bin/sector {role} --config {settings}"),
                format!("User=sector-{role}"),
                "NoNewPrivileges=yes".into(),
            ];
            for line in lines {
                assert!(unit.lines().any(|own| own == line), "{role} lacks {line}");
            }
            assert!(file("packaging/sysusers.conf").contains(&format!("u sector-{role} ")));
            assert!(file("packaging/tmpfiles.conf").contains(&format!("d /srv/sector/{role} 0700 ")));
        }
        // The sandbox around functions makes namespaces, mounts and control groups.
        let node = file("packaging/systemd/sector-node.service");
        assert!(node.contains("Delegate=yes") && !node.contains("RestrictNamespaces"));
        for script in ["postinst", "prerm", "postrm"] {
            let path = format!("packaging/debian/{script}");
            assert!(shell::has("sh", &["-n", shell::root().join(&path).to_str().unwrap()]), "{path}");
            assert!(!file(&path).contains("systemctl start") && !file(&path).contains("systemctl enable"), "{path}");
        }
    }

    #[test]
    fn the_newest_c_library_that_is_named_counts() {
        assert_eq!(glibc_minor(b"..GLIBC_2.4\0GLIBC_2.34\0GLIBC_2.9\0.."), 34);
        assert_eq!(glibc_minor(b"nothing"), 0);
    }
}
