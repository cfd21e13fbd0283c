//! MalStone beside an obvious reference, over small logs with every edge that its definition has. It never shares code
//! with what it checks: times are compared as texts, and days are counted on a calendar of its own.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};

use udf::{FunctionError, Input, RecordFormat};

use super::{draws::tests::plan, malgen::tests::generated, record::tests::record};
use crate::testing::run_on;

/// The CSV of MalStone over segments, with this many buckets of entities and two ranges of sites.
fn malstone(segments: &[&[u8]], by: &str, of: &str, days: &str, buckets: u32) -> Result<String, FunctionError> {
    let parameters = [("start", "2009-01-01"), ("days", days), ("by", by), ("cuts", "3"), ("of", of)];
    let mut cells = [Vec::new(), Vec::new()];
    let mut add = |name: &str, input: Input<'_>| -> Result<(), FunctionError> {
        let found = run_on(name, input.with_buckets(2), &parameters)?;
        cells.iter_mut().zip(0..).for_each(|(cells, range)| cells.extend_from_slice(found.bucket(range)));
        Ok(())
    };
    let mut entities = vec![Vec::new(); buckets as usize];
    for segment in segments {
        let input = Input::new(segment, RecordFormat::Fixed(101)).at("/log", 0, 0);
        if of == "events" {
            add("malstone_events", input)?;
            continue;
        }
        let visits = run_on("malstone_visits", input.with_buckets(buckets), &parameters)?;
        (0..).zip(&mut entities).for_each(|(bucket, all)| all.extend_from_slice(visits.bucket(bucket)));
    }
    for bucket in entities.iter().filter(|bucket| !bucket.is_empty()) {
        add("malstone_entities", Input::new(bucket, RecordFormat::File))?;
    }
    let mut csv = String::new();
    for range in cells.iter().filter(|range| !range.is_empty()) {
        let found = run_on("malstone_sites", Input::new(range, RecordFormat::File), &parameters)?;
        let text = String::from_utf8(found.bucket(0).to_vec()).unwrap();
        let without_head = text.split_once('\n').unwrap().1;
        csv.push_str(if csv.is_empty() { &text } else { without_head });
    }
    Ok(csv)
}

/// A line of a log: time, site, flag, entity.
type Line = (String, u64, bool, u64);

fn lines(log: &[u8]) -> Vec<Line> {
    let line = |line: &str| {
        let fields: Vec<&str> = line.split('|').collect();
        (fields[1].to_owned(), fields[2].parse().unwrap(), fields[3] == "1", fields[4].parse().unwrap())
    };
    str::from_utf8(log).unwrap().lines().map(line).collect()
}

/// The week of a time in 2009, from 1.
fn week(time: &str) -> usize {
    let months = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let month: usize = time[5..7].parse().unwrap();
    let day: usize = time[8..10].parse().unwrap();
    1 + (months[..month - 1].iter().sum::<usize>() + day - 1) / 7
}

/// The same by the definition, record by record.
fn reference(log: &[u8], by: &str, of: &str) -> String {
    let lines: Vec<Line> = lines(log).into_iter().filter(|line| line.0.starts_with("2009")).collect();
    // For each site, the weeks in which visitors and marked ones come new.
    let mut sites: BTreeMap<u64, Vec<(usize, Option<usize>)>> = BTreeMap::new();
    if of == "events" {
        for (time, site, flag, _) in &lines {
            sites.entry(*site).or_default().push((week(time), flag.then(|| week(time))));
        }
    } else {
        let pairs: BTreeSet<(u64, u64)> = lines.iter().map(|line| (line.1, line.3)).collect();
        for (site, entity) in pairs {
            let of_entity = || lines.iter().filter(move |line| line.3 == entity);
            let first = of_entity().filter(|line| line.1 == site).map(|line| &line.0).min().unwrap();
            let flagged = of_entity().filter(|line| line.2 && line.0 >= *first).map(|line| week(&line.0)).min();
            sites.entry(site).or_default().push((week(first), flagged));
        }
    }
    let columns = if of == "events" { "flagged,events" } else { "marked,visitors" };
    let mut csv = format!("site,{}{columns},ratio\n", if by == "week" { "week," } else { "" });
    for (site, all) in sites {
        for week in if by == "week" { 1..=53 } else { 53..=53 } {
            let visitors = all.iter().filter(|pair| pair.0 <= week).count();
            let marked = all.iter().filter(|pair| pair.1.is_some_and(|marked| marked <= week)).count();
            if visitors > 0 {
                let week = if by == "week" { format!("{week},") } else { String::new() };
                let ratio = (2_000_000 * marked + visitors) / (2 * visitors);
                let ratio = format!("{}.{:06}", ratio / 1_000_000, ratio % 1_000_000);
                csv.push_str(&format!("{site},{week}{marked},{visitors},{ratio}\n"));
            }
        }
    }
    csv
}

/// Compares all variants with the reference, in one segment and in several.
fn check(log: &[u8]) {
    for (by, of) in [("total", "visitors"), ("week", "visitors"), ("total", "events"), ("week", "events")] {
        let expected = reference(log, by, of);
        assert_eq!(malstone(&[log], by, of, "365", 1).unwrap(), expected, "{by} {of}");
        let parts: Vec<&[u8]> = log.chunks(101 * 7).collect();
        assert_eq!(malstone(&parts, by, of, "365", 5).unwrap(), expected, "{by} {of} in parts");
    }
}

/// MalStone-A over records of time (within January, seconds and so on), site, flag, entity.
fn totals(log: &[(&str, u64, u8, u64)]) -> String {
    let log: String = log.iter().map(|(time, site, flag, entity)| record(time, *site, *flag, *entity)).collect();
    check(log.as_bytes());
    let csv = malstone(&[log.as_bytes()], "total", "visitors", "365", 3).unwrap();
    csv.lines().skip(1).map(|line| format!("{line} ")).collect()
}

const NOON: &str = "2009-01-05 12:00:00.000000";
const BEFORE: &str = "2009-01-05 11:59:59.999999";
const AFTER: &str = "2009-01-05 12:00:00.000001";

#[test]
fn an_entity_counts_that_is_flagged_at_or_after_its_first_visit_at_any_site() {
    // The visit itself is flagged; then the flag is at the same time but at another site.
    assert_eq!(totals(&[(NOON, 1, 1, 7)]), "1,1,1,1.000000 ");
    assert_eq!(totals(&[(NOON, 1, 0, 7), (NOON, 5, 1, 7)]), "1,1,1,1.000000 5,1,1,1.000000 ");
    // A flag before the first visit is none, even by a microsecond.
    assert_eq!(totals(&[(NOON, 1, 0, 7), (BEFORE, 5, 1, 7)]), "1,0,1,0.000000 5,1,1,1.000000 ");
    assert_eq!(totals(&[(NOON, 1, 0, 7), (AFTER, 5, 1, 7)]), "1,1,1,1.000000 5,1,1,1.000000 ");
    // The first visit counts, wherever in the log it stands.
    assert_eq!(totals(&[(AFTER, 1, 0, 7), (NOON, 5, 1, 7), (BEFORE, 1, 0, 7)]), "1,1,1,1.000000 5,1,1,1.000000 ");
    // Flags of others count for nobody.
    assert_eq!(totals(&[(NOON, 1, 0, 7), (AFTER, 1, 1, 8)]), "1,1,2,0.500000 ");
    // A flag that does not stay is one.
    assert_eq!(totals(&[(BEFORE, 1, 0, 7), (NOON, 1, 1, 7), (AFTER, 2, 0, 7)]), "1,1,1,1.000000 2,0,1,0.000000 ");
}

#[test]
fn visitors_are_distinct_and_events_are_not() {
    let twice = record(NOON, 1, 0, 7).repeat(3) + &record(NOON, 1, 1, 8);
    check(twice.as_bytes());
    let totals = malstone(&[twice.as_bytes()], "total", "visitors", "365", 2).unwrap();
    assert_eq!(totals, "site,marked,visitors,ratio\n1,1,2,0.500000\n");
    let events = malstone(&[twice.as_bytes()], "total", "events", "365", 2).unwrap();
    assert_eq!(events, "site,flagged,events,ratio\n1,1,4,0.250000\n");
}

#[test]
fn weeks_are_of_seven_days_from_the_start_and_add_up() {
    let log = [
        record("2009-01-07 23:59:59.999999", 1, 0, 7),
        record("2009-01-08 00:00:00.000000", 1, 0, 8),
        record("2009-01-21 23:59:59.999999", 1, 1, 7),
        record("2009-01-22 00:00:00.000000", 4, 1, 8),
        record("2009-12-31 23:59:59.999999", 2, 0, 7),
    ]
    .concat();
    check(log.as_bytes());
    let csv = malstone(&[log.as_bytes()], "week", "visitors", "365", 2).unwrap();
    let site = |site: &str| csv.lines().filter(|line| line.starts_with(site)).map(str::to_owned).collect::<Vec<_>>();
    let first = ["1,1,0,1,0.000000", "1,2,0,2,0.000000", "1,3,1,2,0.500000", "1,4,2,2,1.000000"];
    assert_eq!((&site("1,")[..4], site("1,").len()), (&first.map(str::to_owned)[..], 53));
    assert_eq!((site("2,"), site("4,").len()), (vec!["2,53,0,1,0.000000".to_owned()], 50));
    assert_eq!(csv.lines().next(), Some("site,week,marked,visitors,ratio"));
}

#[test]
fn a_period_of_one_week_has_one_and_what_is_outside_does_not_count() {
    let log = [
        record("2008-12-31 23:59:59.999999", 1, 0, 6),
        record("2009-01-01 00:00:00.000000", 1, 0, 7),
        record("2009-01-07 23:59:59.999999", 1, 0, 8),
        record("2009-01-08 00:00:00.000000", 1, 1, 8),
    ]
    .concat();
    let csv = malstone(&[log.as_bytes()], "week", "visitors", "7", 2).unwrap();
    assert_eq!(csv, "site,week,marked,visitors,ratio\n1,1,0,2,0.000000\n");
    assert_eq!(
        malstone(&[log.as_bytes()], "total", "events", "8", 2).unwrap(),
        "site,flagged,events,ratio\n1,1,3,0.333333\n"
    );
    let parameters = [("start", "2009-01-01"), ("days", "7")];
    let counted = run_on("malstone_visits", Input::new(log.as_bytes(), RecordFormat::Fixed(101)), &parameters).unwrap();
    assert_eq!(counted.counters.get("records outside of the period"), Some(&2));
}

#[test]
fn sites_and_entities_have_any_number_of_19_digits() {
    let most = 9_999_999_999_999_999_999;
    let found = totals(&[(NOON, most, 1, most), (NOON, 0, 0, 0), (NOON, most, 0, 0), (NOON, 3, 1, 1 << 40)]);
    assert_eq!(found, "0,0,1,0.000000 3,1,1,1.000000 9999999999999999999,1,2,0.500000 ");
}

#[test]
fn no_record_is_no_line_and_a_damaged_one_ends_the_job() {
    for (by, of) in [("total", "visitors"), ("week", "events")] {
        assert_eq!(malstone(&[b""], by, of, "365", 2).unwrap(), "");
        let log = record(NOON, 1, 0, 7) + &record(NOON, 1, 0, 7).replace("|0|", "|x|");
        let error = malstone(&[log.as_bytes()], by, of, "365", 2).unwrap_err();
        assert_eq!(error.message(), "the record at byte 101 of `/log` is damaged: its flag is neither 0 nor 1");
    }
}

#[test]
fn parameters_that_cannot_be_are_refused() {
    let refused = |by, of, days| malstone(&[record(NOON, 1, 0, 7).as_bytes()], by, of, days, 2).unwrap_err();
    assert_eq!(refused("day", "visitors", "7").message(), "the parameter `by` must be `total` or `week`, not `day`");
    assert_eq!(refused("week", "all", "7").message(), "the parameter `of` must be `visitors` or `events`, not `all`");
    assert_eq!(refused("week", "events", "0").message(), "the parameter `days` must be 1 to 1461, not 0");
}

#[test]
fn random_logs_and_generated_ones_are_as_the_reference_has_them() {
    let mut random = fastrand::Rng::with_seed(11);
    for _ in 0..20 {
        let log: String = (0..200)
            .map(|_| {
                let time =
                    format!("2009-{:02}-{:02} 00:00:00.00000{}", random.u8(1..=12), random.u8(1..=28), random.u8(0..3));
                record(&time, random.u64(0..6), u8::from(random.u8(0..8) == 0), random.u64(0..12))
            })
            .collect();
        check(log.as_bytes());
    }
    let log = generated(&super::Plan { sites: 12, marked: 4, entities: 40, ..plan() }, &["0 900"]);
    check(&log);
    let found = malstone(&[&log], "total", "visitors", "365", 4).unwrap();
    assert!(found.lines().skip(1).any(|line| !line.ends_with(",0.000000")), "{found}");
}
