//! `malstone_visits`: MalStone's first stage, which sends each record to the bucket of its entity, in about an eighth
//! of its bytes. Serves `sector oct malstone`. It never sends a record that is damaged or outside of the period.

use udf::{FunctionError, Input, Output, Stopped};

use super::{record::read_events, time::Period};

/// Emits the visits of a segment by entity. Parameters `start`, `days`. What is outside of the period is counted.
pub(crate) fn malstone_visits(input: &Input<'_>, output: &mut Output<'_>) -> Result<(), FunctionError> {
    let period = Period::of(input)?;
    let mut lanes = Lanes::new(input.buckets());
    let outside = read_events(input, &period, |time, event| {
        let visit = Visit { stamp: time << 1 | u64::from(event.flag), site: event.site, entity: event.entity };
        Ok(lanes.push(lanes.lane_of(event.entity), &visit, output)?)
    })?;
    lanes.finish(output)?;
    output.count(OUTSIDE, outside);
    Ok(())
}

/// A visit as it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Visit {
    /// Twice the microseconds since the period began, and one more if the record is flagged.
    pub(crate) stamp: u64,
    pub(crate) site: u64,
    pub(crate) entity: u64,
}

/// The chunks of a bucket, by lane: whatever an entity has is in chunks of one lane.
pub(crate) fn lanes_of(bytes: &[u8]) -> Result<Vec<Vec<&[u8]>>, FunctionError> {
    let mut lanes = vec![Vec::new(); LANES_OF_BUCKET_MAX];
    let mut rest = bytes;
    while let Some((head, behind)) = rest.split_first_chunk::<HEAD_BYTES>() {
        let [lane, length @ ..] = *head;
        let chunk = behind.split_at_checked(u32::from_le_bytes(length) as usize);
        let (Some((chunk, behind)), Some(lane)) = (chunk, lanes.get_mut(usize::from(lane))) else { break };
        lane.push(chunk);
        rest = behind;
    }
    if rest.is_empty() { Ok(lanes) } else { Err(FunctionError::new("the bucket is not of whole chunks of visits")) }
}

/// Calls `each` with the visits of a chunk.
pub(crate) fn read_visits(bytes: &[u8], mut each: impl FnMut(Visit)) -> Result<(), FunctionError> {
    let mut at = 0;
    // Numbers are read eight bytes at a time, so the last visits need room behind them.
    while bytes.len() - at >= VISIT_BYTES_MAX {
        let (visit, length) = decode(&bytes[at..]);
        each(visit);
        at += length;
    }
    let mut tail = [0; 2 * VISIT_BYTES_MAX];
    let left = bytes.len() - at;
    tail[..left].copy_from_slice(&bytes[at..]);
    let mut at = 0;
    while at < left {
        let (visit, length) = decode(&tail[at..]);
        at += length;
        if at > left {
            return Err(FunctionError::new("the chunk ends within a visit"));
        }
        each(visit);
    }
    Ok(())
}

/// The visit at the beginning, and its length. There are [`VISIT_BYTES_MAX`] bytes.
#[inline]
fn decode(bytes: &[u8]) -> (Visit, usize) {
    let bytes = &bytes[..VISIT_BYTES_MAX];
    let (entity_bytes, site_bytes) = (usize::from(bytes[0] & 15).min(8), usize::from(bytes[0] >> 4).min(8));
    let number = |at: usize, length: usize| {
        let eight: [u8; 8] = bytes[at..at + 8].first_chunk().copied().unwrap_or_default();
        u64::from_le_bytes(eight) & LENGTH_MASKS[length]
    };
    let site_at = 1 + entity_bytes;
    let stamp_at = site_at + site_bytes;
    let visit = Visit {
        entity: number(1, entity_bytes),
        site: number(site_at, site_bytes),
        stamp: number(stamp_at, STAMP_BYTES),
    };
    (visit, stamp_at + STAMP_BYTES)
}

/// The visits that are not emitted yet. A bucket has some lanes, so that what is looked at together fits the cache.
struct Lanes {
    lanes: Vec<Lane>,
    of_bucket: usize,
    lane_bytes: usize,
}

struct Lane {
    /// A chunk: the lane's number within its bucket, the length, the visits.
    bytes: Vec<u8>,
    used: usize,
    visits: u64,
}

impl Lanes {
    fn new(buckets: u32) -> Self {
        // The same for all segments of a stage: it follows from the number of buckets.
        let of_bucket = (LANES_MAX / buckets as usize).clamp(1, LANES_OF_BUCKET_MAX);
        let count = of_bucket * buckets as usize;
        let lane_bytes = (LANES_BYTES / count).clamp(LANE_BYTES_MIN, LANE_BYTES_MAX);
        let lane = || Lane { bytes: vec![0; lane_bytes + VISIT_BYTES_MAX], used: HEAD_BYTES, visits: 0 };
        Self { lanes: (0..count).map(|_| lane()).collect(), of_bucket, lane_bytes }
    }

    /// The lane of an entity. The upper bits of a product with an odd number are spread evenly.
    #[inline]
    fn lane_of(&self, entity: u64) -> usize {
        (((entity.wrapping_mul(MULTIPLIER) >> 32) * self.lanes.len() as u64) >> 32) as usize
    }

    #[inline]
    fn push(&mut self, number: usize, visit: &Visit, output: &mut Output<'_>) -> Result<(), Stopped> {
        let lane = &mut self.lanes[number];
        let bytes = &mut lane.bytes[lane.used..lane.used + VISIT_BYTES_MAX];
        let (entity_bytes, site_bytes) = (length_of(visit.entity), length_of(visit.site));
        bytes[0] = (entity_bytes | site_bytes << 4) as u8;
        // Eight bytes each: the next number takes the place of what is too much.
        bytes[1..9].copy_from_slice(&visit.entity.to_le_bytes());
        bytes[1 + entity_bytes..][..8].copy_from_slice(&visit.site.to_le_bytes());
        bytes[1 + entity_bytes + site_bytes..][..8].copy_from_slice(&visit.stamp.to_le_bytes());
        lane.used += 1 + entity_bytes + site_bytes + STAMP_BYTES;
        lane.visits += 1;
        if lane.used < self.lane_bytes { Ok(()) } else { lane.emit(number, self.of_bucket, output) }
    }

    fn finish(mut self, output: &mut Output<'_>) -> Result<(), Stopped> {
        self.lanes.iter_mut().enumerate().try_for_each(|(number, lane)| lane.emit(number, self.of_bucket, output))
    }
}

impl Lane {
    fn emit(&mut self, number: usize, of_bucket: usize, output: &mut Output<'_>) -> Result<(), Stopped> {
        if self.visits > 0 {
            self.bytes[0] = (number % of_bucket) as u8;
            let length = (self.used - HEAD_BYTES) as u32;
            self.bytes[1..HEAD_BYTES].copy_from_slice(&length.to_le_bytes());
            output.emit_records((number / of_bucket) as u64, &self.bytes[..self.used], self.visits)?;
        }
        (self.used, self.visits) = (HEAD_BYTES, 0);
        Ok(())
    }
}

/// Bytes that a number needs.
#[inline]
fn length_of(number: u64) -> usize {
    (u64::BITS - number.leading_zeros()).div_ceil(8) as usize
}

/// The counter of records that are not looked at.
pub const OUTSIDE: &str = "records outside of the period";
/// Bytes of a stamp: the microseconds of four years and a flag.
const STAMP_BYTES: usize = 6;
/// Most bytes of a visit, and two behind it that are written too.
const VISIT_BYTES_MAX: usize = 1 + 8 + 8 + STAMP_BYTES + 2;
/// Which bits a number of so many bytes has.
const LENGTH_MASKS: [u64; 9] =
    [0, 0xff, 0xffff, 0xff_ffff, 0xffff_ffff, 0xff_ffff_ffff, 0xffff_ffff_ffff, 0xff_ffff_ffff_ffff, u64::MAX];
/// Bytes in front of a chunk: its lane and its length.
const HEAD_BYTES: usize = 5;
/// Most lanes of a bucket: those of two million visits fit the second-level cache one by one.
const LANES_OF_BUCKET_MAX: usize = 32;
/// Most lanes, unless there are more buckets.
const LANES_MAX: usize = 1_024;
/// Bytes of all lanes together, where there are many, and of one.
const LANES_BYTES: usize = 16 << 20;
const LANE_BYTES_MIN: usize = 4 << 10;
const LANE_BYTES_MAX: usize = 16 << 10;
/// The fraction of the golden ratio, which is odd and without pattern.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn visits_come_back_as_they_were_sent_whatever_the_size_of_their_numbers() {
        let numbers = [0, 1, 255, 256, 65_536, 1 << 40, 9_999_999_999_999_999_999];
        let mut visits = Vec::new();
        for (at, entity) in (0..).zip(numbers) {
            visits.extend(numbers.map(|site| Visit { stamp: (1 << 47) - 1 - at * (site % 1_000), site, entity }));
        }
        let mut collected = udf::Collected::with_buckets(2);
        let mut lanes = Lanes::new(2);
        for visit in &visits {
            let lane = (visit.entity % 2) as usize * lanes.of_bucket + (visit.entity % 3) as usize;
            lanes.push(lane, visit, &mut Output::new(&mut collected)).unwrap();
        }
        lanes.finish(&mut Output::new(&mut collected)).unwrap();
        assert_eq!(collected.records, 49);
        for bucket in 0..2 {
            let found = lanes_of(collected.bucket(bucket)).unwrap();
            for (lane, chunks) in (0..).zip(&found) {
                let mut found = Vec::new();
                chunks.iter().for_each(|chunk| read_visits(chunk, |visit| found.push(visit)).unwrap());
                let is_there = |visit: &&Visit| visit.entity % 2 == bucket && visit.entity % 3 == lane;
                assert_eq!(found, visits.iter().filter(is_there).copied().collect::<Vec<_>>());
            }
            let cut = &collected.bucket(bucket)[..collected.bucket(bucket).len() - 1];
            assert_eq!(lanes_of(cut).unwrap_err().message(), "the bucket is not of whole chunks of visits");
        }
        let chunk = [&[0x11, 7, 8][..], &[0; 5]].concat();
        assert_eq!(read_visits(&chunk, |_| ()).unwrap_err().message(), "the chunk ends within a visit");
        assert!(lanes_of(&[32, 0, 0, 0, 0]).is_err() && lanes_of(&[0, 9]).is_err());
        assert!(read_visits(b"", |_| panic!()).is_ok());
    }

    #[test]
    fn entities_in_a_row_are_spread_evenly_over_lanes() {
        for buckets in [1, 8, 100, 4_096] {
            let lanes = Lanes::new(buckets);
            let mut counts = vec![0; lanes.lanes.len()];
            (0..100_000u64).for_each(|entity| counts[lanes.lane_of(entity)] += 1);
            let usual = 100_000 / counts.len();
            assert!(counts.iter().all(|count| (usual / 2..=usual * 2).contains(count)), "{buckets}: {counts:?}");
        }
    }
}
