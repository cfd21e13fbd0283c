//! What a job is to do: its stages, its final output, its limits, and the nodes that may run SPEs for it. A plan that
//! cannot work is refused here as a whole, before the first SPE is started. It never starts anything itself.

use std::time::Duration;

use protocol::{JobId, NodeId, Place, RecordFraming, limits, message::client_master::SiteLink};
use serde::{Deserialize, Serialize};

use crate::{SphereError, stream::InputFile};

/// A job's plan.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct JobPlan {
    /// The job, as the master admitted it.
    pub job: JobId,
    /// Its stages, in order; 1 to [`STAGES_MAX`](limits::STAGES_MAX).
    pub stages: Vec<StagePlan>,
    /// What becomes of the last stage's output.
    pub output: FinalOutput,
    /// Smallest and largest segment in bytes (paper, 3.5.1: S_min and S_max).
    pub segment_bytes: (u64, u64),
    /// Segments whose function may err without ending the job; they are left out of its output. The upper limit is
    /// [`FUNCTION_ERRORS_MAX`](limits::FUNCTION_ERRORS_MAX).
    pub errors_max: u32,
    /// Times one task may fail before the job is given up.
    pub attempts_max: u32,
    /// Times the whole job may be begun because results were lost with a node.
    pub epochs_max: u32,
    /// An SPE that reports no progress for this long is given up (paper, 3.5.2).
    pub progress_deadline: Duration,
    /// What is known of the links between the sites of its nodes: buckets are [placed](crate::bucket::bucket_shares) by it. May
    /// be empty.
    pub links: Vec<SiteLink>,
}

/// One stage: one function over one stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StagePlan {
    /// Where its results go.
    pub output: StageOutput,
    /// How its results are divided into records: given to the next stage and to a published file.
    pub records: RecordFraming,
}

/// Where the results of a stage's tasks go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StageOutput {
    /// Into this many buckets, spread over the nodes: a shuffle (paper, 3.2).
    Buckets(u32),
    /// Each task's into a bucket of its own, where the task ran.
    Local,
}

/// What becomes of the last stage's buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FinalOutput {
    /// Each becomes a file.
    Publish,
    /// Their bytes go to the driver; small ones only.
    Return,
}

/// A node that may run SPEs for the job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpeNodePlan {
    /// Which one.
    pub node: NodeId,
    /// Its place in the topology.
    pub place: Place,
    /// SPEs it runs at once.
    pub slots: u32,
    /// Whether other nodes are preferred: attempts of earlier jobs came to nothing here. If all are marked, none counts
    /// as marked.
    pub is_marked: bool,
}

impl JobPlan {
    /// A plan with the default bounds.
    pub fn new(job: JobId, stages: Vec<StagePlan>, output: FinalOutput) -> Self {
        Self {
            job,
            stages,
            output,
            segment_bytes: limits::SEGMENT_BYTES_DEFAULT,
            errors_max: 0,
            attempts_max: ATTEMPTS_MAX_DEFAULT,
            epochs_max: EPOCHS_MAX_DEFAULT,
            progress_deadline: PROGRESS_DEADLINE_DEFAULT,
            links: Vec::new(),
        }
    }

    /// Whether the plan can work on these inputs and nodes at all.
    pub(crate) fn check(&self, inputs: &[InputFile], nodes: &[SpeNodePlan]) -> Result<(), SphereError> {
        if self.stages.is_empty() || self.stages.len() > limits::STAGES_MAX {
            return Err(SphereError::StageCount { stages: self.stages.len() });
        }
        for (stage, plan) in self.stages.iter().enumerate() {
            if let StageOutput::Buckets(buckets) = plan.output
                && !(1..=limits::BUCKETS_MAX).contains(&buckets)
            {
                return Err(SphereError::BucketCount { stage, buckets });
            }
        }
        let (min, max) = self.segment_bytes;
        if min == 0 || min > max {
            return Err(SphereError::SegmentBytes { min, max });
        }
        if inputs.is_empty() {
            return Err(SphereError::NoInput);
        }
        if nodes.iter().all(|node| node.slots == 0) {
            return Err(SphereError::NoNodes);
        }
        Ok(())
    }

    /// Whether `stage` is the last.
    pub(crate) fn is_last(&self, stage: u32) -> bool {
        stage as usize + 1 >= self.stages.len()
    }
}

/// Four failures of one task on fresh SPEs are no accident; Hadoop and Spark chose the same number.
pub const ATTEMPTS_MAX_DEFAULT: u32 = 4;
/// Three nodes may be lost with their buckets before a job is given up.
pub const EPOCHS_MAX_DEFAULT: u32 = 4;
/// An SPE reports progress about every second; 30 silent ones are a dead machine, not a busy one.
pub const PROGRESS_DEADLINE_DEFAULT: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use protocol::SliceId;

    use super::*;
    use crate::stream::FileLayout;

    fn good() -> (JobPlan, Vec<InputFile>, Vec<SpeNodePlan>) {
        let stage = StagePlan { output: StageOutput::Buckets(3), records: RecordFraming::Lines };
        let file = InputFile {
            path: "/a".parse().unwrap(),
            slice: SliceId(1),
            bytes: 10,
            records: RecordFraming::Lines,
            nodes: vec![],
            layout: FileLayout::default(),
        };
        let node =
            SpeNodePlan { node: NodeId::new("n").unwrap(), place: Place::new("s", "r"), slots: 1, is_marked: false };
        (JobPlan::new(JobId(1), vec![stage], FinalOutput::Publish), vec![file], vec![node])
    }

    #[test]
    fn a_good_plan_passes() {
        let (plan, inputs, nodes) = good();
        assert_eq!(plan.check(&inputs, &nodes), Ok(()));
        assert!(plan.is_last(0));
    }

    #[test]
    fn a_plan_that_cannot_work_is_refused_with_what_is_wrong() {
        let (plan, inputs, nodes) = good();
        let with = |change: fn(&mut JobPlan)| {
            let mut plan = plan.clone();
            change(&mut plan);
            plan.check(&inputs, &nodes).unwrap_err().to_string()
        };
        assert!(with(|plan| plan.stages.clear()).contains("0 stages"));
        assert!(with(|plan| plan.stages = vec![plan.stages[0]; 65]).contains("65 stages"));
        assert!(with(|plan| plan.stages[0].output = StageOutput::Buckets(0)).contains("0 buckets"));
        assert!(with(|plan| plan.stages[0].output = StageOutput::Buckets(4097)).contains("4097 buckets"));
        assert!(with(|plan| plan.segment_bytes = (0, 5)).contains("0"));
        assert!(with(|plan| plan.segment_bytes = (6, 5)).contains("6"));
        assert_eq!(plan.check(&[], &nodes), Err(SphereError::NoInput));
        assert_eq!(plan.check(&inputs, &[]), Err(SphereError::NoNodes));
        let idle = SpeNodePlan { slots: 0, ..nodes[0].clone() };
        assert_eq!(plan.check(&inputs, &[idle]), Err(SphereError::NoNodes));
    }
}
