//! The web pages in a real browser: a cloud of its own with a portal of sky images, and `tests/web` against them. The
//! release build serves them. The browser is Debian's Chromium. It never runs against a cloud that someone uses.

use std::{
    fs,
    io::{BufRead, BufReader, Lines, Write},
    path::PathBuf,
    process::{Child, ChildStdout, Command, Stdio},
};

use crate::{
    shell,
    test::{binary, target},
};

/// Starts a cloud with an administrator who has a password, runs the tests, and stops it whatever came of them.
pub(crate) fn run() -> Result<(), String> {
    let mut install = Command::new("npm");
    install.args(["ci", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", "tests/web"]);
    shell::run(install)?;
    let home = home();
    // What an earlier run has left; there may be nothing.
    let _ = fs::remove_dir_all(&home);
    let up = ["up", "--detach", "--nodes", "4", "--sites", "2", "--port", "0", "--web-port", "0"];
    shell::run(sector(&up))?;
    let result = in_browser();
    shell::run(sector(&["down"]))?;
    result
}

fn in_browser() -> Result<(), String> {
    let mut add = sector(&["user", "add", USER, "--admin", "--password-stdin"]);
    let failed = |error: std::io::Error| error.to_string();
    let mut child = add.stdin(Stdio::piped()).spawn().map_err(failed)?;
    child.stdin.take().ok_or("no pipe")?.write_all(format!("{PASSWORD}\n").as_bytes()).map_err(failed)?;
    if !child.wait().map_err(failed)?.success() {
        return Err(format!("cannot add the user `{USER}`"));
    }
    let link = sector(&["web"]).output().map_err(failed)?;
    let link = String::from_utf8_lossy(&link.stdout).into_owned();
    let (page, _) = link.split_once("/#/").ok_or("`sector web` printed no link")?;
    store_images()?;
    let portal = Portal::start()?;
    let mut tests = Command::new("node");
    tests.arg("tests/web/run.js").env("SECTOR_WEB_BASE", page).env("SECTOR_WEB_PORTAL", &portal.url);
    tests.env("SECTOR_WEB_USER", USER).env("SECTOR_WEB_PASSWORD", PASSWORD);
    shell::run(tests)
}

/// A portal of the images, until it is dropped.
struct Portal {
    process: Child,
    /// Open, since a program whose output nobody takes may end.
    _output: Lines<BufReader<ChildStdout>>,
    url: String,
}

impl Portal {
    fn start() -> Result<Self, String> {
        let arguments = ["portal", "--listen", "127.0.0.1:0", "--index", "/sky-index", "--public", "--json"];
        let failed = |error: std::io::Error| error.to_string();
        let mut process = sector(&arguments).stdout(Stdio::piped()).spawn().map_err(failed)?;
        let mut output = BufReader::new(process.stdout.take().ok_or("no pipe")?).lines();
        let url = output
            .by_ref()
            .map_while(Result::ok)
            .find_map(|line| Some(line.split_once("\"url\": \"")?.1.replace('"', "")));
        let portal = Self { process, _output: output, url: url.unwrap_or_default() };
        if portal.url.is_empty() { Err("the portal did not start".into()) } else { Ok(portal) }
    }
}

impl Drop for Portal {
    fn drop(&mut self) {
        // It has nothing to save, and may have ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Puts the images that `portal.test.js` names into the cloud, with an index.
fn store_images() -> Result<(), String> {
    let folder = home().join("sky");
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    fs::create_dir_all(&folder).map_err(failed)?;
    for (name, target, filter, place) in [
        ("m51-g", "M 51", "g", (202.47, 47.2)),
        ("m51-r", "M 51", "r", (202.47, 47.2)),
        ("south", "South field", "r", (10.0, -30.0)),
    ] {
        fs::write(folder.join(format!("{name}.fits")), image(target, filter, place)).map_err(failed)?;
    }
    fs::write(folder.join("broken.fits"), b"SIMPLE  =                    T").map_err(failed)?;
    let folder = folder.display().to_string();
    shell::run(sector(&["put", "-r", &folder, "/sky"]))?;
    shell::run(sector(&["images", "index", "/sky", "--to", "/sky-index"]))
}

/// A FITS image of a tenth of a degree, brighter towards its middle.
fn image(target: &str, filter: &str, (ra, dec): (f64, f64)) -> Vec<u8> {
    let mut cards = vec!["SIMPLE  =                    T".to_owned()];
    let mut card = |name: &str, value: String| cards.push(format!("{name:<8}= {value:>20}"));
    for (name, value) in [("BITPIX", 16), ("NAXIS", 2), ("NAXIS1", SIDE), ("NAXIS2", SIDE)] {
        card(name, value.to_string());
    }
    for (axis, kind, value, step) in [(1, "RA---TAN", ra, -0.001), (2, "DEC--TAN", dec, 0.001)] {
        card(&format!("CTYPE{axis}"), format!("'{kind}'"));
        card(&format!("CRVAL{axis}"), format!("{value:?}"));
        card(&format!("CRPIX{axis}"), format!("{:?}", f64::from(SIDE + 1) / 2.0));
        card(&format!("CDELT{axis}"), format!("{step:?}"));
    }
    for (name, text) in [("RADESYS", "ICRS"), ("OBJECT", target), ("FILTER", filter)] {
        card(name, format!("'{text:<8}'"));
    }
    cards.push("END".into());
    let mut bytes: Vec<u8> = cards.iter().flat_map(|card| format!("{card:<80}").into_bytes()).collect();
    bytes.resize(bytes.len().next_multiple_of(FITS_BLOCK), b' ');
    for y in 0..SIDE {
        for x in 0..SIDE {
            let off = |at: i32| (2 * at - SIDE + 1).abs();
            let pixel = (2 * SIDE - off(x) - off(y)) as i16;
            bytes.extend(pixel.to_be_bytes());
        }
    }
    bytes.resize(bytes.len().next_multiple_of(FITS_BLOCK), 0);
    bytes
}

fn sector(arguments: &[&str]) -> Command {
    let mut command = Command::new(binary());
    command.args(arguments).env("SECTOR_HOME", home()).env_remove("SECTOR_PROFILE");
    command
}

/// `$SECTOR_HOME` of the cloud.
fn home() -> PathBuf {
    target().join("web-test")
}

/// Pixels of a side of an image.
const SIDE: i32 = 100;
/// Bytes that a FITS file is a multiple of.
const FITS_BLOCK: usize = 2_880;
/// The administrator whom the tests log in as.
const USER: &str = "webtest";
const PASSWORD: &str = "correct horse battery";
