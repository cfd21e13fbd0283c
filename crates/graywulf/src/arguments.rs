//! The command lines of `sector sql` and `sector table`; `docs/command-line.md` is the contract. This file never runs a
//! command.

use std::{net::SocketAddr, path::PathBuf};

use bytesize::ByteSize;
use clap::{Args, Parser, Subcommand};
use dali::DoorSecurity;
use terminal::{Global, cloud_path, count_within};

use crate::{output::ResultFormat, tables::ColumnDescription, workers::WorkerAddress};

/// Tables of Parquet slices, and SQL over them.
#[derive(Debug, Parser)]
#[command(name = "sector-graywulf", bin_name = "sector", version, propagate_version = true)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Ask tables and files of the cloud in SQL
    #[command(after_help = "Examples: sector sql 'SELECT count(*) FROM sky.stars WHERE dec > 60'\n\
        \x20         sector sql \"SELECT * FROM '/logs/day.csv' LIMIT 5\"\n\
        \x20         sector sql --file query.sql --to bright.parquet\n\n\
        A name like a.b.c is the table of the folder /a/b/c. A quoted path is a table, a file in Parquet, CSV, TSV or\n\
        JSON lines, or a folder of such files. EXPLAIN ANALYZE says what was read of each slice, and how near it was.")]
    Sql(Sql),
    /// Make, fill, describe and check tables
    #[command(subcommand)]
    Table(Table),
    /// The pairs of two catalogues that lie near each other on the sky
    #[command(after_help = "Examples: sector xmatch /sky/stars /sky/galaxies --radius 2arcsec\n\
        \x20         sector xmatch /sky/a /sky/b --radius 1arcmin --best --columns id,id_2,sep_arcsec --to pairs.parquet\n\n\
        A column of the second catalogue whose name the first one has too gets _2 at its end; sep_arcsec is how far apart\n\
        the two are. In a statement: SELECT … FROM xmatch('/sky/a', '/sky/b', 2) or xmatch('/sky/a', '/sky/b', 2, 'best').\n\
        Positions are the columns with the UCD pos.eq.ra and pos.eq.dec, or with names like ra and dec, in degrees.")]
    Xmatch(Xmatch),
    /// Offer tables to programs of the Virtual Observatory: ADQL over TAP
    #[command(after_help = "Examples: sector tap\n\
        \x20         sector tap --tables /sky --public --listen 0.0.0.0:443 --certificate c.pem --key k.pem\n\n\
        TOPCAT, pyvo and others take its address, such as http://127.0.0.1:7082/tap. Each sees what its user may read.")]
    Tap(Tap),
    /// Run parts of queries beside a node, where slices lie
    #[command(after_help = "Examples: sector worker\n\
        \x20         sector worker --listen 0.0.0.0:7083 --certificate c.pem --key k.pem\n\n\
        Start one on each machine that has a node. Then `sector sql`, `xmatch` and `tap` use them: --workers\n\
        a:7083,b:7083, or the variable SECTOR_WORKERS. A part reads with the rights of who asks.")]
    Worker(Worker),
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Sql {
    /// The statement: SELECT, EXPLAIN or DESCRIBE; `-` reads it from standard input
    #[arg(value_name = "STATEMENT", required_unless_present = "file", conflicts_with = "file")]
    pub(crate) statement: Option<String>,
    /// Read the statement from a file of this machine
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Where names without a folder are looked for
    #[arg(long, default_value = "/", value_name = "FOLDER", value_parser = cloud_path)]
    pub(crate) folder: String,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) workers: WorkersUsed,
    #[command(flatten)]
    pub(crate) room: Room,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Xmatch {
    /// The first catalogue: a table, or a file
    #[arg(value_name = "CATALOGUE", value_parser = cloud_path)]
    pub(crate) left: String,
    /// The second one, the smaller of the two where all pairs are wanted
    #[arg(value_name = "OTHER", value_parser = cloud_path)]
    pub(crate) right: String,
    /// How far apart the two of a pair may be: 2arcsec, 0.5arcmin, 1deg
    #[arg(long, value_name = "ANGLE", value_parser = arcsec)]
    pub(crate) radius: f64,
    /// Of each row of the first catalogue, only the nearest pair
    #[arg(long)]
    pub(crate) best: bool,
    /// Columns of the result, between commas [default: all of both, and sep_arcsec]
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    pub(crate) columns: Vec<String>,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) workers: WorkersUsed,
    #[command(flatten)]
    pub(crate) room: Room,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Tap {
    /// Address and port for programs; beyond this machine with --certificate and --key
    #[arg(long, default_value = "127.0.0.1:7082", value_name = "ADDRESS:PORT")]
    pub(crate) listen: SocketAddr,
    /// The tables below this folder are offered
    #[arg(long, default_value = "/", value_name = "FOLDER", value_parser = cloud_path)]
    pub(crate) tables: String,
    /// Where jobs and their results are kept: a folder of your own
    #[arg(long, default_value = "/tap-jobs", value_name = "FOLDER", value_parser = cloud_path)]
    pub(crate) folder: String,
    /// Visitors without a login read what you may read
    #[arg(long)]
    pub(crate) public: bool,
    #[command(flatten)]
    pub(crate) security: DoorSecurity,
    /// Fetch tables for queries from this host, though its address is not a public one
    #[arg(long, value_name = "HOST")]
    pub(crate) upload_from: Vec<String>,
    #[command(flatten)]
    pub(crate) workers: WorkersUsed,
    /// What all queries may take together
    #[command(flatten)]
    pub(crate) room: Room,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Worker {
    /// Address and port for queries; beyond this machine with --certificate and --key
    #[arg(long, default_value = "127.0.0.1:7083", value_name = "ADDRESS:PORT")]
    pub(crate) listen: SocketAddr,
    #[command(flatten)]
    pub(crate) security: DoorSecurity,
    /// Trust other workers with certificates of this file, PEM, and those that the system trusts
    #[arg(long, value_name = "FILE")]
    pub(crate) workers_authority: Option<PathBuf>,
    /// What all parts may take together
    #[command(flatten)]
    pub(crate) room: Room,
}

/// Workers that run parts of queries.
#[derive(Clone, Debug, Args)]
pub(crate) struct WorkersUsed {
    /// Workers that run parts of the query, between commas: https://HOST:PORT, or HOST:PORT [default: $SECTOR_WORKERS]
    #[arg(long, value_name = "ADDRESSES", value_delimiter = ',')]
    pub(crate) workers: Vec<WorkerAddress>,
    /// Trust workers with certificates of this file, PEM, and those that the system trusts [default: $SECTOR_WORKERS_AUTHORITY]
    #[arg(long, value_name = "FILE")]
    pub(crate) workers_authority: Option<PathBuf>,
    /// Cut a plan into parts where it reads so much, or where workers are nearer to what it reads
    #[arg(long, default_value = "16MB", value_name = "SIZE")]
    pub(crate) workers_from: ByteSize,
    /// Use workers without TLS on other machines: your login crosses the network as readable text
    #[arg(long)]
    pub(crate) insecure_workers: bool,
}

/// Where rows go, and how.
#[derive(Clone, Debug, Args)]
pub(crate) struct Output {
    /// The file to write, whose name says the format; `-` for standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) to: Option<PathBuf>,
    /// What to write [default: what the file's name says, else table]
    #[arg(long, value_enum)]
    pub(crate) format: Option<ResultFormat>,
    /// Of a table to look at, the most rows
    #[arg(long, default_value = "1000", value_name = "ROWS", value_parser = count_within::<usize>(1..))]
    pub(crate) rows: usize,
}

/// What the engine may take.
#[derive(Clone, Debug, Args)]
pub(crate) struct Room {
    /// Memory for sorts, joins and groups; what needs more goes to disk [default: half of what is free]
    #[arg(long, value_name = "SIZE")]
    pub(crate) memory: Option<ByteSize>,
    /// Room on disk for what does not fit into memory
    #[arg(long, default_value = "100GB", value_name = "SIZE")]
    pub(crate) spill: ByteSize,
    /// The folder for it [default: the system's for temporary files]
    #[arg(long, value_name = "FOLDER")]
    pub(crate) spill_folder: Option<PathBuf>,
    /// Threads of work [default: all cores]
    #[arg(long, value_name = "COUNT", value_parser = count_within::<usize>(1..=1024))]
    pub(crate) threads: Option<usize>,
}

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Table {
    /// Make a table without rows
    #[command(after_help = "Examples: sector table create /sky/stars --like stars.csv --zones ra,dec\n\
        \x20         sector table create /sky/runs --column run:int --column begun:timestamp --key run\n\n\
        Types: boolean, tinyint, smallint, int, bigint, the same with a u before, real, double, text, binary, date,\n\
        timestamp, time, and what Arrow writes, such as Decimal128(12, 2).")]
    Create(Create),
    /// Load rows of files: all of them appear at once, or none
    #[command(after_help = "Examples: sector table load /sky/stars stars.csv\n\
        \x20         sector table load /sky/stars 'sector://raw/night-*.parquet' --replace")]
    Load(Load),
    /// Say what a table is: columns, layout, slices
    Describe(OneTable),
    /// The tables below a folder
    List(List),
    /// Remove a table with all its slices, to the trash
    Drop(OneTable),
    /// Compare a table with its slices
    Check(OneTable),
}

#[derive(Clone, Debug, Args)]
pub(crate) struct OneTable {
    /// The table's folder
    #[arg(value_name = "TABLE", value_parser = cloud_path)]
    pub(crate) table: String,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Create {
    /// The table's folder
    #[arg(value_name = "TABLE", value_parser = cloud_path)]
    pub(crate) table: String,
    /// Take the columns of a file: Parquet, CSV, TSV, JSON lines, FITS or VOTable; of this machine, or sector://…
    #[arg(long, value_name = "FILE", required_unless_present = "column")]
    pub(crate) like: Option<String>,
    /// A column, or another type for one of the file's: NAME:TYPE[:UNIT[:UCD]]
    #[arg(long, value_name = "COLUMN", value_parser = column)]
    pub(crate) column: Vec<ColumnDescription>,
    /// Sort by these columns
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',', conflicts_with = "zones")]
    pub(crate) key: Vec<String>,
    /// Sort by zone of declination, then by right ascension: the names of both columns, in degrees
    #[arg(long, value_name = "RA,DEC", value_delimiter = ',', num_args = 1)]
    pub(crate) zones: Vec<String>,
    /// The height of a zone, in arc seconds
    #[arg(long, default_value_t = 30.0, value_name = "ARCSEC", requires = "zones")]
    pub(crate) zone_height: f64,
    /// What the table is, in a sentence
    #[arg(long, value_name = "TEXT")]
    pub(crate) description: Option<String>,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Load {
    /// The table's folder
    #[arg(value_name = "TABLE", value_parser = cloud_path)]
    pub(crate) table: String,
    /// Files of this machine, or sector://… with globs: Parquet, CSV, TSV, JSON lines, FITS or VOTable
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<String>,
    /// These rows take the place of all that are there
    #[arg(long)]
    pub(crate) replace: bool,
    /// About how long a slice becomes
    #[arg(long, default_value = "256MB", value_name = "SIZE")]
    pub(crate) slice_size: ByteSize,
    #[command(flatten)]
    pub(crate) room: Room,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct List {
    /// The folder
    #[arg(default_value = "/", value_name = "FOLDER", value_parser = cloud_path)]
    pub(crate) folder: String,
}

/// `NAME:TYPE[:UNIT[:UCD]]`.
fn column(text: &str) -> Result<ColumnDescription, String> {
    let mut parts = text.splitn(4, ':').map(str::trim);
    let (Some(name), Some(column_type)) = (parts.next(), parts.next()) else {
        return Err("write NAME:TYPE, as in ra:double:deg:pos.eq.ra".into());
    };
    let mut next = || parts.next().unwrap_or_default().to_owned();
    let (unit, ucd) = (next(), next());
    Ok(ColumnDescription { name: name.into(), column_type: column_type.into(), unit, ucd, description: String::new() })
}

/// An angle in arc seconds.
fn arcsec(text: &str) -> Result<f64, String> {
    let units = [("arcsec", 1.0), ("arcmin", 60.0), ("deg", 3600.0), ("\"", 1.0), ("'", 60.0)];
    let (number, factor) = units
        .iter()
        .find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, *factor)))
        .ok_or("write an angle with its unit: 2arcsec, 0.5arcmin, 1deg")?;
    let number: f64 = number.trim().parse().map_err(|_| format!("`{number}` is no number"))?;
    Ok(number * factor)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definition_holds() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn the_reference_is_that_of_the_parser() {
        let mut command = Arguments::command();
        command.build();
        let text =
            terminal::reference::page("Tables, SQL and cross-match", &command, &["sql", "table", "xmatch", "tap"]);
        let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/sql.md");
        let is_current = terminal::reference::is_current(&file, &text).unwrap();
        assert!(is_current, "docs/reference/sql.md is not that of the parser: cargo xtask reference");
    }

    #[test]
    fn an_angle_has_a_unit() {
        for (text, expected) in [("2arcsec", 2.0), ("0.5 arcmin", 30.0), ("1deg", 3600.0), ("3\"", 3.0), ("1'", 60.0)] {
            assert_eq!(arcsec(text), Ok(expected), "{text}");
        }
        assert!(arcsec("2").is_err());
        assert!(arcsec("xdeg").is_err());
    }

    #[test]
    fn a_column_is_a_name_and_a_type_and_may_say_more() {
        let ra = column("ra:double:deg:pos.eq.ra;meta.main").unwrap();
        assert_eq!((ra.name.as_str(), ra.column_type.as_str()), ("ra", "double"));
        assert_eq!((ra.unit.as_str(), ra.ucd.as_str()), ("deg", "pos.eq.ra;meta.main"));
        assert!(column("ra").is_err());
    }
}
