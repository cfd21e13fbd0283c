//! MalGen and MalStone (paper of the Open Cloud Testbed, 5 and 6): the jobs of `sector oct malgen` and `malstone`. What
//! they run are built-in functions. This module never looks into a record, but for a sample of sites.

mod generate;
mod ratios;

use client::job::{JobOutput, JobSpec, StageSpec};
use client::{Entry, EntryKind};
use protocol::message::spe::{FunctionCode, FunctionSpec};

pub(crate) use generate::generate;
pub(crate) use ratios::run;

/// A built-in function with parameters.
fn function(name: &str, parameters: Vec<(String, String)>) -> FunctionSpec {
    FunctionSpec { code: FunctionCode::BuiltIn(name.into()), parameters }
}

/// A job whose files have a single copy: they are made to be measured and thrown away.
fn once(title: String, inputs: Vec<Entry>, stages: Vec<StageSpec>, output: JobOutput) -> JobSpec {
    JobSpec { copies: Some(1), sync_copies: Some(1), ..JobSpec::new(title, inputs, stages, output) }
}

fn file_bytes(entry: &Entry) -> u64 {
    match &entry.kind {
        EntryKind::File(content) => content.bytes,
        EntryKind::Folder => 0,
    }
}
