//! The side files of a function: whole slices, of which a node has one copy for all SPEs of a job (path *job*, row 7).
//! A local one is verified and read in place; another is fetched into the job's scratch folder. It never grants a job
//! the right to read a slice; the engine has checked the ticket before.

use std::{collections::BTreeSet, fs::File, path::PathBuf, sync::Arc};

use protocol::{JobId, Reason, SideFileName, Status, limits, message::spe::SideFileOrder};

use super::input::{SlicePart, fetch_part, open_slice};
use crate::{
    NodeError, blocking,
    bucket::{SideFile, SideFileContent},
    node_context::NodeContext,
};

/// The side files of a function, all present on this node.
pub(super) struct LoadedSideFiles(Vec<(SideFileName, Arc<SideFile>)>);

impl LoadedSideFiles {
    /// Fetches the missing ones.
    ///
    /// # Errors
    /// `Usage` for an order that our own driver never sends. `Unavailable` for every other obstacle, since another node
    /// may have the file, or this one the next time.
    pub(super) async fn fetch_missing(
        context: &Arc<NodeContext>,
        job: JobId,
        orders: Vec<SideFileOrder>,
    ) -> Result<Self, NodeError> {
        check(&orders)?;
        let mut files = Vec::with_capacity(orders.len());
        for order in orders {
            let file = context.storage.buckets.side_file(job, order.slice)?;
            let name = order.name.clone();
            // Boxed: a fetch is much larger than an idle conversation.
            let brought = Box::pin(file.get_or_fetch(open_or_fetch(context, job, order))).await;
            brought.map_err(|error| out_of_reach(context, &name, error))?;
            files.push((name, file));
        }
        Ok(Self(files))
    }

    /// Takes one out, and gives a descriptor of it; `None` where there is none of this name.
    pub(super) fn take(&mut self, name: &SideFileName) -> Option<Result<File, NodeError>> {
        let at = self.0.iter().position(|(each, _)| each == name)?;
        let only = Self(vec![self.0.remove(at)]);
        only.share().map(|mut files| files.pop().map(|(_, file)| file)).transpose()
    }

    /// A descriptor of each, for an SPE.
    pub(super) fn share(&self) -> Result<Vec<(SideFileName, File)>, NodeError> {
        let share = |(name, file): &(SideFileName, Arc<SideFile>)| {
            let path = PathBuf::from(file.slice().to_string());
            let shared = file.share().map_err(NodeError::io("share the file of slice", &path))?;
            let gone = || NodeError::Spe(format!("has not got the side file `{name}`"));
            Ok((name.clone(), shared.ok_or_else(gone)?))
        };
        self.0.iter().map(share).collect()
    }
}

/// Refuses orders that our own driver never sends.
fn check(orders: &[SideFileOrder]) -> Result<(), NodeError> {
    let usage = |sentence| Err(NodeError::refused(Reason::Invalid, sentence));
    if orders.len() > limits::SIDE_FILES_MAX {
        return usage(format!("{} side files are too many: {} at most", orders.len(), limits::SIDE_FILES_MAX));
    }
    let mut names = BTreeSet::new();
    for order in orders {
        if !names.insert(&order.name) {
            return usage(format!("two side files are called `{}`", order.name));
        }
        if order.bytes > limits::SIDE_FILE_BYTES_MAX {
            let most = limits::SIDE_FILE_BYTES_MAX;
            return usage(format!("the side file `{}` has {} bytes, more than {most}", order.name, order.bytes));
        }
    }
    Ok(())
}

async fn open_or_fetch(
    context: &Arc<NodeContext>,
    job: JobId,
    order: SideFileOrder,
) -> Result<SideFileContent, NodeError> {
    let SideFileOrder { slice, bytes, from, .. } = order;
    let whole = SlicePart::whole(bytes);
    if let Some(from) = from {
        tracing::debug!(%job, %slice, node = %from.node, bytes, "fetching a side file");
        return SideFileContent::fetched(fetch_part(context, job, slice, &from, whole).await?);
    }
    let store = Arc::clone(context);
    // A corrupt block is reported from a task of the runtime, which `blocking` still is part of.
    let opened = blocking("opening a side file", move || open_slice(&store, slice, whole).map_err(NodeError::Refused));
    let file = opened.await?;
    let path = PathBuf::from(slice.to_string());
    let found = file.metadata().map_err(NodeError::io("look at the file of slice", &path))?.len();
    if found != bytes {
        return Err(NodeError::LengthMismatch { what: format!("slice {slice}"), expected: bytes, found });
    }
    Ok(SideFileContent::local(file))
}

/// Another node may have what this one cannot get, so no error here may end the job as if no node could load its
/// function.
fn out_of_reach(context: &NodeContext, name: &SideFileName, error: NodeError) -> NodeError {
    context.storage.note_disk_error(&error);
    let refusal = error.refusal();
    let reason = if refusal.status() == Status::Usage { refusal.reason } else { Reason::Unavailable };
    NodeError::refused(reason, format!("node {} cannot get the side file `{name}`: {refusal}", context.node))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use protocol::SliceId;

    use super::*;

    fn order(name: &str, bytes: u64) -> SideFileOrder {
        SideFileOrder { name: SideFileName::new(name).unwrap(), slice: SliceId(1), bytes, from: None }
    }

    #[test]
    fn too_many_too_large_and_two_of_one_name_are_refused() {
        let many = |count: usize| (0..count).map(|number| order(&format!("f{number}"), 1)).collect::<Vec<_>>();
        assert!(check(&many(limits::SIDE_FILES_MAX)).is_ok());
        assert!(check(&[order("a", limits::SIDE_FILE_BYTES_MAX)]).is_ok());
        for (orders, word) in [
            (many(limits::SIDE_FILES_MAX + 1), "too many"),
            (vec![order("a", limits::SIDE_FILE_BYTES_MAX + 1)], "more than"),
            (vec![order("a", 1), order("a", 2)], "`a`"),
        ] {
            let refusal = check(&orders).unwrap_err().refusal();
            assert!(refusal.status() == Status::Usage && refusal.message.contains(word), "{refusal}");
        }
    }
}
