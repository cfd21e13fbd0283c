//! The yardstick of MalStone: a tuned pass over one local file by two threads. It maps the file, spreads visits over
//! parts that fit the cache, and counts each part by tables, since it takes numbers to be small. It never checks a
//! record, a checksum or a date outside of 2009: what the machine can do, not what a storage system must.

#![allow(unsafe_code)]

use std::{fs, fs::File, path::Path, thread};

use memmap2::Mmap;

/// Counts the visitors of each site in `input` and those that were flagged afterwards, over the whole year or by week.
/// Writes them to `output` as `sector oct malstone` does, without the first line.
pub(crate) fn count_file(input: &Path, output: &Path, by_week: bool) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("reference pass over {}: {error}", input.display());
    let file = File::open(input).map_err(failed)?;
    // SAFETY: the file belongs to this measurement; nobody truncates it while it is mapped.
    let map = unsafe { Mmap::map(&file) }.map_err(failed)?;
    let (records, _) = map.as_chunks::<RECORD_BYTES>();
    let (lower, upper) = records.split_at(records.len() / 2);
    let (first, second) = both(|| spread(lower), || spread(upper));
    let entities = first.entities.max(second.entities);
    let sites = first.sites.max(second.sites);
    let weeks = if by_week { WEEKS } else { 1 };
    let count = |odd: usize| {
        let mut counts = Counts::new(entities, sites, weeks);
        for part in (odd..PARTS).step_by(2) {
            counts.add(&first.parts[part], &second.parts[part], by_week);
        }
        counts.cells
    };
    let (mut cells, more) = both(|| count(0), || count(1));
    for (cell, more) in cells.iter_mut().zip(more) {
        *cell = (cell.0 + more.0, cell.1 + more.1);
    }
    let middle = sites / 2;
    let (mut text, rest) =
        both(|| lines(0..middle, &cells, weeks, by_week), || lines(middle..sites, &cells, weeks, by_week));
    text.extend(rest);
    fs::write(output, text).map_err(failed)
}

fn both<T: Send>(first: impl FnOnce() -> T + Send, second: impl FnOnce() -> T) -> (T, T) {
    thread::scope(|scope| {
        let first = scope.spawn(first);
        let second = second();
        (first.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)), second)
    })
}

/// A record: the entity without the bits of its part, the site, and twice the microsecond with a bit for the flag.
#[derive(Clone, Copy, Default)]
struct Visit {
    entity: u32,
    site: u32,
    stamp: u64,
}

struct Spread {
    parts: Vec<Vec<Visit>>,
    /// One more than the greatest entity within a part, and than the greatest site.
    entities: usize,
    sites: usize,
}

fn spread(records: &[[u8; RECORD_BYTES]]) -> Spread {
    let expected = records.len() / PARTS + records.len() / PARTS / 2 + 16;
    let mut parts: Vec<Vec<Visit>> = (0..PARTS).map(|_| Vec::with_capacity(expected)).collect();
    let (mut entities, mut sites) = (0, 0);
    for record in records {
        let (entity, site) = (small_number(record, 81), small_number(record, 59));
        let stamp = micros(record) << 1 | u64::from(record[79] & 1);
        let of_part = (entity >> PART_BITS) as u32;
        entities = entities.max(of_part as usize + 1);
        sites = sites.max(site as usize + 1);
        parts[entity as usize % PARTS].push(Visit { entity: of_part, site: site as u32, stamp });
    }
    Spread { parts, entities, sites }
}

/// The last eight of 19 digits.
fn small_number(record: &[u8; RECORD_BYTES], at: usize) -> u64 {
    let mut eight = [0; 8];
    eight.copy_from_slice(&record[at + 11..at + 19]);
    let twos = (u64::from_le_bytes(eight) & 0x0f0f_0f0f_0f0f_0f0f).wrapping_mul(2_561) >> 8;
    let fours = (twos & 0x00ff_00ff_00ff_00ff).wrapping_mul(6_553_601) >> 16;
    (fours & 0x0000_ffff_0000_ffff).wrapping_mul(42_949_672_960_001) >> 32
}

/// Microseconds since 2009 began.
fn micros(record: &[u8; RECORD_BYTES]) -> u64 {
    let pair = |at: usize| u64::from(record[at]) * 10 + u64::from(record[at + 1]) - 528;
    let day = MONTHS[pair(37) as usize % 16] + pair(40) - 1;
    let seconds = (day * 24 + pair(43)) * 3_600 + pair(46) * 60 + pair(49);
    seconds * 1_000_000 + pair(52) * 10_000 + pair(54) * 100 + pair(56)
}

struct Counts {
    ends: Vec<u32>,
    sorted: Vec<Visit>,
    /// For each site, which entity came last, and where in `firsts` it is.
    seen: Vec<(u32, u32)>,
    firsts: Vec<(u32, u64)>,
    weeks: usize,
    /// For each site and week, visitors and marked ones that come new.
    cells: Vec<(u32, u32)>,
    round: u32,
}

impl Counts {
    fn new(entities: usize, sites: usize, weeks: usize) -> Self {
        Self {
            ends: vec![0; entities],
            sorted: Vec::new(),
            seen: vec![(u32::MAX, 0); sites],
            firsts: Vec::new(),
            weeks,
            cells: vec![(0, 0); sites * weeks],
            round: 0,
        }
    }

    fn add(&mut self, first: &[Visit], second: &[Visit], by_week: bool) {
        self.ends.fill(0);
        for visit in first.iter().chain(second) {
            self.ends[visit.entity as usize] += 1;
        }
        let mut start = 0;
        for end in &mut self.ends {
            start += std::mem::replace(end, start);
        }
        self.sorted.resize(first.len() + second.len(), Visit::default());
        for visit in first.iter().chain(second) {
            let end = &mut self.ends[visit.entity as usize];
            self.sorted[*end as usize] = *visit;
            *end += 1;
        }
        let mut start = 0;
        for entity in 0..self.ends.len() {
            let end = self.ends[entity] as usize;
            self.add_entity(start..end, by_week);
            start = end;
        }
    }

    fn add_entity(&mut self, visits: std::ops::Range<usize>, by_week: bool) {
        let week_of = |micros: u64| if by_week { (micros / WEEK_MICROS) as usize } else { 0 };
        // The last flag of each week, plus one so that 0 is none.
        let mut last = [0u64; WEEKS];
        self.firsts.clear();
        for visit in &self.sorted[visits] {
            let micros = visit.stamp >> 1;
            if visit.stamp & 1 == 1 {
                let last = &mut last[week_of(micros)];
                *last = (micros + 1).max(*last);
            }
            let seen = &mut self.seen[visit.site as usize];
            if seen.0 == self.round {
                let first = &mut self.firsts[seen.1 as usize].1;
                *first = micros.min(*first);
            } else {
                *seen = (self.round, self.firsts.len() as u32);
                self.firsts.push((visit.site, micros));
            }
        }
        self.round += 1;
        let mut next = [usize::MAX; WEEKS + 1];
        for week in (0..self.weeks).rev() {
            next[week] = if last[week] > 0 { week } else { next[week + 1] };
        }
        for (site, micros) in &self.firsts {
            let week = week_of(*micros);
            let cells = &mut self.cells[*site as usize * self.weeks..][..self.weeks];
            cells[week].0 += 1;
            let marked = if last[week] > *micros { week } else { next[week + 1] };
            if let Some(cell) = cells.get_mut(marked) {
                cell.1 += 1;
            }
        }
    }
}

fn lines(sites: std::ops::Range<usize>, cells: &[(u32, u32)], weeks: usize, by_week: bool) -> Vec<u8> {
    let mut text = Vec::with_capacity(sites.len() * weeks * 24);
    for site in sites {
        let (mut visitors, mut marked) = (0u64, 0u64);
        for (week, cell) in (1..).zip(&cells[site * weeks..][..weeks]) {
            visitors += u64::from(cell.0);
            marked += u64::from(cell.1);
            if visitors == 0 {
                continue;
            }
            let ratio = (marked * 1_000_000 + visitors / 2) / visitors;
            push(site as u64, b',', &mut text);
            if by_week {
                push(week, b',', &mut text);
            }
            push(marked, b',', &mut text);
            push(visitors, b',', &mut text);
            push(ratio / 1_000_000, b'.', &mut text);
            let digits = [100_000, 10_000, 1_000, 100, 10, 1].map(|unit| b'0' + (ratio / unit % 10) as u8);
            text.extend_from_slice(&digits);
            text.push(b'\n');
        }
    }
    text
}

/// Appends a number and what follows it.
fn push(mut number: u64, then: u8, text: &mut Vec<u8>) {
    let mut digits = [then; 21];
    let mut at = 20;
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    text.extend_from_slice(&digits[at..]);
}

/// A record of MalStone with its newline.
pub(crate) const RECORD_BYTES: usize = 101;
/// Eight bits: the visits of a part, 600 KB of ten million records, fit the second-level cache.
const PART_BITS: u32 = 8;
const PARTS: usize = 1 << PART_BITS;
/// Days of 2009 before each month, from 1.
const MONTHS: [u64; 16] = [0, 0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 0, 0, 0];
const WEEKS: usize = 53;
const WEEK_MICROS: u64 = 7 * 86_400_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_yardstick_counts_visitors_and_those_flagged_afterwards() {
        let folder = std::env::temp_dir().join(format!("bench-ratios-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let record = |time: &str, site: u64, flag: u8, entity: u64| {
            format!("{:031}|2009-{time}.000000|{site:019}|{flag}|{entity:019}\n", 1)
        };
        let log = [
            record("01-01 00:00:00", 3, 0, 700),
            record("01-09 00:00:00", 3, 0, 701),
            record("01-15 00:00:00", 5, 1, 700),
            record("12-31 00:00:00", 5, 0, 701),
        ];
        fs::write(folder.join("input"), log.concat()).expect("written");
        let count = |by_week| {
            count_file(&folder.join("input"), &folder.join("output"), by_week).expect("counted");
            fs::read_to_string(folder.join("output")).expect("read")
        };
        assert_eq!(count(false), "3,1,2,0.500000\n5,1,2,0.500000\n");
        let weeks = count(true);
        let some: Vec<&str> = weeks.lines().filter(|line| line.starts_with("3,")).take(3).collect();
        assert_eq!(some, ["3,1,0,1,0.000000", "3,2,0,2,0.000000", "3,3,1,2,0.500000"]);
        assert_eq!(weeks.lines().last(), Some("5,53,1,2,0.500000"));
        fs::remove_dir_all(&folder).expect("removed");
    }
}
