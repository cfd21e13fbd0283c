//! A function whose result varies with each execution, even of the same attempt. Its records name their execution and
//! come in another order and in other buckets. Some were in no input, and their number varies. So the output tells who
//! made it, and whether that was one execution of each task. Only the simulation uses it; the product never does.

use std::collections::BTreeMap;

use fastrand::Rng;
use udf::Collected;

/// Runs stage 0, which reads plain records, or stage 1, which reads stage 0's output.
pub(crate) fn run(seed: u64, stage: u32, task: u32, segments: &[&[u8]], buckets: u32) -> Collected {
    let mut rng = Rng::with_seed(seed);
    let by = Maker { execution: seed, task };
    let strangers = rng.u8(..4);
    let mut records: Vec<Record> = Vec::new();
    for segment in segments {
        if stage == 0 {
            records.extend(segment.chunks(RECORD_BYTES).map(|bytes| Record::of(bytes, GIVEN, [by, Maker::NOBODY])));
        } else {
            let before = segment.chunks(TAGGED_BYTES).filter_map(Record::parse);
            records.extend(before.map(|record| Record { makers: [record.makers[0], by], ..record }));
        }
    }
    let kind = if stage == 0 { STRANGER } else { LATE_STRANGER };
    let makers = if stage == 0 { [by, Maker::NOBODY] } else { [Maker::NOBODY, by] };
    records.extend((0..strangers).map(|number| Record::of(&[number; RECORD_BYTES], kind, makers)));
    // Each record tells how many invented records its execution has made.
    let at = usize::from(stage != 0);
    records.iter_mut().for_each(|record| record.strangers[at] = strangers);
    rng.shuffle(&mut records);
    let mut collected = Collected::with_buckets(u64::from(buckets));
    for record in records {
        let bucket = rng.u64(..u64::from(buckets.max(1)));
        collected.buckets.entry(bucket).or_default().extend(record.bytes());
        collected.records += 1;
    }
    collected
}

/// Whether these parts are the output of one execution of each task: each record exactly once.
pub(crate) fn check(inputs: &[Vec<u8>], parts: &[Vec<u8>]) -> Result<(), String> {
    let mut wanted: BTreeMap<&[u8], i64> = BTreeMap::new();
    for record in inputs.iter().flat_map(|input| input.chunks(RECORD_BYTES)) {
        *wanted.entry(record).or_default() += 1;
    }
    let mut all = Vec::new();
    for part in parts {
        if part.len() % TAGGED_BYTES != 0 {
            return Err("it holds half a record".into());
        }
        all.extend(part.chunks(TAGGED_BYTES).map(|bytes| Record::parse(bytes).ok_or("it holds no record")));
    }
    let all: Vec<Record> = all.into_iter().collect::<Result<_, _>>()?;
    for record in all.iter().filter(|record| record.kind == GIVEN) {
        *wanted.entry(&record.data[..]).or_default() -= 1;
    }
    if let Some(wrong) = wanted.values().find(|count| **count != 0) {
        let how = if *wrong > 0 { "is not in it" } else { "is in it more than once" };
        return Err(format!("a record of the input {how}"));
    }
    for stage in 0..2 {
        check_makers(&all, stage)?;
    }
    Ok(())
}

/// Whether each task of a stage was done by one execution, and its invented records are there.
fn check_makers(all: &[Record], stage: usize) -> Result<(), String> {
    let stranger = [STRANGER, LATE_STRANGER][stage];
    let mut executions: BTreeMap<u32, (u64, u8, u8)> = BTreeMap::new();
    for record in all {
        let Maker { execution, task } = record.makers[stage];
        if record.makers[stage] == Maker::NOBODY {
            continue;
        }
        let known = executions.entry(task).or_insert((execution, record.strangers[stage], 0));
        if known.0 != execution {
            return Err(format!("two executions of task {task} of stage {stage} are in it"));
        }
        known.2 += u8::from(record.kind == stranger);
    }
    match executions.iter().find(|(_, (_, made, found))| made != found) {
        Some((task, (_, made, found))) => {
            Err(format!("task {task} of stage {stage} made {made} records of its own, and {found} are in it"))
        }
        None => Ok(()),
    }
}

#[derive(Clone, Debug)]
struct Record {
    kind: u8,
    /// How many records the executions of both stages invented.
    strangers: [u8; 2],
    makers: [Maker; 2],
    data: [u8; RECORD_BYTES],
}

/// The origin of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Maker {
    execution: u64,
    task: u32,
}

impl Maker {
    const NOBODY: Self = Self { execution: 0, task: u32::MAX };
}

impl Record {
    fn of(bytes: &[u8], kind: u8, makers: [Maker; 2]) -> Self {
        let mut data = [0; RECORD_BYTES];
        data[..bytes.len()].copy_from_slice(bytes);
        Self { kind, strangers: [0; 2], makers, data }
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![self.kind, self.strangers[0], self.strangers[1]];
        for maker in self.makers {
            bytes.extend(maker.execution.to_be_bytes());
            bytes.extend(maker.task.to_be_bytes());
        }
        bytes.extend(self.data);
        bytes
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let (head, rest) = bytes.split_at_checked(3)?;
        let (makers, data) = rest.split_at_checked(24)?;
        let maker = |bytes: &[u8]| {
            let (execution, task) = bytes.split_at_checked(8)?;
            Some(Maker {
                execution: u64::from_be_bytes(execution.try_into().ok()?),
                task: u32::from_be_bytes(task.try_into().ok()?),
            })
        };
        let makers = [maker(&makers[..12])?, maker(&makers[12..])?];
        Some(Self { kind: head[0], strangers: [head[1], head[2]], makers, data: data.try_into().ok()? })
    }
}

/// The name of the function.
pub(crate) const TAGGED: &str = "tagged";
/// Length of a record of the input in bytes.
pub(crate) const RECORD_BYTES: usize = 20;
/// Length of an output record.
pub(crate) const TAGGED_BYTES: usize = 3 + 24 + RECORD_BYTES;
/// Came from the input.
const GIVEN: u8 = 0;
/// Invented by an execution of the first stage, and of the second.
const STRANGER: u8 = 1;
const LATE_STRANGER: u8 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    /// Two tasks of stage 0, each run twice; and stage 1 over the first bucket of the chosen runs.
    fn output(executions: [u64; 2]) -> Vec<Vec<u8>> {
        let inputs = inputs();
        let first: Vec<_> = [0, 1].map(|task| run(executions[task], 0, task as u32, &[&inputs[task]], 2)).into();
        let bucket = |bucket| first.iter().flat_map(|left| left.bucket(bucket)).copied().collect::<Vec<_>>();
        [0, 1].map(|task| run(70 + task, 1, task as u32, &[&bucket(task)], 1).bucket(0).to_vec()).into()
    }

    fn inputs() -> Vec<Vec<u8>> {
        let mut bytes = vec![0; 80 * RECORD_BYTES];
        Rng::with_seed(1).fill(&mut bytes);
        bytes.chunks(40 * RECORD_BYTES).map(<[u8]>::to_vec).collect()
    }

    #[test]
    fn one_execution_of_each_task_is_an_output_whichever_it_is() {
        assert_eq!(check(&inputs(), &output([11, 12])), Ok(()));
        assert_eq!(check(&inputs(), &output([11, 13])), Ok(()));
        assert_ne!(output([11, 12]), output([11, 13]));
    }

    #[test]
    fn parts_of_two_executions_are_none_and_neither_is_half_of_one() {
        let (one, other) = (output([11, 12]), output([11, 13]));
        assert!(check(&inputs(), &[one[0].clone(), other[1].clone()]).is_err());
        assert!(check(&inputs(), &one[..1]).is_err());
        assert!(check(&inputs(), &[]).is_err());
        let twice = [one.clone(), vec![one[0].clone()]].concat();
        assert!(check(&inputs(), &twice).is_err());
    }
}
