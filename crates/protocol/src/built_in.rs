//! The built-in functions and the parameters that they know. Every SPE has these functions, and a client refuses a
//! parameter that none of them knows before a job begins. A test of `sector` compares the names with those of the
//! functions themselves. It never runs one.

/// A built-in function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BuiltIn {
    /// Its name.
    pub name: &'static str,
    /// What it does, in one line.
    pub does: &'static str,
    /// The parameters that it knows; `None` where they have no fixed names.
    pub parameters: Option<&'static [&'static str]>,
    /// Whether its result for a key needs all records with that key.
    pub needs_whole_keys: bool,
}

impl BuiltIn {
    /// The function of this name.
    pub fn find(name: &str) -> Option<&'static Self> {
        ALL.iter().find(|function| function.name == name)
    }
}

const fn by_record(name: &'static str, does: &'static str, parameters: &'static [&'static str]) -> BuiltIn {
    BuiltIn { name, does, parameters: Some(parameters), needs_whole_keys: false }
}

const fn by_key(name: &'static str, does: &'static str, parameters: &'static [&'static str]) -> BuiltIn {
    BuiltIn { name, does, parameters: Some(parameters), needs_whole_keys: true }
}

/// All of them.
pub const ALL: &[BuiltIn] = &[
    by_record("copy", "gives every record as it is", &[]),
    by_record("count", "counts records and bytes, one line a segment", &[]),
    by_record(
        "partition",
        "spreads fixed records over buckets by the range of their key (cuts=HEX,…; key=OFFSET:LENGTH)",
        &["cuts", "key"],
    ),
    by_record(
        SPREAD_BY_KEY,
        "spreads records over buckets by the hash of their key (key=OFFSET:LENGTH or column:N)",
        SPREAD_PARAMETERS,
    ),
    by_record(
        "filter",
        "keeps records whose key or number fulfils conditions (contains=TEXT, at_least=N, …; key, value)",
        &["contains", "lacks", "begins", "equals", "from", "below", "at_least", "at_most", "key", "value", "separator"],
    ),
    by_key(
        "group",
        "brings records with equal keys together (key; value=column:N: one line a key)",
        &["key", "value", "separator"],
    ),
    by_key(
        REDUCE,
        "makes one record of those with equal keys (reduction=count, sum, min, max or first; key, value)",
        &["reduction", "key", "value", "separator"],
    ),
    by_record("sort", "sorts the fixed records of a segment by key (key=OFFSET:LENGTH)", &["key"]),
    by_record("sample", "gives the key of every n-th fixed record (every=N; key=OFFSET:LENGTH)", &["every", "key"]),
    by_record("teragen", "makes 100-byte terasort records from lines `first count seed`", &[]),
    by_record(
        "teravalidate",
        "checks the order and the sum of fixed records, one line a segment (key=OFFSET:LENGTH)",
        &["key"],
    ),
    by_record(
        "malgen_marked",
        "MalStone's data: which entities marked sites compromise, from lines `first count`",
        MALGEN_PARAMETERS,
    ),
    by_record("malgen_outcome", "MalStone's data: from when on each compromised entity is flagged", &[]),
    by_record("malgen", "MalStone's data: makes records from lines `first count`", MALGEN_PARAMETERS),
    by_record(
        "malstone_visits",
        "MalStone, first stage: each record to the bucket of its entity (start=DATE, days=N)",
        &["start", "days"],
    ),
    by_record(
        "malstone_events",
        "MalStone by records: counts of each site (start, days, by=total or week)",
        &["start", "days", "by", "cuts"],
    ),
    by_record(
        "malstone_entities",
        "MalStone, second stage: the visitors of each site, and those of them that are marked",
        &["start", "days", "by", "cuts"],
    ),
    by_record(
        "malstone_sites",
        "MalStone, last stage: a line of CSV for each site, or for each of its weeks",
        &["start", "days", "by", "of"],
    ),
    by_record("words", "inverted index, first stage: the distinct words of each file, by bucket", &[]),
    BuiltIn {
        name: "offsets",
        does: "what `sector index` runs: where each record of a whole file begins",
        parameters: None,
        needs_whole_keys: false,
    },
    by_record("index", "inverted index, second stage: lines of a word and the paths of the files that contain it", &[]),
];

/// The parameters of what makes MalStone's data.
const MALGEN_PARAMETERS: &[&str] =
    &["sites", "marked", "entities", "site_exponent", "entity_exponent", "days", "probability", "seed"];
/// The function that sends records with equal keys to one bucket.
pub const SPREAD_BY_KEY: &str = "hash";
/// Its parameters, which say the same as those of the functions that need whole keys.
pub const SPREAD_PARAMETERS: &[&str] = &["key", "separator"];
/// The function that makes one record of those with equal keys.
pub const REDUCE: &str = "reduce";
