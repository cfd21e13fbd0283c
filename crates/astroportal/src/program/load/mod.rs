//! `sector images load`: clients of a portal, few or many, as DiPerF had them for the AstroPortal report (3.2). Each asks
//! for cutouts of 100 x 100 pixels, one after another or at a given rate. It says how fast they are served, how evenly,
//! and from which storage levels. It never asks a portal for more than cutouts of images that it was given, or has made.

mod figures;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use client::{Client, SectorPath};
use daemon::{http_agent, system_certificates};
use fits::ImageFile;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use protocol::Reason;
use terminal::{Failure, Global, show};
use tokio::{
    runtime::Handle,
    task::{JoinSet, spawn_blocking},
};
use ureq::Agent;

use self::figures::{LoadFigure, Seen, knee};
use crate::{
    arguments::{Choice, Load},
    cloud_source::CloudSource,
    made_images,
};

/// `sector images load`.
pub(crate) async fn run(cloud: &Client, arguments: &Load, global: &Global) -> Result<(), Failure> {
    let made = SectorPath::parse(&format!("/.images-load-{}", std::process::id()))?;
    let measured = tokio::select! {
        measured = measure(cloud, &made, arguments, global) => measured,
        // The command as a whole listens for it too; here the images must be removed first.
        signal = terminal::interrupted() => Err(signal.failure("interrupted")),
    };
    let removed = match cloud.find(&made).await {
        Ok(Some(_)) => cloud.remove_now(&made, true).await,
        _ => Ok(()),
    };
    let figures = measured?;
    removed?;
    print(&figures, global)
}

async fn measure(
    cloud: &Client,
    made: &SectorPath,
    arguments: &Load,
    global: &Global,
) -> Result<Vec<LoadFigure>, Failure> {
    let paths = if arguments.images.is_empty() {
        made_images::make(cloud, made, arguments.made, false).await?
    } else {
        let mut paths = Vec::new();
        for glob in &arguments.images {
            paths.extend(cloud.expand(glob).await?.into_iter().map(|entry| entry.path));
        }
        paths
    };
    let targets = Arc::new(Targets::new(cloud, paths, arguments).await?);
    let mut figures = Vec::new();
    for &clients in &arguments.clients {
        if !global.quiet {
            terminal::say!("sector: {}", show::count(clients as usize, "client"));
        }
        figures.push(under(&targets, clients, arguments).await?);
    }
    Ok(figures)
}

fn print(figures: &[LoadFigure], global: &Global) -> Result<(), Failure> {
    if global.json {
        return show::json(&figures);
    }
    let part = |part: f64| format!("{:.0} %", 100.0 * part);
    let row = |figure: &LoadFigure| {
        vec![
            figure.clients.to_string(),
            figure.offered_per_s.map_or("-".into(), |rate| format!("{rate:.0}")),
            format!("{:.0}", figure.per_s),
            figure.failed.to_string(),
            format!("{:.2} ms", figure.p50_ms),
            format!("{:.2} ms", figure.p95_ms),
            format!("{:.2} ms", figure.p99_ms),
            format!("{:.3}", figure.fairness),
            part(figure.levels[0]),
            part(figure.levels[1]),
            part(figure.levels[2]),
        ]
    };
    let head = [
        " clients",
        " offered/s",
        " served/s",
        " failed",
        " median",
        " 95 %",
        " 99 %",
        " fairness",
        " level 1",
        " level 2",
        " level 3",
    ];
    show::table(&head, &figures.iter().map(row).collect::<Vec<_>>());
    if let Some(clients) = knee(figures).filter(|_| figures.len() > 1) {
        show::line(format!("{} get nine tenths of the most", show::count(clients as usize, "client")));
    }
    Ok(())
}

/// What is asked for, and where.
struct Targets {
    /// The address of the portal, to which a query is added.
    portal: String,
    images: Vec<Target>,
    choice: Choice,
    /// For a choice by Zipf's law: up to where each image has its part of all requests.
    shares: Vec<f64>,
    seed: u64,
}

struct Target {
    /// As a query has it.
    id: String,
    width: u64,
    height: u64,
}

impl Targets {
    /// Reads the sizes of the images.
    async fn new(cloud: &Client, paths: Vec<SectorPath>, arguments: &Load) -> Result<Self, Failure> {
        let mut images = Vec::new();
        for path in paths {
            let source = CloudSource::new(cloud.open(&path).await?);
            let opened = spawn_blocking(move || ImageFile::open(source).map(|file| file.images().to_vec())).await;
            let found = opened.map_err(|error| Failure::failed(error.to_string()))?;
            let found = found.map_err(|error| Failure::failed(format!("`{path}`: {error}")))?;
            let Some(image) = found.iter().find(|image| image.shape.len() >= 2) else { continue };
            let id = utf8_percent_encode(&format!("{path}#{}", image.hdu), NON_ALPHANUMERIC).to_string();
            let (width, height) = (image.shape[0], image.shape[1]);
            if width > PIXELS && height > PIXELS {
                images.push(Target { id, width, height });
            }
        }
        if images.is_empty() {
            return Err(Failure::new(Reason::NotFound, format!("no image is larger than {PIXELS} x {PIXELS} pixels")));
        }
        let mut sum = 0.0;
        let mut shares: Vec<f64> = (1..=images.len())
            .map(|rank| {
                sum += 1.0 / rank as f64;
                sum
            })
            .collect();
        shares.iter_mut().for_each(|share| *share /= sum);
        let portal = arguments.portal.trim_end_matches('/').to_owned();
        Ok(Self { portal, images, choice: arguments.choice, shares, seed: arguments.seed })
    }

    /// The address of a request; what it asks for follows from its number.
    fn address(&self, number: u64, accesses: Option<u64>) -> String {
        let mut rng = fastrand::Rng::with_seed(self.seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let images = self.images.len();
        let at = match (accesses, self.choice) {
            // Each image as often as all others, in an order that comes back to it after all of them.
            (Some(_), Choice::Uniform) => (number % images as u64) as usize,
            (None, Choice::Uniform) => rng.usize(0..images),
            (_, Choice::Zipf) => {
                let drawn = rng.f64();
                self.shares.partition_point(|share| *share < drawn).min(images - 1)
            }
        };
        let Target { id, width, height } = &self.images[at];
        let (x, y) = (rng.u64(1..=width - PIXELS), rng.u64(1..=height - PIXELS));
        let section = format!("[{x}:{},{y}:{}]", x + PIXELS - 1, y + PIXELS - 1);
        format!("{}/soda/sync?ID={id}&SUB={}", self.portal, utf8_percent_encode(&section, NON_ALPHANUMERIC))
    }
}

/// The figures of so many clients at once.
async fn under(targets: &Arc<Targets>, clients: u32, arguments: &Load) -> Result<LoadFigure, Failure> {
    let run = Arc::new(Run {
        begun: Instant::now(),
        lasts: arguments.accesses.is_none().then(|| Duration::from_secs(arguments.seconds)),
        number: AtomicU64::new(0),
        requests: arguments.accesses.map(|accesses| accesses * targets.images.len() as u64),
        rate: arguments.rate,
        accesses: arguments.accesses,
        runtime: Handle::current(),
    });
    let mut asking = JoinSet::new();
    for _ in 0..clients {
        let (targets, run) = (Arc::clone(targets), Arc::clone(&run));
        asking.spawn_blocking(move || run.ask(&targets));
    }
    let mut seen = Vec::new();
    while let Some(client) = asking.join_next().await {
        seen.push(client.map_err(|error| Failure::failed(error.to_string()))??);
    }
    Ok(LoadFigure::of(&seen, run.begun.elapsed(), arguments.rate))
}

/// One load, which clients share.
struct Run {
    begun: Instant,
    lasts: Option<Duration>,
    /// The number of the next request.
    number: AtomicU64,
    requests: Option<u64>,
    rate: Option<f64>,
    accesses: Option<u64>,
    runtime: Handle,
}

impl Run {
    /// A client: it waits for each answer before it asks again. At a rate, a request's time begins when it was to be sent.
    /// Otherwise a slow portal would be asked less often, and praised for it.
    fn ask(&self, targets: &Targets) -> Result<Seen, Failure> {
        let agent = Agent::new_with_config(http_agent(&system_certificates(), ANSWER_MAX).build());
        let mut seen = Seen::default();
        loop {
            let number = self.number.fetch_add(1, Ordering::Relaxed);
            let planned = match self.rate {
                Some(rate) => self.begun + Duration::from_secs_f64(number as f64 / rate),
                None => Instant::now(),
            };
            let is_late = self.lasts.is_some_and(|lasts| planned >= self.begun + lasts);
            if is_late || self.requests.is_some_and(|requests| number >= requests) {
                return Ok(seen);
            }
            // Until the request is due; where there is no rate it is due already.
            self.runtime.block_on(tokio::time::sleep_until(planned.into()));
            match cutout(&agent, &targets.address(number, self.accesses))? {
                Some(level) => {
                    seen.times.push(planned.elapsed());
                    if let Some(count) = seen.levels.get_mut(usize::from(level).saturating_sub(1)) {
                        *count += 1;
                    }
                }
                None => seen.failed += 1,
            }
        }
    }
}

/// One cutout, and its storage level; `None` if the portal has no time for it.
fn cutout(agent: &Agent, address: &str) -> Result<Option<u8>, Failure> {
    let failed = |error: ureq::Error| Failure::new(Reason::Unavailable, format!("cannot ask the portal: {error}"));
    let mut answer = agent.get(address).call().map_err(failed)?;
    let status = answer.status().as_u16();
    let level = answer.headers().get("x-sector-storage-level").and_then(|level| level.to_str().ok()?.parse().ok());
    let body = answer.body_mut().read_to_vec().map_err(failed)?;
    match status {
        200 if body.len() as u64 >= PIXELS * PIXELS => Ok(Some(level.unwrap_or(0))),
        429 | 503 => Ok(None),
        401 => Err(Failure::new(Reason::NotAuthenticated, "the portal wants a login: start it with --public")),
        _ => Err(Failure::failed(format!("the portal answers {status}: {}", String::from_utf8_lossy(&body)))),
    }
}

/// Sides of a cutout, as in the AstroPortal report (3.1).
const PIXELS: u64 = 100;
/// How long an answer may take.
const ANSWER_MAX: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn targets(choice: Choice) -> Targets {
        let image = |number: u64| Target { id: number.to_string(), width: 101 + number, height: 300 };
        let (portal, images) = ("http://p".to_owned(), (0..4).map(image).collect());
        Targets { portal, images, choice, shares: vec![0.48, 0.72, 0.88, 1.0], seed: 7 }
    }

    /// How often each image is asked for, and that each part lies within its image.
    fn asked(targets: &Targets, accesses: Option<u64>, requests: u64) -> BTreeMap<String, u64> {
        let mut counts = BTreeMap::new();
        for number in 0..requests {
            let address = targets.address(number, accesses);
            let query = address.strip_prefix("http://p/soda/sync?ID=").and_then(|query| query.split_once("&SUB="));
            let (id, section) = query.unwrap_or_default();
            let section = percent_encoding::percent_decode_str(section).decode_utf8_lossy().into_owned();
            let numbers: Vec<u64> = section.split(|c: char| !c.is_ascii_digit()).flat_map(str::parse).collect();
            let [x1, x2, y1, y2] = numbers[..] else { panic!("{address}") };
            let width = targets.images.iter().find(|image| image.id == id).map_or(0, |image| image.width);
            assert!(x1 >= 1 && x2 == x1 + 99 && x2 <= width && y1 >= 1 && y2 == y1 + 99 && y2 <= 300, "{address}");
            *counts.entry(id.to_owned()).or_default() += 1;
        }
        counts
    }

    #[test]
    fn with_accesses_every_image_is_asked_for_as_often_and_parts_lie_within_it() {
        let counts = asked(&targets(Choice::Uniform), Some(3), 12);
        assert_eq!(counts.into_values().collect::<Vec<_>>(), [3, 3, 3, 3]);
        assert_eq!(asked(&targets(Choice::Uniform), None, 400).len(), 4);
    }

    #[test]
    fn by_zipf_the_first_is_asked_for_most_and_the_same_seed_asks_the_same() {
        let counts: Vec<u64> = asked(&targets(Choice::Zipf), None, 4_000).into_values().collect();
        assert!(counts.is_sorted_by(|a, b| a > b), "{counts:?}");
        assert_eq!(targets(Choice::Zipf).address(9, None), targets(Choice::Zipf).address(9, None));
    }
}
