//! A built-in function that needs all records of a key together gets them. Where it is the only stage of a job, a stage
//! before it sends equal keys to one bucket. Otherwise its result would be one of each segment, and look like one of
//! all. It serves the path *job*. It never changes a job of several stages, whose author has said how keys meet.

use protocol::{
    RecordFraming,
    built_in::{BuiltIn, SPREAD_BY_KEY, SPREAD_PARAMETERS},
    limits,
    message::spe::{FunctionCode, FunctionSpec},
};
use sphere::InputFile;

use super::{JobSpec, StageSpec};
use crate::{Client, ClientError};

impl Client {
    /// How many buckets a stage has if nobody says: two a node, so that all have work until the end.
    ///
    /// # Errors
    /// If the master does not answer.
    pub async fn default_buckets(&self) -> Result<u32, ClientError> {
        let nodes = u32::try_from(self.nodes().await?.len()).unwrap_or(u32::MAX);
        Ok(nodes.saturating_mul(2).clamp(1, limits::BUCKETS_MAX))
    }
}

/// The same job, with a stage before its only one where that one needs it.
pub(super) async fn spread(client: &Client, spec: JobSpec, inputs: &[InputFile]) -> Result<JobSpec, ClientError> {
    let Some(records) = framing_to_spread(&spec, inputs) else { return Ok(spec) };
    let buckets = match spec.stages.first().and_then(|stage| stage.buckets) {
        Some(buckets) => buckets,
        None => client.default_buckets().await?,
    };
    Ok(with_spread(spec, records, buckets))
}

/// How the records that are to be spread fall into bytes; `None` where nothing is to be spread.
fn framing_to_spread(spec: &JobSpec, inputs: &[InputFile]) -> Option<RecordFraming> {
    let [stage] = &spec.stages[..] else { return None };
    let FunctionCode::BuiltIn(name) = &stage.function.code else { return None };
    let needs = BuiltIn::find(name).is_some_and(|function| function.needs_whole_keys);
    let first = inputs.first()?.records;
    // The results of a stage have no index. What falls into no records, the function itself refuses.
    let is_plain = matches!(first, RecordFraming::Lines | RecordFraming::Fixed(_));
    let is_alike = inputs.iter().all(|file| file.records == first) && spec.zipped_inputs.is_empty();
    (needs && is_plain && is_alike).then_some(first)
}

fn with_spread(spec: JobSpec, records: RecordFraming, buckets: u32) -> JobSpec {
    let stages = spec.stages.into_iter().flat_map(|stage| {
        let of_key = stage.function.parameters.iter().filter(|(name, _)| SPREAD_PARAMETERS.contains(&name.as_str()));
        let spreading =
            FunctionSpec { code: FunctionCode::BuiltIn(SPREAD_BY_KEY.into()), parameters: of_key.cloned().collect() };
        [StageSpec::shuffle(spreading, buckets).with_records(records), StageSpec { buckets: None, ..stage }]
    });
    JobSpec { stages: stages.collect(), ..spec }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use protocol::SliceId;

    use super::*;
    use crate::job::JobOutput;

    fn spec(names: &[&str]) -> JobSpec {
        let parameters = ["reduction", "key", "separator"].map(|name| (name.to_owned(), name.to_uppercase())).to_vec();
        let stage = |name: &&str| {
            let code = FunctionCode::BuiltIn((*name).into());
            let function = FunctionSpec { code, parameters: parameters.clone() };
            StageSpec::shuffle(function, 5).with_records(RecordFraming::Lines)
        };
        JobSpec::new("t", vec![], names.iter().map(stage).collect(), JobOutput::Return)
    }

    fn input(records: RecordFraming) -> InputFile {
        InputFile {
            path: "/a".parse().unwrap(),
            slice: SliceId(1),
            bytes: 1,
            records,
            nodes: vec![],
            layout: sphere::FileLayout::default(),
        }
    }

    #[test]
    fn a_function_that_needs_whole_keys_alone_gets_a_stage_before_it() {
        let lines = [input(RecordFraming::Lines), input(RecordFraming::Lines)];
        for name in ["reduce", "group"] {
            assert_eq!(framing_to_spread(&spec(&[name]), &lines), Some(RecordFraming::Lines), "{name}");
        }
        for names in [&["filter"][..], &["hash"], &["reduce", "reduce"], &["hash", "reduce"], &["unknown"]] {
            assert_eq!(framing_to_spread(&spec(names), &lines), None, "{names:?}");
        }
        let mixed = [input(RecordFraming::Lines), input(RecordFraming::Fixed(8))];
        assert_eq!(framing_to_spread(&spec(&["reduce"]), &mixed), None);
        assert_eq!(framing_to_spread(&spec(&["reduce"]), &[input(RecordFraming::Index)]), None);
    }

    #[test]
    fn the_stage_before_spreads_by_the_same_key_into_the_buckets_that_were_asked_for() {
        let spread = with_spread(spec(&["reduce"]), RecordFraming::Fixed(8), 5);
        let [first, second] = &spread.stages[..] else { panic!("{spread:?}") };
        assert_eq!(first.function.code, FunctionCode::BuiltIn("hash".into()));
        let names: Vec<_> = first.function.parameters.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!((names, first.buckets, first.records), (vec!["key", "separator"], Some(5), RecordFraming::Fixed(8)));
        assert_eq!((second.buckets, second.records), (None, RecordFraming::Lines));
        assert_eq!(second.function.parameters.len(), 3);
    }
}
