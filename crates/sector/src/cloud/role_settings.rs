//! The text of a role's settings in a cloud's data folder. Keys are set one by one, and what a person has written beside
//! them stays, comments too. It never writes a file.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use daemon::settings::{Checked, Settings};
use terminal::failure::Failure;
use toml_edit::{DocumentMut, Item, Value};

/// The settings of a role.
pub(crate) struct RoleSettings {
    /// As they are in the file; `None` if there is no file.
    before: Option<String>,
    text: DocumentMut,
}

impl RoleSettings {
    /// Reads the file, or begins a new one.
    ///
    /// # Errors
    /// Those of the settings, with file and line.
    pub(crate) fn open<T: Settings>(file: &Path) -> Result<Self, Failure> {
        let before = match fs::read_to_string(file) {
            Ok(text) => Some(text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(Failure::local("read", file, &error)),
        };
        match before.as_deref().unwrap_or(HEAD).parse::<DocumentMut>() {
            Ok(text) => Ok(Self { before, text }),
            Err(error) => {
                // The role's own reader says it better.
                Checked::<T>::read(file)?;
                Err(Failure::usage(format!("`{}`: {error}", file.display())))
            }
        }
    }

    /// Whether there is no file yet.
    pub(crate) fn is_new(&self) -> bool {
        self.before.is_none()
    }

    /// Sets these keys; comments at them stay.
    pub(crate) fn set(&mut self, keys: &[(&str, Value)]) {
        for (key, value) in keys {
            match self.text.get_mut(key).and_then(Item::as_value_mut) {
                Some(old) => {
                    let mut new = value.clone();
                    *new.decor_mut() = old.decor().clone();
                    *old = new;
                }
                None => drop(self.text.insert(key, Item::Value(value.clone()))),
            }
        }
    }

    /// Has the role keep everything in `folder`, where its settings are. Earlier releases wrote absolute paths, which
    /// lead to where the folder was before it was moved.
    pub(crate) fn use_folder(&mut self, folder: &Path) {
        let before = self.text.get("folder").and_then(Item::as_str).map(PathBuf::from);
        if let Some(before) = before.filter(|before| before != folder)
            && let Some(further) = self.text.get_mut("folders").and_then(Item::as_array_mut)
        {
            for disk in further.iter_mut() {
                let inside = disk.as_str().and_then(|disk| Path::new(disk).strip_prefix(&before).ok());
                if let Some(inside) = inside.map(|inside| inside.display().to_string()) {
                    *disk = inside.into();
                }
            }
        }
        for key in OF_THE_FOLDER {
            self.text.remove(key);
        }
    }

    /// The new text, if it is not that of the file.
    pub(crate) fn changed(&self) -> Option<String> {
        let text = self.text.to_string();
        (self.before.as_deref() != Some(text.as_str())).then_some(text)
    }
}

/// What a new file begins with.
const HEAD: &str = "\
    # Settings of one role (docs/settings.md). `sector up` sets the addresses of the other roles at each start; the rest\n\
    # is as you leave it.\n\n";
/// Keys whose defaults are right in a data folder.
const OF_THE_FOLDER: [&str; 4] = ["folder", "authority", "certificate", "key"];

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use daemon::settings::NodeSettings;

    use super::*;

    fn open(text: &str) -> RoleSettings {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("settings.toml");
        fs::write(&file, text).unwrap();
        RoleSettings::open::<NodeSettings>(&file).unwrap()
    }

    #[test]
    fn keys_are_set_and_what_else_a_person_wrote_stays_with_its_comments() {
        let text =
            "# mine\nmaster = \"127.0.0.1:1\" # moves\nspe_fork = true # for pipes\n\n[spe_user_weights]\nann = 3\n";
        let mut settings = open(text);
        settings.set(&[("master", "127.0.0.1:2".into()), ("id", "node-1".into())]);
        let changed = settings.changed().unwrap();
        assert!(changed.contains("master = \"127.0.0.1:2\" # moves\nspe_fork = true # for pipes\n"), "{changed}");
        assert!(changed.find("id = \"node-1\"").unwrap() < changed.find("[spe_user_weights]").unwrap(), "{changed}");
        assert_eq!(open(&changed).changed(), None);
    }

    #[test]
    fn a_folder_that_was_moved_keeps_its_disks() {
        let text =
            "folder = \"/old/node-1\"\nkey = \"/old/node-1/key.pem\"\nfolders = [\"/old/node-1/disk-2\", \"/mnt/b\"]\n";
        let mut settings = open(text);
        settings.use_folder(Path::new("/new/node-1"));
        assert_eq!(settings.changed().unwrap(), "folders = [\"disk-2\", \"/mnt/b\"]\n");
    }

    #[test]
    fn a_broken_file_is_named_with_its_line() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("settings.toml");
        fs::write(&file, "id = \"node-1\"\nthis is no toml\n").unwrap();
        let Err(failure) = RoleSettings::open::<NodeSettings>(&file) else { panic!("it is broken") };
        assert!(failure.message.contains("settings.toml, line 2"), "{failure}");
    }
}
