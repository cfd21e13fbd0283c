//! Sphere's built-in functions (Sector/Sphere paper, 3.2, 3.6 and 4): what every SPE can run without a library of the
//! user. They serve the path *job* and the terasort and demo commands; [`ALL`] lists them. They are written against
//! `udf` alone, exactly as a user's functions are. They never touch a file, a socket or a clock.

mod batch;
mod checksum;
mod copy;
mod count;
mod escape;
mod fields;
mod inverted_index;
pub mod malstone;
mod offsets;
mod sorting;
pub mod terasort;
mod writer;

pub use inverted_index::reference;
pub use sorting::{cuts, key};
pub use udf::Function;

/// The name of each built-in function, with what it does in one line.
///
/// | name | input | parameters | output |
/// |---|---|---|---|
/// | `copy` | any | – | the records, to bucket 0 |
/// | `count` | any | – | a line `path from records bytes` for each segment, to bucket 0 |
/// | `partition` | fixed | `cuts`, `key` | each record to the bucket of its key's range |
/// | `hash` | fixed, lines, index | `key` | each record to the bucket of its key's hash |
/// | `filter` | fixed, lines, index | conditions, `key`, `value` | the records that fulfil all conditions, by their key's hash |
/// | `group` | fixed, lines, index | `key`, `value` | the records in the order of their keys, by their key's hash |
/// | `reduce` | fixed, lines | `reduction`, `key`, `value` | one record a key, by its key's hash |
/// | `sort` | fixed | `key` | the segment's records by key, to bucket 0 |
/// | `sample` | fixed | `every`, `key` | the key of every n-th record, to bucket 0 |
/// | `teragen` | lines, file | – | 100-byte records, to bucket 0 |
/// | `teravalidate` | fixed | `key` | a [`SegmentCheck`](terasort::SegmentCheck) line for each segment, to bucket 0 |
/// | `malgen_marked`, `malgen_outcome`, `malgen` | lines, file, lines | a [`Plan`](malstone::Plan) | entities that marked sites compromise; records of MalStone |
/// | `malstone_visits`, `malstone_events` | fixed | `start`, `days`; `by`, `cuts` | visits by entity; counts by ranges of sites |
/// | `malstone_entities`, `malstone_sites` | file | `start`, `days`, `by`; `cuts`; `of` | what each site has; lines of CSV, to bucket 0 |
/// | `words` | file, lines | – | a block of words for each file and bucket |
/// | `offsets` | file | `records`, `head:N` | the index of each file, to bucket 0 |
/// | `index` | file | – | lines `word`, tab, paths with a blank between them, to bucket 0 |
///
/// `key` is `offset:length` in bytes within the record; the default is terasort's `0:10`. For lines it may also be
/// `column:N`, and the default is the first column. `separator` is the separator between columns; the default is a
/// tab.
pub const ALL: &[(&str, &str)] = &[
    ("copy", "gives every record as it is"),
    ("count", "counts records and bytes, one line a segment"),
    ("partition", "spreads fixed records over buckets by the range of their key (cuts=HEX,…; key=OFFSET:LENGTH)"),
    ("hash", "spreads records over buckets by the hash of their key (key=OFFSET:LENGTH or column:N)"),
    ("filter", "keeps records whose key or number fulfils conditions (contains=TEXT, at_least=N, …; key, value)"),
    ("group", "brings records with equal keys together (key; value=column:N: one line a key)"),
    ("reduce", "makes one record of those with equal keys (reduction=count, sum, min, max or first; key, value)"),
    ("sort", "sorts the fixed records of a segment by key (key=OFFSET:LENGTH)"),
    ("sample", "gives the key of every n-th fixed record (every=N; key=OFFSET:LENGTH)"),
    ("teragen", "makes 100-byte terasort records from lines `first count seed`"),
    ("teravalidate", "checks the order and the sum of fixed records, one line a segment (key=OFFSET:LENGTH)"),
    ("malgen_marked", "MalStone's data: which entities marked sites compromise, from lines `first count`"),
    ("malgen_outcome", "MalStone's data: from when on each compromised entity is flagged"),
    ("malgen", "MalStone's data: makes records from lines `first count`"),
    ("malstone_visits", "MalStone, first stage: each record to the bucket of its entity (start=DATE, days=N)"),
    ("malstone_events", "MalStone by records: counts of each site (start, days, by=total or week)"),
    ("malstone_entities", "MalStone, second stage: the visitors of each site, and those of them that are marked"),
    ("malstone_sites", "MalStone, last stage: a line of CSV for each site, or for each of its weeks"),
    ("words", "inverted index, first stage: the distinct words of each file, by bucket"),
    ("offsets", "what `sector index` runs: where each record of a whole file begins"),
    ("index", "inverted index, second stage: lines of a word and the paths of the files that contain it"),
];

/// Finds a built-in function.
pub fn find(name: &str) -> Option<Function> {
    let function: Function = match name {
        "copy" => copy::copy,
        "count" => count::count,
        "partition" => sorting::partition::partition,
        "hash" => fields::hash::hash,
        "filter" => fields::filter::filter,
        "group" => fields::group::group,
        "reduce" => fields::reduce::reduce,
        "sort" => sorting::sort::sort,
        "sample" => sorting::sample::sample,
        "teragen" => terasort::teragen,
        "teravalidate" => terasort::teravalidate,
        "malgen_marked" => malstone::malgen_marked,
        "malgen_outcome" => malstone::malgen_outcome,
        "malgen" => malstone::malgen,
        "malstone_visits" => malstone::malstone_visits,
        "malstone_events" => malstone::malstone_events,
        "malstone_entities" => malstone::malstone_entities,
        "malstone_sites" => malstone::malstone_sites,
        "words" => inverted_index::words::words,
        "index" => inverted_index::index::index,
        "offsets" => offsets::offsets,
        _ => return None,
    };
    Some(function)
}

#[cfg(test)]
mod testing;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_function_of_the_list_is_found_and_no_other() {
        assert!(ALL.iter().all(|(name, line)| find(name).is_some() && !line.is_empty()));
        assert!(find("").is_none() && find("Copy").is_none());
    }
}
