//! The command line of `sector images`; `docs/command-line.md` is the contract. This file never runs a command.

use std::{net::SocketAddr, path::PathBuf};

use clap::{Args, Parser, Subcommand, ValueEnum};
use dali::DoorSecurity;
use fits::{
    Extension, Section, Selection,
    preview::{Limits, Rendering, Stretch},
    sky::{SkyPosition, SkyRegion},
};
use terminal::{Failure, Global, cloud_path, count_within};

/// An index of sky images, and cutouts of them, one or many.
#[derive(Debug, Parser)]
#[command(name = "sector-images", bin_name = "sector images", version, propagate_version = true)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Make an index of FITS images, or add new ones to it, by a job where the images lie
    #[command(after_help = "Example: sector images index /sky --to /sky-index")]
    Index(Index),
    /// The images that have a position, by the index
    #[command(after_help = "Example: sector images find 202.47,47.2 --index /sky-index --radius 2")]
    Find(Find),
    /// Cut a part out of images: of their pixels, or of the sky
    #[command(after_help = "Examples: sector images cutout /sky/m51.fits --at 202.47,47.2 --size 2 --to m51.fits\n\
        \x20         sector images cutout /sky/m51.fits --section [1][100:199,1:50] --to part.fits\n\
        \x20         sector images cutout /sky --region 'CIRCLE 202.47 47.2 0.02' --to parts/ --format png")]
    Cutout(Box<Cutout>),
    /// Cut all that a table asks for, into one archive
    #[command(after_help = "Example: sector images cutouts tuples.csv --to cutouts.tar\n\n\
        The table is CSV. Columns: path (or file), and one of: x,y,height,width (pixels, the centre from 1);\n\
        ra,dec,size (degrees, arc minutes); section; region. Also: ext, name.\n\
        Without a heading the columns are path,x,y,height,width.")]
    Cutouts(Cutouts),
    /// Serve cutouts and the index over HTTP, by the standards of the Virtual Observatory: SODA, SIA, DataLink
    #[command(after_help = "Examples: sector images portal --index /sky-index\n\
        \x20         sector portal --index /sky-index --public --listen 0.0.0.0:443 --certificate c.pem --key k.pem")]
    Portal(Portal),
    /// Measure cutouts of images made for it: one after another, many at once, in a job
    #[command(after_help = "Example: sector images bench --images 50 --cutouts 20000")]
    Bench(Bench),
    /// Ask a portal for cutouts as one and as many clients, and say how fast and how evenly they are served
    #[command(after_help = "Examples: sector images load --portal http://127.0.0.1:7081 --clients 1,10,100\n\
        \x20         sector images load /sky --portal http://127.0.0.1:7081 --clients 20 --accesses 10 --choice zipf")]
    Load(Load),
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Index {
    /// Images, folders or globs
    #[arg(required = true, value_name = "PATH", value_parser = cloud_path)]
    pub(crate) images: Vec<String>,
    /// The folder of the index
    #[arg(long, value_name = "FOLDER", value_parser = cloud_path)]
    pub(crate) to: String,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Find {
    /// A position: RA,DEC in degrees, or like 13:29:53,+47:11:43
    #[arg(value_name = "RA,DEC", allow_hyphen_values = true)]
    pub(crate) position: SkyPosition,
    /// The folder of the index
    #[arg(long, value_name = "FOLDER", value_parser = cloud_path)]
    pub(crate) index: String,
    /// How far from the position images may lie, in arc minutes
    #[arg(long, default_value_t = 0.0, value_name = "ARCMIN")]
    pub(crate) radius: f64,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Cutout {
    /// Images, folders or globs
    #[arg(required = true, value_name = "PATH")]
    pub(crate) images: Vec<String>,
    #[command(flatten)]
    pub(crate) part: Part,
    /// The image within each file, by number (the first one is 0) or by EXTNAME
    #[arg(long, value_name = "EXT", conflicts_with = "section")]
    pub(crate) ext: Option<Extension>,
    /// The file to write, `-` for standard output; of several images, or with a `/` at its end, a folder
    #[arg(long, value_name = "FILE")]
    pub(crate) to: PathBuf,
    /// What to write
    #[arg(long, value_enum, default_value_t = Format::Fits)]
    pub(crate) format: Format,
    #[command(flatten)]
    pub(crate) look: Look,
    /// The paths are of this machine
    #[arg(long)]
    pub(crate) local: bool,
}

/// Which part of an image: one of these.
#[derive(Clone, Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Part {
    /// A section of pixels, as FITS writes it.
    #[arg(long, value_name = "SECTION", help = "Pixels from 1: [x1:x2,y1:y2], or [EXT][x1:x2,y1:y2]")]
    pub(crate) section: Option<Section>,
    /// Pixels around a centre: X,Y,HEIGHT,WIDTH
    #[arg(long, value_name = "X,Y,H,W", allow_hyphen_values = true)]
    pub(crate) pixels: Option<String>,
    /// CIRCLE RA DEC RADIUS, RANGE RA RA DEC DEC or POLYGON RA DEC RA DEC …, in degrees (ICRS)
    #[arg(long, value_name = "REGION")]
    pub(crate) region: Option<SkyRegion>,
    /// A position: RA,DEC in degrees, or like 13:29:53,+47:11:43; with --size
    #[arg(long, value_name = "RA,DEC", requires = "size", allow_hyphen_values = true)]
    pub(crate) at: Option<SkyPosition>,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Look {
    /// With --at: the side of the cutout in arc minutes, or WIDTHxHEIGHT
    #[arg(long, value_name = "ARCMIN", requires = "at")]
    pub(crate) size: Option<String>,
    /// Of a picture: linear, sqrt, log or asinh
    #[arg(long, default_value = "asinh", value_name = "NAME")]
    pub(crate) stretch: Stretch,
    /// Of a picture, what is black and white: zscale, extremes or LOW:HIGH
    #[arg(long, default_value = "zscale", value_name = "LIMITS", allow_hyphen_values = true)]
    pub(crate) limits: Limits,
}

/// What a cutout is written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// FITS, with all of the header that still holds
    Fits,
    /// A grey picture
    Png,
    /// A grey picture, smaller
    Jpeg,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Cutouts {
    /// The table, a file of this machine: CSV, VOTable or Parquet; `-` for standard input
    #[arg(value_name = "TABLE")]
    pub(crate) table: PathBuf,
    /// The archive to write: tar, with manifest.csv at its end; `-` for standard output, as it is made
    #[arg(long, value_name = "ARCHIVE")]
    pub(crate) to: PathBuf,
    /// Who cuts: a job at the nodes that hold the images, or this client, which reads the bytes that it needs
    #[arg(long, value_enum, default_value_t = By::Node)]
    pub(crate) by: By,
    /// The folder of the index, which says what image has a position, for a table without a column path
    #[arg(long, value_name = "FOLDER", value_parser = cloud_path)]
    pub(crate) index: Option<String>,
    /// Where a job keeps its results until they are in the archive: a folder that you may write
    #[arg(long, default_value = "/", value_name = "FOLDER", value_parser = cloud_path)]
    pub(crate) scratch: String,
}

/// Who cuts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum By {
    /// A job at the nodes that hold the images
    Node,
    /// This client
    Client,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Portal {
    /// Address and port for programs and browsers; beyond this machine with --certificate and --key
    #[arg(long, default_value = "127.0.0.1:7081", value_name = "ADDRESS:PORT")]
    pub(crate) listen: SocketAddr,
    /// The folder of the index; without one there is no search
    #[arg(long, value_name = "FOLDER", value_parser = cloud_path)]
    pub(crate) index: Option<String>,
    /// Where jobs and their results are kept: a folder of your own
    #[arg(long, default_value = "/portal-jobs", value_name = "FOLDER", value_parser = cloud_path)]
    pub(crate) folder: String,
    /// Visitors without a login read what you may read
    #[arg(long)]
    pub(crate) public: bool,
    /// Keep images of other machines that are asked for often in this folder of this machine
    #[arg(long, value_name = "DIR")]
    pub(crate) hot: Option<PathBuf>,
    /// What images that are kept may take there
    #[arg(long, default_value = "10GB", value_name = "BYTES", requires = "hot")]
    pub(crate) hot_room: bytesize::ByteSize,
    #[command(flatten)]
    pub(crate) security: DoorSecurity,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Bench {
    /// Images to make: 1536 x 2048 pixels of 16 bits, 6 MB each
    #[arg(long, default_value_t = 50, value_name = "N", value_parser = count_within(1_u32..=4_096))]
    pub(crate) images: u32,
    /// Cutouts of each measurement: 100 x 100 pixels
    #[arg(long, default_value_t = 20_000, value_name = "N", value_parser = count_within(1_u64..=10_000_000))]
    pub(crate) cutouts: u64,
    /// Cutouts at once, where there are many
    #[arg(long, default_value_t = 16, value_name = "N", value_parser = count_within(1_u32..=512))]
    pub(crate) tasks: u32,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Load {
    /// Images, folders or globs to cut from; without any, images are made for it
    #[arg(value_name = "PATH", value_parser = cloud_path)]
    pub(crate) images: Vec<String>,
    /// The address of the portal, which must be --public
    #[arg(long, value_name = "URL")]
    pub(crate) portal: String,
    /// How many clients there are at once, one after another
    #[arg(long, default_value = "1,2,5,10,20,50,100", value_name = "N,N", value_delimiter = ',',
        value_parser = count_within(1_u32..=500))]
    pub(crate) clients: Vec<u32>,
    /// How long each number of clients asks
    #[arg(long, default_value_t = 10, value_name = "S", value_parser = count_within(1_u64..=86_400))]
    pub(crate) seconds: u64,
    /// Instead of a time: cutouts of each image, on average
    #[arg(long, value_name = "N", conflicts_with = "seconds", value_parser = count_within(1_u64..=1_000_000))]
    pub(crate) accesses: Option<u64>,
    /// Which image is asked for next
    #[arg(long, value_enum, default_value_t = Choice::Uniform)]
    pub(crate) choice: Choice,
    /// Requests of all clients each second, whatever the portal does; without it each waits for its answer
    #[arg(long, value_name = "N", value_parser = rate)]
    pub(crate) rate: Option<f64>,
    /// Images to make where none are given: 1536 x 2048 pixels of 16 bits, 6 MB each
    #[arg(long, default_value_t = 50, value_name = "N", value_parser = count_within(1_u32..=4_096))]
    pub(crate) made: u32,
    /// What the order of requests follows from
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) seed: u64,
}

/// Which image is asked for next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Choice {
    /// All equally often
    Uniform,
    /// The first one most often, the n-th a n-th as often
    Zipf,
}

impl Cutout {
    /// What to cut out.
    pub(crate) fn selection(&self) -> Result<Selection, Failure> {
        let extension = self.ext.clone();
        let Part { section, pixels, region, at } = &self.part;
        if let Some(section) = section {
            return Ok(Selection::Section(section.clone()));
        }
        if let Some(region) = region {
            return Ok(Selection::Region { extension, region: region.clone() });
        }
        if let Some(position) = at {
            let size_arcmin = size(self.look.size.as_deref().unwrap_or_default())?;
            return Ok(Selection::Around { extension, position: *position, size_arcmin });
        }
        around(pixels.as_deref().unwrap_or_default(), extension)
    }

    pub(crate) fn rendering(&self) -> Rendering {
        Rendering { limits: self.look.limits, stretch: self.look.stretch }
    }
}

/// So many a second.
fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse::<f64>().ok().filter(|rate| rate.is_finite() && *rate > 0.0);
    rate.ok_or_else(|| format!("`{text}` is no rate: write requests a second like 200"))
}

/// `2`, or `3x2`: width and height.
fn size(text: &str) -> Result<(f64, f64), Failure> {
    let (width, height) = text.split_once('x').unwrap_or((text, text));
    let number = |text: &str| text.parse::<f64>().ok().filter(|size| size.is_finite() && *size > 0.0);
    number(width)
        .zip(number(height))
        .ok_or_else(|| Failure::usage(format!("`{text}` is no size: write arc minutes like 2, or 3x2")))
}

/// `X,Y,HEIGHT,WIDTH`: pixels around a centre.
fn around(text: &str, extension: Option<Extension>) -> Result<Selection, Failure> {
    let wrong = || Failure::usage(format!("`{text}` are no pixels: write X,Y,HEIGHT,WIDTH like 768,1024,100,100"));
    let parts: Vec<_> = text.split(',').map(str::trim).collect();
    let [x, y, height, width] = parts[..] else { return Err(wrong()) };
    let real = |text: &str| text.parse::<f64>().ok().filter(|number| number.is_finite()).ok_or_else(wrong);
    let whole = |text: &str| text.parse::<u64>().ok().filter(|number| *number > 0).ok_or_else(wrong);
    Ok(Selection::Pixels { extension, centre: (real(x)?, real(y)?), size: (whole(width)?, whole(height)?) })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use clap::CommandFactory;

    use super::*;

    fn selection(words: &[&str]) -> String {
        let words = ["images", "cutout", "/a", "--to", "b"].iter().chain(words);
        let Command::Cutout(cutout) = Arguments::try_parse_from(words).unwrap().command else { panic!() };
        cutout.selection().map_or_else(|failure| failure.message, |selection| selection.to_string())
    }

    #[test]
    fn the_definition_is_sound_and_every_command_has_an_example_that_parses() {
        Arguments::command().debug_assert();
        for command in Arguments::command().get_subcommands() {
            let after = command.get_after_help().unwrap_or_else(|| panic!("{} has no example", command.get_name()));
            let text = after.to_string();
            let words = text.lines().next().unwrap().split_once("sector ").unwrap().1.split(' ');
            assert!(Arguments::try_parse_from(words).is_ok(), "the example of {} does not parse", command.get_name());
        }
    }

    #[test]
    fn a_part_is_said_in_one_way_alone() {
        assert_eq!(selection(&["--section", "[2][1:5,1:5]"]), "[2][1:5,1:5]");
        assert_eq!(selection(&["--pixels", "10,20,30,40", "--ext", "SCI"]), "[SCI] PIXELS 10 20 40 30");
        assert_eq!(selection(&["--at", "-1,2", "--size", "3x2"]), "AROUND 359 2 3 2");
        assert_eq!(selection(&["--region", "CIRCLE 1 2 3"]), "CIRCLE 1 2 3");
        assert!(selection(&["--pixels", "1,2,3"]).contains("no pixels"));
        assert!(selection(&["--at", "1,2", "--size", "0"]).contains("no size"));
        for words in [&["--at", "1,2"][..], &["--section", "[1:2]", "--at", "1,2", "--size", "1"], &[]] {
            let all = ["images", "cutout", "/a", "--to", "b"].iter().chain(words);
            assert!(Arguments::try_parse_from(all).is_err(), "{words:?}");
        }
    }

    #[test]
    fn the_reference_is_that_of_the_parser() {
        let mut command = Arguments::command();
        command.build();
        let names: Vec<_> =
            Arguments::command().get_subcommands().map(|command| command.get_name().to_owned()).collect();
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        let text = terminal::reference::page("Sky images and cutouts", &command, &names);
        let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/images.md");
        let is_current = terminal::reference::is_current(&file, &text).unwrap();
        assert!(is_current, "docs/reference/images.md is not that of the parser: cargo xtask reference");
    }
}
