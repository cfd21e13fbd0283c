//! Changes of a file's user metadata: what they are, what they leave alone, and when they are refused.

#![allow(clippy::unwrap_used)]

use protocol::{
    Reason, SliceId, limits,
    message::request::{ChangeMetadataRequest, RemoveContentRequest, RestoreRequest},
};

use super::*;

pub(super) fn change(at: &str, slice: SliceId, changes: &[(&str, Option<&str>)]) -> ClientRequest {
    let changes = changes.iter().map(|(key, value)| ((*key).to_owned(), value.map(str::to_owned)));
    ClientRequest::ChangeMetadata(ChangeMetadataRequest { path: path(at), slice, changes: changes.collect() })
}

pub(super) fn remove(at: &str, slice: SliceId) -> ClientRequest {
    ClientRequest::RemoveContent(RemoveContentRequest { path: path(at), slice })
}

impl Bench {
    /// Changes metadata, and gives what is there then.
    fn change_metadata(&mut self, user: &str, at: &str, slice: SliceId, changes: &[(&str, Option<&str>)]) -> Entry {
        match self.ask(user, change(at, slice, changes)) {
            ClientReply::Entry(entry) => entry,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn keys_come_and_go_while_the_content_stays_and_the_copies_are_told() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1"]);
    let mut with_key = create("/f");
    with_key.user.insert("old".into(), "1".into());
    bench.put("ann", with_key, 100);
    bench.advance(seconds(10));
    let before = bench.stat("/f").entry;
    let slice = content(&before).slice;
    let after = bench.change_metadata("ann", "/f", slice, &[("new", Some("2")), ("old", None), ("never", None)]);
    let mut expected = before.clone();
    let EntryKind::File(of_file) = &mut expected.kind else { panic!("{expected:?}") };
    of_file.user = [("new".to_owned(), "2".to_owned())].into();
    assert_eq!(after, expected);
    bench.advance(seconds(10));
    for id in ["n1", "n2"] {
        assert_eq!(bench.node(id).held[&slice].metadata.header.user, content(&after).user, "{id}");
    }
    bench.restart_master();
    bench.join_each(&["n1", "n2"]);
    assert_eq!(content(&bench.stat("/f").entry).user, content(&after).user);
    // Again is as good as once.
    assert_eq!(bench.change_metadata("ann", "/f", slice, &[("new", Some("2"))]).kind, after.kind);
}

#[test]
fn metadata_of_another_content_of_a_folder_and_too_many_are_refused() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1"]);
    bench.done("ann", policies::folder("/d"));
    bench.put("ann", create("/d/f"), 100);
    let slice = content(&bench.stat("/d/f").entry).slice;
    bench.put("ann", create("/d/f"), 200);
    let key: &[_] = &[("k", Some("v"))];
    assert!(matches!(
        bench.refused("ann", change("/d/f", slice, key)).reason,
        Reason::VersionChanged { current: Some(_) }
    ));
    let now = content(&bench.stat("/d/f").entry).slice;
    assert_eq!(bench.refused("ann", change("/d", now, key)).reason, Reason::IsFolder);
    assert_eq!(bench.refused("ann", change("/d/none", now, key)).reason, Reason::NotFound);
    let large = "x".repeat(limits::USER_METADATA_BYTES_MAX);
    assert_eq!(bench.refused("ann", change("/d/f", now, &[("k", Some(&large))])).reason, Reason::Invalid);
    assert!(content(&bench.stat("/d/f").entry).user.is_empty());
}

#[test]
fn only_the_content_that_was_meant_is_removed_and_it_goes_to_the_trash() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1"]);
    bench.put("ann", create("/f"), 100);
    let old = content(&bench.stat("/f").entry).slice;
    bench.put("ann", create("/f"), 200);
    let reason = bench.refused("ann", remove("/f", old)).reason;
    assert!(matches!(reason, Reason::VersionChanged { current: Some(_) }), "{reason:?}");
    let now = content(&bench.stat("/f").entry).slice;
    bench.done("ann", remove("/f", now));
    assert_eq!(bench.refused("ann", remove("/f", now)).reason, Reason::NotFound);
    bench.done("ann", policies::folder("/d"));
    assert_eq!(bench.refused("ann", remove("/d", now)).reason, Reason::IsFolder);
    let restore = ClientRequest::Restore(RestoreRequest { path: path("/f"), to: None });
    assert!(matches!(bench.ask("ann", restore), ClientReply::Entry(entry) if content(&entry).slice == now));
}
