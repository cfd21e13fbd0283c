//! Looking at a data folder that no node uses: each kind of damage is told, and nothing is changed.

use std::{fs, path::Path, sync::Arc};

use protocol::Status;
use store::{OsDisk, SliceStore, inspect_folder, inspect_sidecar, rebuild_sidecar};

use super::*;

struct Folder(tempfile::TempDir);

impl Folder {
    /// Two placed slices, one staged.
    fn filled() -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        let store = folder.open();
        for (slice, at) in [(1, "/a/one"), (2, "/a/two"), (3, "/staged")] {
            let mut writer = store.begin(header(slice, at, 1)).unwrap();
            writer.write(&vec![slice as u8; 200_000]).unwrap();
            writer.finish(None).unwrap();
        }
        for (slice, at) in [(1, "/a/one"), (2, "/a/two")] {
            store.place(&header(slice, at, 1)).unwrap();
        }
        folder
    }

    fn open(&self) -> Arc<SliceStore> {
        SliceStore::open(Arc::new(OsDisk), self.0.path()).unwrap().0
    }

    fn at(&self, name: &str) -> std::path::PathBuf {
        self.0.path().join(name)
    }

    fn flip(&self, name: &str, offset: usize) {
        let mut bytes = fs::read(self.at(name)).unwrap();
        bytes[offset] ^= 1;
        fs::write(self.at(name), bytes).unwrap();
    }
}

#[test]
fn a_sound_folder_is_shown_and_one_in_use_is_not_touched() {
    let folder = Folder::filled();
    let report = inspect_folder(folder.0.path(), true).unwrap();
    let shown: Vec<_> = report.slices.iter().map(|slice| (slice.metadata.header.path.as_str(), slice.state)).collect();
    let placed = HeldState::Placed;
    assert_eq!(shown, [("/a/one", placed), ("/a/two", placed), ("/staged", HeldState::Staged)]);
    assert!(report.problems.is_empty() && report.foreign_files.is_empty(), "{report:?}");
    let _used = folder.open();
    assert_eq!(inspect_folder(folder.0.path(), false).unwrap_err().refusal().status(), Status::Refused);
    assert!(inspect_folder(Path::new("/nonexistent"), false).is_err());
}

#[test]
fn each_kind_of_damage_is_told_with_what_comes_of_it() {
    let folder = Folder::filled();
    folder.flip("slices/a/one", 70_000);
    folder.flip("slices/a/.two.sector", 40);
    fs::write(folder.at("slices/a/own"), "someone's").unwrap();
    fs::write(folder.at(&format!("staging/{}", SliceId(9))), "never finished").unwrap();
    fs::remove_file(folder.at(&format!("staging/{}", SliceId(3)))).unwrap();
    fs::write(folder.at("unfinished/x"), "123").unwrap();
    let unread = inspect_folder(folder.0.path(), false).unwrap();
    assert_eq!(unread.problems.iter().filter(|problem| problem.is_damage).count(), 1, "bytes were not read");
    let report = inspect_folder(folder.0.path(), true).unwrap();
    let mut told: Vec<_> =
        report.problems.iter().map(|p| (p.file.file_name().unwrap().to_str().unwrap(), p.is_damage)).collect();
    told.sort();
    let (nine, three) = (SliceId(9).to_string(), format!("{}.sector", SliceId(3)));
    let mut expected =
        vec![(".one.sector", true), (".two.sector", true), (nine.as_str(), false), (three.as_str(), false)];
    expected.sort();
    assert_eq!(told, expected);
    assert!(report.problems.iter().any(|problem| problem.what.contains("1 of 4 blocks are damaged, the first is 1")));
    assert_eq!(report.foreign_files, [folder.at("slices/a/own")]);
    assert_eq!((report.leftovers, report.leftover_bytes), (1, 3));
    assert!(folder.at(&format!("staging/{}", SliceId(9))).exists(), "looking changes nothing");
}

#[test]
fn a_lost_sidecar_is_made_anew_from_the_bytes_where_that_is_asked_for() {
    let folder = Folder::filled();
    let (sidecar, owner) = (folder.at("slices/a/.one.sector"), UserName::new("root").unwrap());
    let again = rebuild_sidecar(&sidecar, SliceId(77), &owner).unwrap_err();
    assert_eq!(again.refusal().status(), Status::Exists, "one that can be read stays");
    folder.flip("slices/a/.one.sector", 50);
    let used = folder.open();
    drop(used);
    // The start has put the damaged one aside, with its bytes; the operator puts them back.
    let aside = inspect_folder(folder.0.path(), false).unwrap().quarantined;
    let bytes = aside.iter().find(|file| fs::metadata(file).unwrap().len() == 200_000).unwrap();
    fs::rename(bytes, folder.at("slices/a/one")).unwrap();
    let missing = inspect_sidecar(&sidecar, false).unwrap();
    assert!(missing.sidecar.is_none() && missing.bytes_found == Some(200_000));
    let made = rebuild_sidecar(&sidecar, SliceId(77), &owner).unwrap();
    assert_eq!((made.header.slice, made.header.path.as_str(), made.bytes), (SliceId(77), "/a/one", 200_000));
    assert!(made.header.acl.is_some_and(|acl| acl.is_empty()), "whom it was kept from is not known: from everybody");
    let report = inspect_sidecar(&sidecar, true).unwrap();
    assert!(report.problems.is_empty(), "{:?}", report.problems);
    assert!(folder.open().contains(SliceId(77)));
}
