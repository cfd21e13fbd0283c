//! Test vectors of the outcome of a job's attempts. A vector never changes without a new codec version.

use super::{Vectors, node, path};
use crate::{
    JobId,
    message::{
        history::{AttemptEnd, AttemptRecord, HistoryRequest, JobHistory, JobLogs, NodeMarks, SegmentLog},
        request::{AddLogsRequest, GetHistoryRequest, GetLogsRequest, SubmitHistoryRequest},
        spe::SegmentOutput,
    },
};

pub(super) fn tell() -> HistoryRequest {
    HistoryRequest::Submit(SubmitHistoryRequest { job: JobId(6), history: history() })
}

/// A history with every end that an attempt may have.
pub(super) fn history() -> JobHistory {
    let attempt = |end| AttemptRecord {
        stage: 1,
        epoch: 0,
        attempt: 2,
        segment: 70_000,
        segments: 3,
        slice: path(),
        bytes: 1 << 27,
        node: node(),
        began_millis: 150,
        took_millis: 2_500,
        end,
    };
    let ends = [AttemptEnd::Done, AttemptEnd::Overtaken, AttemptEnd::Failed, AttemptEnd::Erred, AttemptEnd::Stopped];
    let marks = vec![(node(), NodeMarks { failed: 1, overtaken: 0 })];
    JobHistory { attempts: ends.map(attempt).to_vec(), left_out: 9, marks }
}

/// What a function printed while it was loaded, and over a segment.
pub(super) fn logs() -> JobLogs {
    let log = |segment, failed, left_out_bytes| SegmentLog {
        stage: 1,
        epoch: 0,
        attempt: 2,
        node: node(),
        failed,
        output: SegmentOutput { segment, first: "over é\n".into(), left_out_bytes, last: "end".into() },
    };
    JobLogs { segments: vec![log(None, false, 0), log(Some(70_000), true, 3)], left_out: 9 }
}

#[test]
fn the_words_about_histories_have_their_bytes() {
    let mut vectors = Vectors::of("history", include_str!("../../../tests/vectors/history.txt"));
    compare!(vectors, HistoryRequest {
        "tell": HistoryRequest::Submit(_) => tell(),
        "of": HistoryRequest::Get(_) => HistoryRequest::Get(GetHistoryRequest(JobId(7))),
        "add-logs": HistoryRequest::AddLogs(_) =>
            HistoryRequest::AddLogs(AddLogsRequest { job: JobId(6), logs: logs() }),
        "logs": HistoryRequest::GetLogs(_) => HistoryRequest::GetLogs(GetLogsRequest(JobId(7))),
    });
    vectors.finish();
}
