//! What clients at one address notice of thousands of strangers from another. `get`, `put` and `login` are measured
//! with and without the strangers, in turn, in one run.

use std::{fs, net::IpAddr, path::Path, thread::sleep, time::Duration};

use measure::connection_flood::{ConnectionFlood, FloodKind, FloodTarget};

use crate::{
    cloud::Cloud,
    figures::{spread, timed},
};

/// Measures this many rounds of each.
#[allow(clippy::disallowed_methods)] // what strangers do in their first ten seconds is over when the time is
pub(crate) fn strangers(cloud: &Cloud, folder: &Path, rounds: usize) -> Result<(), String> {
    let (master, authority, (node, at)) = cloud.doors()?;
    let pem = fs::read_to_string(&authority).map_err(|error| format!("{}: {error}", authority.display()))?;
    let doors = [FloodTarget { address: master, name: "master".into() }, FloodTarget { address: at, name: node }];
    cloud.sector_with_input(&["user", "add", "ann", "--password-stdin"], &format!("{PASSWORD}\n"))?;
    let input = folder.join("megabyte");
    fs::write(&input, vec![7; FILE_BYTES]).map_err(|error| error.to_string())?;
    let manners = [("nobody", None), ("silent", Some(FloodKind::Silent)), ("chattering", Some(FloodKind::Chattering))];
    let mut seconds = vec![[const { Vec::new() }; 3]; manners.len()];
    for round in 0..rounds {
        for (place, (_, manner)) in manners.iter().enumerate() {
            let siege =
                manner.map(|manner| ConnectionFlood::start(&doors, FROM, STRANGERS, manner, &pem)).transpose()?;
            // Wait until all of them have connected and their first ten seconds are over.
            sleep(SETTLING);
            for turn in 0..TURNS {
                let path = format!("/{round}-{place}-{turn}");
                measure(cloud, folder, &path, (&master.to_string(), &authority), &mut seconds[place])?;
            }
            drop(siege);
            sleep(LEAVING);
        }
    }
    println!(
        "{STRANGERS} strangers at the master and {STRANGERS} at a node, from {FROM}; medians with least and most:"
    );
    for ((name, _), seconds) in manners.iter().zip(&seconds) {
        for (what, seconds) in ["put 1 MB", "get 1 MB", "login"].iter().zip(seconds) {
            let (least, middle, most) = spread(seconds);
            let [least, middle, most] = [least, middle, most].map(|seconds| seconds * 1_000.0);
            println!("  {name:12} {what:10} {middle:7.1} ms ({least:.1}-{most:.1})");
        }
    }
    Ok(())
}

/// One of each.
fn measure(
    cloud: &Cloud,
    folder: &Path,
    path: &str,
    (master, authority): (&str, &Path),
    seconds: &mut [Vec<f64>; 3],
) -> Result<(), String> {
    let [puts, gets, logins] = seconds;
    let words = |path: &Path| path.to_string_lossy().into_owned();
    let (input, output, profile) = (folder.join("megabyte"), folder.join("back"), folder.join("ann.toml"));
    puts.push(timed(|| cloud.sector_over_network(&["put", &words(&input), path]).map(drop))?);
    let _ = fs::remove_file(&output);
    gets.push(timed(|| cloud.sector_over_network(&["get", path, &words(&output)]).map(drop))?);
    let _ = fs::remove_file(&profile);
    let (authority, profile) = (words(authority), words(&profile));
    let login =
        ["login", "ann", "--password-stdin", "--master", master, "--authority", &authority, "--profile", &profile];
    logins.push(timed(|| cloud.sector_with_input(&login, &format!("{PASSWORD}\n")))?);
    Ok(())
}

/// At each door.
const STRANGERS: usize = 2_000;
/// The strangers' address; all others call from 127.0.0.1.
const FROM: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(127, 0, 0, 2));
/// Measurements of each kind in a round.
const TURNS: usize = 10;
const FILE_BYTES: usize = 1_000_000;
const SETTLING: Duration = Duration::from_secs(12);
const LEAVING: Duration = Duration::from_secs(3);
const PASSWORD: &str = "correct horse";
