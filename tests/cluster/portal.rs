//! The portal over two sites: images that are asked for often come to where they are asked for (AstroPortal report; path
//! *portal*). Each answer says which storage level has served it.

use std::{
    fs,
    io::{BufRead, BufReader, Lines, Write},
    process::{Child, ChildStdout, Stdio},
};

use cluster::{CliTestbed, poll_until};
use serde_json::Value;

#[test]
fn an_image_that_is_asked_for_often_comes_and_is_never_trusted() {
    let Some(testbed) = CliTestbed::up(&["--sites", "2", "--nodes-per-site", "1", "--rtt", "20ms"]) else { return };
    let image = testbed.folder().join("far.fits");
    fs::write(&image, fits_image(1_000, 7)).unwrap();
    testbed.ok_at("site2", &["mkdir", "/far"]);
    testbed.ok_at("site2", &["policy", "set", "/far", "copies=1", "sites=site2"]);
    testbed.ok_at("site2", &["put", image.to_str().unwrap(), "/far/m51.fits"]);
    let hot = testbed.folder().join("hot");

    let portal = Portal::start(&testbed, &["--hot", hot.to_str().unwrap()]);
    assert_eq!(portal.status()["hot"]["images"], 0);
    let first = portal.load("1");
    assert_eq!(first["levels"], serde_json::json!([0.0, 0.0, 1.0]), "{first}");
    // An image that is open here is asked for anew each time: what has replaced it is what is cut.
    assert_eq!(portal.cut(11, 21), part_of_image(7, 11, 21));
    fs::write(&image, fits_image(1_000, 9)).unwrap();
    testbed.ok_at("site2", &["put", image.to_str().unwrap(), "/far/m51.fits"]);
    assert_eq!(portal.cut(11, 21), part_of_image(9, 11, 21));
    assert_eq!(portal.cut(981, 500), part_of_image(9, 981, 500));
    portal.load("20");
    poll_until("it has come", || (portal.status()["hot"]["images"] == 1).then_some(()));
    let (near, status) = (portal.load("5"), portal.status());
    assert_eq!(near["levels"], serde_json::json!([1.0, 0.0, 0.0]), "{near}");
    assert_eq!(status["hot"]["bytes"], fs::metadata(&image).unwrap().len());
    assert!(status["cutouts_by_level"][0].as_u64().unwrap() >= 5 && status["cutouts_by_level"][2] != 0, "{status}");
    // Whoever uses a folder has it alone.
    let second = testbed.run_at("site1", &["portal", "--listen", "127.0.0.1:0", "--hot", hot.to_str().unwrap()]);
    assert!(second.code == 1 && second.errors.contains("another portal"), "{}", second.errors);
    drop(portal);

    // What was kept is kept, as long as it is what it was.
    let portal = Portal::start(&testbed, &["--hot", hot.to_str().unwrap()]);
    poll_until("it was taken over", || (portal.status()["hot"]["images"] == 1).then_some(()));
    assert_eq!(portal.load("5")["levels"], serde_json::json!([1.0, 0.0, 0.0]));
    let copy = fs::read_dir(&hot).unwrap().flatten().find(|file| file.file_name() != "lock").unwrap().path();
    fs::File::options().write(true).open(&copy).unwrap().write_all(&[0xff; 4_096]).unwrap();
    let damaged = portal.load("1");
    assert_eq!(damaged["levels"], serde_json::json!([0.0, 0.0, 1.0]), "the cloud has served it: {damaged}");
    assert!(!copy.exists(), "a damaged copy goes");
}

/// A portal at site 1, with an image at site 2, until it is dropped.
struct Portal<'a> {
    testbed: &'a CliTestbed,
    process: Child,
    /// Open, since a program whose output nobody takes may end.
    _output: Lines<BufReader<ChildStdout>>,
    url: String,
}

impl<'a> Portal<'a> {
    fn start(testbed: &'a CliTestbed, options: &[&str]) -> Self {
        let words = ["portal", "--listen", "127.0.0.1:0", "--public", "--json"];
        let mut command = testbed.command_at("site1", &[&words, options].concat());
        let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(process.stdout.take().unwrap()).lines();
        let url = output
            .by_ref()
            .map_while(Result::ok)
            .find_map(|line| Some(line.split_once("\"url\": \"")?.1.replace('"', "")));
        Self { testbed, process, _output: output, url: url.expect("the portal says where it is") }
    }

    /// One client that asks for so many cutouts of the image.
    fn load(&self, accesses: &str) -> Value {
        let words = [
            "images",
            "load",
            "/far/m51.fits",
            "--portal",
            &self.url,
            "--clients",
            "1",
            "--accesses",
            accesses,
            "--json",
        ];
        let figures: Value = serde_json::from_str(&self.testbed.ok_at("site1", &words)).unwrap();
        assert_eq!((&figures[0]["cutouts"].to_string(), &figures[0]["failed"]), (&accesses.to_owned(), &0.into()));
        figures[0].clone()
    }

    fn status(&self) -> Value {
        serde_json::from_slice(&self.get("portal/status")).unwrap()
    }

    /// The pixels of a part of [`PART`] x [`PART`] pixels that begins there, counted from 1.
    fn cut(&self, x: usize, y: usize) -> Vec<u8> {
        let (last_x, last_y) = (x + PART - 1, y + PART - 1);
        let made = self.get(&format!("soda/sync?ID=/far/m51.fits&SUB=%5B{x}:{last_x},{y}:{last_y}%5D"));
        made[made.len() - 2_880..][..2 * PART * PART].to_vec()
    }

    fn get(&self, address: &str) -> Vec<u8> {
        let ask = "import sys, urllib.request; print(*urllib.request.urlopen(sys.argv[1]).read())";
        let url = format!("{}/{address}", self.url);
        let told = self.testbed.ok(&["oct", "testbed", "run", "site1", "python3", "-c", ask, &url]);
        told.split_whitespace().map(|byte| byte.parse().unwrap()).collect()
    }
}

impl Drop for Portal<'_> {
    fn drop(&mut self) {
        // It has nothing to save, and may have ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Side of the parts that are cut.
const PART: usize = 20;

fn pixel(factor: usize, x: usize, y: usize) -> [u8; 2] {
    ((factor * (x + 1_000 * y)) as i16).to_be_bytes()
}

/// The pixels of such an image that [`Portal::cut`] gives.
fn part_of_image(factor: usize, x: usize, y: usize) -> Vec<u8> {
    let rows = (y - 1..y - 1 + PART).flat_map(|y| (x - 1..x - 1 + PART).map(move |x| (x, y)));
    rows.flat_map(|(x, y)| pixel(factor, x, y)).collect()
}

/// An image of so many rows and columns, of 16 bits each, which differ by the factor.
fn fits_image(side: usize, factor: usize) -> Vec<u8> {
    let cards = [
        ("SIMPLE", "T"),
        ("BITPIX", "16"),
        ("NAXIS", "2"),
        ("NAXIS1", &side.to_string()),
        ("NAXIS2", &side.to_string()),
    ];
    let mut bytes: Vec<u8> =
        cards.iter().flat_map(|(name, value)| format!("{name:<8}= {value:>20}{:50}", "").into_bytes()).collect();
    bytes.extend(format!("{:<80}", "END").into_bytes());
    bytes.resize(bytes.len().next_multiple_of(2_880), b' ');
    bytes.extend((0..side * side).flat_map(|at| pixel(factor, at % side, at / side)));
    bytes.resize(bytes.len().next_multiple_of(2_880), 0);
    bytes
}
