//! `malgen`: records of MalStone, after the paper of the Open Cloud Testbed (5). First `malgen_marked` and
//! `malgen_outcome` find out when marked sites compromise entities. Then `malgen` makes all records in place, and flags
//! those of compromised entities. Serves `sector oct malgen`. It never depends on who makes which part.

use std::collections::BTreeMap;

use udf::{FunctionError, Input, Output};

use super::{
    draws::{Draws, Plan, Visit, scramble},
    record::{ENTITY, FLAG, NUMBER_BYTES, RECORD_BYTES, SITE, TIME},
    time::{DAY_MICROS, date_text, parse_date},
};
use crate::batch::BATCH_BYTES;

/// The first day of what is generated.
pub const START: &str = "2009-01-01";

/// Emits to bucket 0 the entities that marked sites compromise by the records of each line `first count`. With each goes
/// the earliest time from which its records are flagged. The parameters are a [`Plan`].
pub(crate) fn malgen_marked(input: &Input<'_>, output: &mut Output<'_>) -> Result<(), FunctionError> {
    let draws = Draws::new(Plan::of(input)?);
    let dates = draws.dates();
    let mut tagged = Tagged::default();
    for (first, count) in parts(input)? {
        for number in (first..first + count).filter(|number| draws.is_marked(*number)) {
            let visit = draws.visit(number);
            if draws.compromises(&visit, dates[visit.site as usize - 1]) {
                tagged.add(visit.entity, visit.time + TAG_DELAY_MICROS);
            }
        }
    }
    output.emit_records(0, &tagged.bytes(), tagged.0.len() as u64)?;
    Ok(())
}

/// Puts together what [`malgen_marked`] found: the earliest time of each entity, in the order of the entities.
pub(crate) fn malgen_outcome(input: &Input<'_>, output: &mut Output<'_>) -> Result<(), FunctionError> {
    let mut tagged = Tagged::default();
    for entry in Outcome::of(input.bytes())?.0 {
        tagged.add(entity_of(entry), time_of(entry));
    }
    output.emit_records(0, &tagged.bytes(), tagged.0.len() as u64)?;
    Ok(())
}

/// Emits to bucket 0 the records of each line `first count`. The parameters are a [`Plan`], and the side file
/// `outcome` is what [`malgen_outcome`] made.
pub(crate) fn malgen(input: &Input<'_>, output: &mut Output<'_>) -> Result<(), FunctionError> {
    let plan = Plan::of(input)?;
    let draws = Draws::new(plan);
    let outcome = Outcome::of(input.required_side_file("outcome")?)?;
    let mut template = Template::new(&plan)?;
    let mut batch = Vec::with_capacity(BATCH_BYTES);
    for (first, count) in parts(input)? {
        let end = first + count;
        let mut at = first;
        while at < end {
            let some = (end - at).min((BATCH_BYTES / RECORD_BYTES) as u64);
            batch.clear();
            for number in at..at + some {
                let visit = draws.visit(number);
                let is_tagged = outcome.tagged_from(visit.entity).is_some_and(|from| visit.time >= from);
                template.push(number, &visit, is_tagged, &mut batch);
            }
            output.emit_records(0, &batch, some)?;
            at += some;
        }
    }
    output.progress(input.bytes().len() as u64);
    Ok(())
}

/// The lines `first count` of a segment.
fn parts(input: &Input<'_>) -> Result<Vec<(u64, u64)>, FunctionError> {
    let mut parts = Vec::new();
    for (number, line) in (0..).zip(input.records()) {
        let text = String::from_utf8_lossy(line);
        let numbers: Option<Vec<u64>> = text.split_ascii_whitespace().map(|word| word.parse().ok()).collect();
        match numbers.as_deref() {
            Some([first, count]) if first.checked_add(*count).is_some() => parts.push((*first, *count)),
            _ => {
                let start: String = text.chars().take(80).collect();
                return Err(FunctionError::new(format!("`{start}` is not `first count`")).at_record(number));
            }
        }
    }
    Ok(parts)
}

/// Entities, and from when on their records are flagged.
#[derive(Default)]
struct Tagged(BTreeMap<u64, u64>);

impl Tagged {
    fn add(&mut self, entity: u64, from: u64) {
        self.0.entry(entity).and_modify(|earliest| *earliest = from.min(*earliest)).or_insert(from);
    }

    fn bytes(&self) -> Vec<u8> {
        // Big-endian: entries are in the order of their entities as bytes too.
        let entry = |(entity, from): (&u64, &u64)| [entity.to_be_bytes(), from.to_be_bytes()].map(|bytes| six(&bytes));
        self.0.iter().flat_map(entry).flatten().collect()
    }
}

/// The lower six of eight bytes.
fn six(bytes: &[u8; 8]) -> [u8; 6] {
    let [_, _, rest @ ..] = *bytes;
    rest
}

/// What the marked part came to: entries of [`Tagged`].
struct Outcome<'a>(&'a [[u8; OUTCOME_ENTRY_BYTES]]);

impl<'a> Outcome<'a> {
    fn of(bytes: &'a [u8]) -> Result<Self, FunctionError> {
        let (entries, rest) = bytes.as_chunks();
        if !rest.is_empty() {
            let length = bytes.len();
            return Err(FunctionError::new(format!("the outcome of the marked part is cut off after {length} bytes")));
        }
        Ok(Self(entries))
    }

    /// From when on an entity's records are flagged.
    fn tagged_from(&self, entity: u64) -> Option<u64> {
        let found = self.0.binary_search_by_key(&entity, entity_of).ok()?;
        Some(time_of(&self.0[found]))
    }
}

fn entity_of(entry: &[u8; OUTCOME_ENTRY_BYTES]) -> u64 {
    entry[..6].iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

fn time_of(entry: &[u8; OUTCOME_ENTRY_BYTES]) -> u64 {
    entry[6..].iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// Writes records: what is the same in many of them stays.
struct Template {
    record: [u8; RECORD_BYTES],
    /// The dates of the period's days.
    dates: Vec<String>,
    seed: u64,
    /// Which of the runs of 10¹¹ records the event's id is made for.
    run: Option<u64>,
}

impl Template {
    fn new(plan: &Plan) -> Result<Self, FunctionError> {
        let mut record = [b'0'; RECORD_BYTES];
        for mark in [TIME, SITE, FLAG, ENTITY] {
            record[mark - 1] = b'|';
        }
        record[TIME..SITE - 1].copy_from_slice(b"0000-00-00 00:00:00.000000");
        record[RECORD_BYTES - 1] = b'\n';
        let first = parse_date(START).map_err(FunctionError::new)?;
        let dates = (first..first + plan.days as i64).map(date_text).collect();
        Ok(Self { record, dates, seed: plan.seed, run: None })
    }

    fn push(&mut self, number: u64, visit: &Visit, is_tagged: bool, batch: &mut Vec<u8>) {
        let run = number / SEQUENCE_END;
        if self.run != Some(run) {
            // Where the original had its host, the seed and the run are told apart.
            write_number(scramble(scramble(self.seed).wrapping_add(run)), &mut self.record[SEQUENCE_DIGITS..TIME - 1]);
            self.run = Some(run);
        }
        let record = &mut self.record;
        write_number(number % SEQUENCE_END, &mut record[..SEQUENCE_DIGITS]);
        let (date, micros) = (&self.dates[(visit.time / DAY_MICROS) as usize], visit.time % DAY_MICROS);
        record[TIME..TIME + 10].copy_from_slice(date.as_bytes());
        let seconds = micros / 1_000_000;
        write_number(seconds / 3_600, &mut record[TIME + 11..TIME + 13]);
        write_number(seconds / 60 % 60, &mut record[TIME + 14..TIME + 16]);
        write_number(seconds % 60, &mut record[TIME + 17..TIME + 19]);
        write_number(micros % 1_000_000, &mut record[TIME + 20..TIME + 26]);
        write_number(visit.site, &mut record[SITE..SITE + NUMBER_BYTES]);
        record[FLAG] = b'0' + u8::from(is_tagged);
        write_number(visit.entity, &mut record[ENTITY..ENTITY + NUMBER_BYTES]);
        batch.extend_from_slice(record);
    }
}

/// Writes a number into all of these digits.
fn write_number(mut number: u64, digits: &mut [u8]) {
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

/// From the compromise on to the first flag: a day.
const TAG_DELAY_MICROS: u64 = DAY_MICROS;
/// Bytes of an entry of the outcome, one for each compromised entity: six of the entity, six of the time.
pub const OUTCOME_ENTRY_BYTES: usize = 12;
/// Digits of an event's id that count records, and the first number that has no room there.
const SEQUENCE_DIGITS: usize = 11;
const SEQUENCE_END: u64 = 100_000_000_000;

#[cfg(test)]
pub(crate) mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeMap;

    use udf::RecordFormat;

    use super::*;
    use crate::{malstone::draws::tests::plan, testing::run_on};

    fn call(name: &str, bytes: &[u8], plan: &Plan, side: &[u8]) -> Result<Vec<u8>, FunctionError> {
        let side = vec![("outcome".to_owned(), side.to_vec())];
        let format = if name == "malgen_outcome" { RecordFormat::File } else { RecordFormat::Lines };
        let parameters = plan.parameters();
        let parameters: Vec<_> = parameters.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let input = Input::new(bytes, format).with_side_files(&side);
        Ok(run_on(name, input, &parameters)?.bucket(0).to_vec())
    }

    /// All records of a plan, made in the parts that the lines say.
    pub(crate) fn generated(plan: &Plan, lines: &[&str]) -> Vec<u8> {
        let marked: Vec<_> =
            lines.iter().map(|line| call("malgen_marked", line.as_bytes(), plan, &[]).unwrap()).collect();
        let outcome = call("malgen_outcome", &marked.concat(), plan, &[]).unwrap();
        lines.iter().flat_map(|line| call("malgen", line.as_bytes(), plan, &outcome).unwrap()).collect()
    }

    /// The vectors were computed by a program of its own in Python, with the flags left out.
    #[test]
    fn the_first_records_are_these_byte_for_byte() {
        let records = generated(&plan(), &["0 20000"]);
        let text = str::from_utf8(&records[..20 * RECORD_BYTES]).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!([&lines[..4], &lines[19..]].concat(), VECTOR);
        let other = generated(&Plan { marked: 200, site_exponent: 1.0, days: 1_461, ..plan() }, &["99999999999 2"]);
        assert_eq!(str::from_utf8(&other).unwrap().lines().collect::<Vec<_>>(), OTHER_VECTOR);
    }

    #[test]
    fn parts_make_the_whole_wherever_it_is_cut() {
        let whole = generated(&plan(), &["0 30000"]);
        assert_eq!(whole.len(), 30_000 * RECORD_BYTES);
        assert!(generated(&plan(), &["0 1", "1 9999\n10000 7", "10007 19993"]) == whole);
    }

    /// Everything again, the obvious way: who is compromised when, and what is flagged.
    #[test]
    fn records_are_flagged_from_a_day_after_the_first_compromise_and_no_others() {
        let draws = Draws::new(plan());
        let dates = draws.dates();
        let mut compromised: BTreeMap<u64, u64> = BTreeMap::new();
        for visit in (0..30_000).filter(|number| draws.is_marked(*number)).map(|number| draws.visit(number)) {
            if draws.compromises(&visit, dates[visit.site as usize - 1]) {
                let first = compromised.entry(visit.entity).or_insert(visit.time);
                *first = visit.time.min(*first);
            }
        }
        let records = generated(&plan(), &["0 30000"]);
        let mut flagged = 0;
        for (number, record) in (0..).zip(records.chunks(RECORD_BYTES)) {
            let visit = draws.visit(number);
            let expected = compromised.get(&visit.entity).is_some_and(|first| visit.time >= first + 86_400_000_000);
            assert_eq!(record[FLAG], b'0' + u8::from(expected), "record {number}");
            flagged += u32::from(expected);
        }
        assert!(flagged > 1_000 && compromised.len() > 400, "{flagged} {}", compromised.len());
    }

    #[test]
    fn a_record_is_flagged_from_the_very_microsecond_of_the_outcome_on() {
        let visit = Draws::new(plan()).visit(7);
        let flag = |entity: u64, from: u64| {
            let mut tagged = Tagged::default();
            // Neighbours say nothing of it.
            [(entity - 1, 0), (entity, from), (entity + 1, 0)]
                .iter()
                .for_each(|(entity, from)| tagged.add(*entity, *from));
            call("malgen", b"7 1", &plan(), &tagged.bytes()).unwrap()[FLAG]
        };
        assert_eq!((flag(visit.entity, visit.time), flag(visit.entity, visit.time + 1)), (b'1', b'0'));
    }

    #[test]
    fn what_is_no_part_no_outcome_or_no_plan_is_refused() {
        for wrong in ["x", "1", "1 2 3", "-1 2", "18446744073709551615 1"] {
            let error = call("malgen", format!("0 1\n{wrong}\n").as_bytes(), &plan(), &[]).unwrap_err();
            assert_eq!(error.record(), Some(1), "{wrong}");
        }
        let error = call("malgen", b"0 1", &plan(), &[0; 13]).unwrap_err();
        assert_eq!(error.message(), "the outcome of the marked part is cut off after 13 bytes");
        let error = call("malgen", b"0 1", &Plan { marked: 201, ..plan() }, &[]).unwrap_err();
        assert_eq!(error.message(), "201 sites cannot be marked: there are 200");
        assert!(generated(&plan(), &["5 0"]).is_empty());
    }

    const VECTOR: [&str; 5] = [
        "0000000000006791897765849424158|2009-12-23 19:10:52.784639|0000000000000000128|1|0000000000000000078",
        "0000000000106791897765849424158|2009-02-07 23:45:21.242165|0000000000000000012|1|0000000000000000253",
        "0000000000206791897765849424158|2009-07-20 08:54:45.670924|0000000000000000144|0|0000000000000000565",
        "0000000000306791897765849424158|2009-04-23 19:12:56.747775|0000000000000000147|1|0000000000000000048",
        "0000000001906791897765849424158|2009-03-18 17:41:53.153223|0000000000000000005|0|0000000000000000124",
    ];
    const OTHER_VECTOR: [&str; 2] = [
        "9999999999906791897765849424158|2009-06-07 12:45:02.013810|0000000000000000170|0|0000000000000000152",
        "0000000000009716232063330790915|2010-01-26 20:19:02.910659|0000000000000000108|0|0000000000000000032",
    ];
}
