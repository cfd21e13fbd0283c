//! The topology's file: TOML in, a [`Topology`] out, or what is wrong with it and on which line. It serves the start of
//! the master, each reload, and `sector topology check`. A file is taken as a whole or not at all: it is never used in
//! part.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::SystemTime,
};

use protocol::{
    AddressRange, NodeId, Topology, rate,
    topology::{Link, SitePair, check_name},
};
use serde::Deserialize;
use toml::Spanned;

use crate::DaemonError;

/// A topology's file, and the state in which it was last read.
///
/// ```toml
/// [nodes]                       # a node's name -> where it stands
/// node-1 = "chicago/rack-1"
///
/// [addresses]                   # clients, and nodes that are not named
/// "10.1.0.0/16" = "chicago"
///
/// [[link]]                      # without `sites`: all pairs of different sites
/// sites = ["chicago", "baltimore"]
/// distance_millis = 22
/// limit = "200 Mbit/s"
/// ```
#[derive(Clone, Debug)]
pub struct TopologyFile {
    file: PathBuf,
    seen: Option<(SystemTime, u64)>,
}

impl TopologyFile {
    /// The file at `file`; it is not read yet.
    pub fn new(file: PathBuf) -> Self {
        Self { file, seen: None }
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.file
    }

    /// Reads it. Blocks.
    ///
    /// # Errors
    /// When it cannot be read, or anything in it is wrong.
    pub fn read(&mut self) -> Result<Topology, DaemonError> {
        // Noted before it is read: what is written meanwhile is then read again.
        self.seen = self.stamp();
        read(&self.file)
    }

    /// Reads it if it has changed since the last reading. Blocks.
    pub fn read_if_changed(&mut self) -> Option<Result<Topology, DaemonError>> {
        (self.stamp() != self.seen).then(|| self.read())
    }

    /// Time and length, which change with the content; `None` if there is no file.
    fn stamp(&self) -> Option<(SystemTime, u64)> {
        let metadata = fs::metadata(&self.file).ok()?;
        Some((metadata.modified().ok()?, metadata.len()))
    }
}

/// Reads the topology in `file`. Blocks.
///
/// # Errors
/// When it cannot be read, or anything in it is wrong.
pub fn read(file: &Path) -> Result<Topology, DaemonError> {
    let unreadable = |source| DaemonError::TopologyUnreadable { file: file.to_owned(), source };
    let text = fs::read_to_string(file).map_err(unreadable)?;
    parse(&text).map_err(|TopologyFault { line, why }| DaemonError::Topology { file: file.to_owned(), line, why })
}

fn parse(text: &str) -> Result<Topology, TopologyFault> {
    let line_at = |offset: usize| 1 + text.bytes().take(offset).filter(|byte| *byte == b'\n').count();
    let written: RawTopology = toml::from_str(text).map_err(|error| {
        let why = error.message().lines().next().unwrap_or("it is not TOML").to_owned();
        TopologyFault { line: line_at(error.span().map_or(0, |span| span.start)), why }
    })?;
    let mut topology = Topology::default();
    for (id, spot) in &written.nodes {
        let wrong = |why: String| TopologyFault { line: line_at(spot.span().start), why };
        let id = NodeId::new(id).map_err(|error| wrong(error.to_string()))?;
        let place = spot.get_ref().parse().map_err(said(&wrong))?;
        topology.set_node(id, place).map_err(said(&wrong))?;
    }
    for (range, spot) in &written.addresses {
        let wrong = |why: String| TopologyFault { line: line_at(spot.span().start), why };
        let range: AddressRange = range.parse().map_err(said(&wrong))?;
        let spot = spot.get_ref().parse().map_err(said(&wrong))?;
        topology.set_addresses(range, spot).map_err(said(&wrong))?;
    }
    let mut is_between_said = false;
    for spanned in &written.link {
        let link = spanned.get_ref();
        let wrong = |why: String| TopologyFault { line: line_at(spanned.span().start), why };
        let limit = link.limit.as_ref().map(|limit| {
            let wrong = |why: String| TopologyFault { line: line_at(limit.span().start), why };
            limit_of(limit.get_ref()).map_err(wrong)
        });
        let read = Link { distance_millis: link.distance_millis, limit_bytes_per_second: limit.transpose()? };
        if read == Link::default() {
            return Err(wrong("this link says nothing; give `distance_millis`, `limit`, or both".into()));
        }
        match &link.sites {
            None if std::mem::replace(&mut is_between_said, true) => {
                return Err(wrong(
                    "only one link may be without `sites`: it is for all pairs that are not named".into(),
                ));
            }
            None => topology.set_default_link(read).map_err(said(&wrong))?,
            Some(sites) => {
                let wrong = |why: String| TopologyFault { line: line_at(sites.span().start), why };
                topology.set_link(pair_of(sites.get_ref()).map_err(wrong)?, read).map_err(said(&wrong))?;
            }
        }
    }
    Ok(topology)
}

fn pair_of(sites: &[String]) -> Result<SitePair, String> {
    let [a, b] = sites else {
        return Err(format!("`sites` names {} sites; name the two that the link joins", sites.len()));
    };
    for name in [a, b] {
        check_name(name).map_err(|why| format!("`{name}` is no site: {why}"))?;
    }
    Ok(SitePair::new(a, b))
}

fn limit_of(value: &toml::Value) -> Result<u64, String> {
    match value {
        toml::Value::String(text) => rate::parse(text).map_err(|error| error.to_string()),
        toml::Value::Integer(number) => {
            u64::try_from(*number).map_err(|_| format!("a limit of {number} bytes per second makes no sense"))
        }
        other => Err(format!("a limit is a text like \"200 Mbit/s\" or a number, not a {}", other.type_str())),
    }
}

/// Turns an error into a fault on a line.
fn said<E: ToString>(wrong: &impl Fn(String) -> TopologyFault) -> impl Fn(E) -> TopologyFault + '_ {
    move |error| wrong(error.to_string())
}

/// What is wrong, and on which line.
#[derive(Debug, PartialEq, Eq)]
struct TopologyFault {
    line: usize,
    why: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTopology {
    #[serde(default)]
    nodes: BTreeMap<String, Spanned<String>>,
    #[serde(default)]
    addresses: BTreeMap<String, Spanned<String>>,
    #[serde(default)]
    link: Vec<Spanned<RawLink>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawLink {
    sites: Option<Spanned<Vec<String>>>,
    distance_millis: Option<u32>,
    limit: Option<Spanned<toml::Value>>,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use protocol::{Place, Status};

    use super::*;

    const GOOD: &str = r#"
[nodes]
node-1 = "chicago/rack-1"
"node.2" = "baltimore/rack-7"

[addresses]
"10.1.0.0/16" = "chicago"
"2001:db8::/32" = "baltimore/rack-7"

[[link]]
distance_millis = 50

[[link]]
sites = ["chicago", "baltimore"]
distance_millis = 22
limit = "200 Mbit/s"

[[link]]
sites = ["chicago", "chicago"]
limit = 125000000
"#;

    #[test]
    fn a_whole_file_is_read() {
        let topology = parse(GOOD).unwrap();
        let said = Place::new("x", "y");
        let node = NodeId::new("node.2").unwrap();
        let anywhere = "192.0.2.1".parse().unwrap();
        assert_eq!(topology.place_of(&node, anywhere, &said), Place::new("baltimore", "rack-7"));
        assert_eq!(topology.place_of_address("10.1.2.3".parse().unwrap()).unwrap().to_string(), "chicago");
        assert_eq!(topology.distance_millis("baltimore", "chicago"), 22);
        assert_eq!(topology.distance_millis("baltimore", "elsewhere"), 50);
        assert_eq!(topology.limit_bytes_per_second("chicago", "baltimore"), Some(25_000_000));
        assert_eq!(topology.limit_bytes_per_second("chicago", "chicago"), Some(125_000_000));
        assert_eq!(parse("").unwrap(), Topology::default(), "an empty file says nothing, and that is allowed");
    }

    // Promise 14.
    #[test]
    fn each_wrong_file_is_refused_with_its_line_and_reason() {
        let link = "[[link]]\nsites = [\"a\", \"b\"]\n";
        let cases = [
            ("this is no toml".to_owned(), 1, "expected"),
            ("[nods]\nn = \"a/1\"".to_owned(), 1, "unknown field `nods`"),
            ("[nodes]\n\"../up\" = \"a/1\"".to_owned(), 2, "node id"),
            ("[nodes]\nn1 = \"a\"".to_owned(), 2, "the rack is missing"),
            ("[nodes]\nn1 = \"a/b/c\"".to_owned(), 2, "no `/`"),
            ("[nodes]\n\nn1 = 7".to_owned(), 3, "expected a string"),
            ("[nodes]\nn1 = \"a/1\"\nn1 = \"a/2\"".to_owned(), 3, "duplicate key"),
            ("[addresses]\n\"10.0.0.1/8\" = \"a\"".to_owned(), 2, "it starts at 10.0.0.0"),
            ("[addresses]\n\"10.0.0.0/8\" = \"\"".to_owned(), 2, "1 to 64 bytes"),
            (format!("{link}limit = \"fast\""), 3, "is not a rate"),
            (format!("{link}limit = \"1 kbit/s\""), 2, "at least 1 Mbit/s"),
            (format!("{link}limit = -1"), 3, "makes no sense"),
            (format!("{link}limit = true"), 3, "not a boolean"),
            (format!("{link}distance_millis = 99999"), 2, "no distance on this planet"),
            (format!("{link}distance = 1"), 3, "unknown field `distance`"),
            (link.to_owned(), 1, "says nothing"),
            (format!("{link}limit = 200000\n[[link]]\nsites = [\"b\", \"a\"]\nlimit = 300000"), 5, "there twice"),
            ("[[link]]\nsites = [\"a\"]\nlimit = 200000".to_owned(), 2, "names 1 sites"),
            ("[[link]]\nsites = [\"a\", \"b/1\"]\nlimit = 200000".to_owned(), 2, "`b/1` is no site"),
            ("[[link]]\nlimit = 200000\n[[link]]\nlimit = 300000".to_owned(), 3, "only one link"),
        ];
        for (text, line, why) in cases {
            let wrong = parse(&text).unwrap_err();
            assert!(wrong.line == line && wrong.why.contains(why), "{text}\n{wrong:?}");
        }
    }

    #[test]
    fn a_file_is_read_again_only_when_it_has_changed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sites.toml");
        let mut file = TopologyFile::new(path.clone());
        assert!(file.read_if_changed().is_none(), "there is none, and there was none");
        fs::write(&path, GOOD).unwrap();
        assert!(file.read_if_changed().unwrap().is_ok());
        assert!(file.read_if_changed().is_none());
        fs::write(&path, format!("{GOOD}\nnonsense")).unwrap();
        let error = file.read_if_changed().unwrap().unwrap_err();
        assert_eq!(error.refusal().status(), Status::Usage);
        assert!(error.to_string().contains("sites.toml, line 22: "), "{error}");
        assert!(error.to_string().contains("topology"), "{error}");
        fs::remove_file(&path).unwrap();
        let gone = file.read_if_changed().unwrap().unwrap_err();
        assert_eq!(gone.refusal().status(), Status::NotFound);
    }
}
