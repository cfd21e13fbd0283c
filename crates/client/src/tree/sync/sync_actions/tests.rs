//! Two listings and a filter, and what becomes of them. It never touches a disk.

#![allow(clippy::unwrap_used)]

use protocol::Status;

use super::*;

/// A file as it is known: `bytes`, and when it was changed.
fn local(bytes: u64, modified: u64) -> ListedItem {
    ListedItem::File(FileFacts { bytes, modified_unix_millis: Some(modified), ..FileFacts::default() })
}

fn in_cloud(bytes: u64, modified: u64, digest: u8) -> ListedItem {
    ListedItem::File(FileFacts {
        bytes,
        is_executable: false,
        modified_unix_millis: Some(modified),
        digest: Some(Digest([digest; 32])),
        records: Some(RecordFraming::File),
    })
}

fn listing(items: &[(&str, ListedItem)]) -> Listing {
    let root = (PathBuf::new(), ListedItem::Folder);
    items.iter().map(|(path, item)| (PathBuf::from(path), *item)).chain([root]).collect()
}

fn filter(includes: &[&str], excludes: &[&str]) -> PathFilter {
    let owned = |globs: &[&str]| globs.iter().map(|glob| (*glob).to_owned()).collect::<Vec<_>>();
    PathFilter::new(&owned(includes), &owned(excludes)).unwrap()
}

/// The actions, each as a line.
fn lines(from: &Listing, to: &Listing, filter: &PathFilter, how: Comparison) -> Vec<String> {
    let actions = actions(from, to, filter, how).unwrap();
    actions.iter().map(|action| format!("{} {}", action.kind.as_str(), action.path.display())).collect()
}

const DELETE: Comparison = Comparison { delete: true, checksum: false };
const KEEP: Comparison = Comparison { delete: false, checksum: false };

#[test]
fn new_and_changed_files_go_and_those_alike_in_size_and_time_do_not() {
    let from = listing(&[
        ("alike", local(5, 100)),
        ("longer", local(6, 100)),
        ("new", local(1, 1)),
        ("touched", local(5, 200)),
        ("empty", ListedItem::Folder),
        ("link", ListedItem::Other),
    ]);
    let to =
        listing(&[("alike", in_cloud(5, 100, 1)), ("longer", in_cloud(5, 100, 1)), ("touched", in_cloud(5, 100, 1))]);
    let all = PathFilter::default();
    assert_eq!(lines(&from, &to, &all, KEEP), ["make-folder empty", "new new", "changed longer", "compare touched"]);
    let by_digest = Comparison { checksum: true, ..KEEP };
    let expected = ["make-folder empty", "new new", "changed longer", "compare alike", "compare touched"];
    assert_eq!(lines(&from, &to, &all, by_digest), expected);
}

#[test]
fn between_two_folders_of_the_cloud_digests_and_records_say_all() {
    let lined = match in_cloud(5, 1, 4) {
        ListedItem::File(facts) => ListedItem::File(FileFacts { records: Some(RecordFraming::Lines), ..facts }),
        other => other,
    };
    let from = listing(&[("a", in_cloud(5, 1, 1)), ("b", in_cloud(5, 1, 2)), ("c", lined)]);
    let to = listing(&[("a", in_cloud(5, 9, 1)), ("b", in_cloud(5, 1, 3)), ("c", in_cloud(5, 1, 4))]);
    for how in [KEEP, Comparison { checksum: true, ..KEEP }] {
        assert_eq!(lines(&from, &to, &PathFilter::default(), how), ["changed b", "changed c"]);
    }
}

#[test]
fn what_the_source_lacks_is_removed_last_and_only_where_that_is_asked_for() {
    let from = listing(&[("a", local(1, 1)), ("kept", ListedItem::Folder)]);
    let to = listing(&[
        ("b", local(2, 1)),
        ("kept", ListedItem::Folder),
        ("kept/c", local(3, 1)),
        ("old", ListedItem::Folder),
        ("old/deep", ListedItem::Folder),
        ("old/deep/d", local(4, 1)),
    ]);
    let all = PathFilter::default();
    assert_eq!(lines(&from, &to, &all, KEEP), ["new a"]);
    let expected =
        ["new a", "remove b", "remove kept/c", "remove old/deep/d", "remove-folder old/deep", "remove-folder old"];
    assert_eq!(lines(&from, &to, &all, DELETE), expected);
}

#[test]
fn what_filters_leave_out_is_neither_sent_nor_removed_nor_are_folders_around_it() {
    let from = listing(&[("a.log", local(1, 1)), ("a.txt", local(1, 1))]);
    let to = listing(&[
        ("b.log", local(2, 1)),
        ("b.txt", local(2, 1)),
        ("old", ListedItem::Folder),
        ("old/c.log", local(3, 1)),
        ("old/c.txt", local(3, 1)),
    ]);
    let expected = ["new a.txt", "remove b.txt", "remove old/c.txt"];
    assert_eq!(lines(&from, &to, &filter(&[], &["*.log"]), DELETE), expected);
    assert_eq!(lines(&from, &to, &filter(&["*.txt"], &[]), DELETE), expected);
}

#[test]
fn links_and_sockets_are_never_removed_nor_what_the_source_has_in_their_place() {
    let from = listing(&[("a", ListedItem::Other), ("unread", ListedItem::Other)]);
    let to = listing(&[
        ("a", in_cloud(1, 1, 1)),
        ("d", ListedItem::Folder),
        ("d/link", ListedItem::Other),
        ("unread", ListedItem::Folder),
        ("unread/deep", ListedItem::Folder),
        ("unread/deep/x.txt", in_cloud(1, 1, 1)),
    ]);
    assert!(lines(&from, &to, &filter(&["*.txt"], &[]), DELETE).is_empty());
    assert!(lines(&from, &to, &PathFilter::default(), DELETE).is_empty());
}

#[test]
fn a_missing_destination_gets_all_and_a_missing_source_takes_all() {
    let files = listing(&[("a", local(1, 1)), ("d", ListedItem::Folder), ("d/b", local(1, 1))]);
    let all = PathFilter::default();
    assert_eq!(
        lines(&files, &Listing::new(), &all, DELETE),
        ["make-folder ", "make-folder d", "new a", "new d/b"],
        "the folder itself too"
    );
    assert_eq!(lines(&Listing::new(), &files, &all, DELETE), ["remove a", "remove d/b", "remove-folder d"]);
}

#[test]
fn a_file_in_the_place_of_a_folder_is_refused_and_named() {
    let (file, folder) = (listing(&[("x", local(1, 1))]), listing(&[("x", ListedItem::Folder)]));
    for (from, to) in [(&file, &folder), (&folder, &file)] {
        let refused = actions(from, to, &PathFilter::default(), DELETE).unwrap_err();
        assert_eq!(refused.status(), Status::Usage);
        assert!(refused.to_string().contains("`x`"), "{refused}");
    }
}
