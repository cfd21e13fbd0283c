//! Test vectors of the outcome of a job's attempts. A vector never changes without a new codec version.

use super::{Vectors, node, path};
use crate::{
    JobId,
    message::{
        history::{AttemptEnd, AttemptRecord, HistoryRequest, JobHistory, NodeMarks},
        request::{GetHistoryRequest, SubmitHistoryRequest},
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

#[test]
fn the_words_about_histories_have_their_bytes() {
    let mut vectors = Vectors::of("history", include_str!("../../../tests/vectors/history.txt"));
    compare!(vectors, HistoryRequest {
        "tell": HistoryRequest::Submit(_) => tell(),
        "of": HistoryRequest::Get(_) => HistoryRequest::Get(GetHistoryRequest(JobId(7))),
    });
    vectors.finish();
}
