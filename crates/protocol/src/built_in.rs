//! The built-in functions and the parameters that they know. Every SPE has these functions, and a client refuses a
//! parameter that none of them knows before a job begins. A test of `sector` compares the names with those of the
//! functions themselves. It never says what a function does.

/// A built-in function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BuiltIn {
    /// Its name.
    pub name: &'static str,
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

const fn by_record(name: &'static str, parameters: &'static [&'static str]) -> BuiltIn {
    BuiltIn { name, parameters: Some(parameters), needs_whole_keys: false }
}

const fn by_key(name: &'static str, parameters: &'static [&'static str]) -> BuiltIn {
    BuiltIn { name, parameters: Some(parameters), needs_whole_keys: true }
}

/// All of them.
pub const ALL: &[BuiltIn] = &[
    by_record("copy", &[]),
    by_record("count", &[]),
    by_record("partition", &["cuts", "key"]),
    by_record(SPREAD_BY_KEY, SPREAD_PARAMETERS),
    by_record(
        "filter",
        &["contains", "lacks", "begins", "equals", "from", "below", "at_least", "at_most", "key", "value", "separator"],
    ),
    by_key("group", &["key", "value", "separator"]),
    by_key(REDUCE, &["reduction", "key", "value", "separator"]),
    by_record("sort", &["key"]),
    by_record("sample", &["every", "key"]),
    by_record("teragen", &[]),
    by_record("teravalidate", &["key"]),
    by_record("malgen_marked", MALGEN_PARAMETERS),
    by_record("malgen_outcome", &[]),
    by_record("malgen", MALGEN_PARAMETERS),
    by_record("malstone_visits", &["start", "days"]),
    by_record("malstone_events", &["start", "days", "by", "cuts"]),
    by_record("malstone_entities", &["start", "days", "by", "cuts"]),
    by_record("malstone_sites", &["start", "days", "by", "of"]),
    by_record("words", &[]),
    BuiltIn { name: "offsets", parameters: None, needs_whole_keys: false },
    by_record("index", &[]),
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
