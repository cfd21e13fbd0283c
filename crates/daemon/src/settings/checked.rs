//! [`Checked`]: settings whose relations hold, which only this file can make. It never looks at the network or at what
//! a folder holds, except the settings file itself.

use std::{
    fs,
    ops::Deref,
    path::{Path, PathBuf},
};

use protocol::HostAddress;

use super::{Keyed, Unreadable};
use crate::DaemonError;

/// Settings that were checked: relations hold, paths are absolute. The fields are read through it and can no longer be
/// changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked<T>(T);

/// The settings of a role.
pub trait Settings: Keyed {
    /// Makes paths absolute from `base`, fills in values that depend on the machine, and reports what does not fit.
    fn check(&mut self, base: &Path) -> Result<(), InvalidSetting>;
}

/// A relation that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidSetting {
    /// The keys that do not fit together, the likelier culprit first.
    pub keys: &'static [&'static str],
    /// What is wrong and what to do.
    pub why: String,
}

impl<T: Settings> Checked<T> {
    /// Reads and checks a settings file. Relative paths in it are relative to its folder.
    pub fn read(file: &Path) -> Result<Self, DaemonError> {
        let unreadable = |source| DaemonError::SettingsUnreadable { file: file.to_owned(), source };
        let text = fs::read_to_string(file).map_err(unreadable)?;
        let base = std::path::absolute(file).map_err(unreadable)?;
        Self::parse(&text, file, base.parent().unwrap_or(Path::new("/")))
    }

    /// Checks settings that a program put together. Relative paths in them are relative to `base`, an absolute path.
    pub fn of(mut settings: T, base: &Path) -> Result<Self, DaemonError> {
        match settings.check(base) {
            Ok(()) => Ok(Self(settings)),
            Err(wrong) => {
                let key = wrong.keys.first().copied().unwrap_or_default();
                Err(DaemonError::SettingsRefused { role: T::ROLE, key, why: wrong.why })
            }
        }
    }

    /// The settings as a file that [`read`](Self::read) takes.
    pub fn to_toml(&self) -> String {
        // Settings are flat and hold only what TOML can express, or nothing.
        #[allow(clippy::expect_used)]
        toml::to_string(&self.0).expect("settings are plain TOML")
    }

    fn parse(text: &str, file: &Path, base: &Path) -> Result<Self, DaemonError> {
        let file = || file.to_owned();
        let (mut settings, lines) = T::from_toml(text).map_err(|error| match error {
            Unreadable::At { line, key: Some(key), why } => DaemonError::SettingsKey { file: file(), line, key, why },
            Unreadable::At { line, key: None, why } => DaemonError::SettingsSyntax { file: file(), line, why },
            Unreadable::Missing(key) => {
                let why = format!("the {} needs it, and it has no default; see docs/settings.md", T::ROLE);
                DaemonError::SettingsMissing { file: file(), key, why }
            }
        })?;
        match settings.check(base) {
            Ok(()) => Ok(Self(settings)),
            Err(InvalidSetting { keys, why }) => Err(match keys.iter().find_map(|key| Some((key, lines.of(key)?))) {
                Some((key, line)) => DaemonError::SettingsKey { file: file(), line, key: (*key).into(), why },
                None => {
                    DaemonError::SettingsMissing { file: file(), key: keys.first().copied().unwrap_or_default(), why }
                }
            }),
        }
    }
}

impl<T> Deref for Checked<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

/// Makes `path` absolute, from `base`.
pub(super) fn make_absolute(path: &mut PathBuf, base: &Path) {
    // Component by component, so that `.` does not appear in what people are shown.
    *path = base.join(&*path).components().collect();
}

/// Refuses a number outside `least` to `most`.
pub(super) fn check_range<N: PartialOrd + std::fmt::Display>(
    keys: &'static [&'static str],
    value: N,
    least: N,
    most: N,
) -> Result<(), InvalidSetting> {
    if value >= least && value <= most {
        return Ok(());
    }
    Err(InvalidSetting { keys, why: format!("it is {value}, and must be from {least} to {most}") })
}

/// Refuses an address that no one can connect to.
pub(super) fn check_reachable(keys: &'static [&'static str], address: &HostAddress) -> Result<(), InvalidSetting> {
    if address.is_unreachable() {
        return Err(InvalidSetting {
            keys,
            why: format!("no one can connect to {address}; give the address and port it has"),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use protocol::Status;

    use super::*;
    use crate::settings::{MasterSettings, NodeSettings, SecuritySettings};

    fn parse<T: Settings>(text: &str) -> Result<Checked<T>, DaemonError> {
        Checked::parse(text, Path::new("role.toml"), Path::new("/cloud"))
    }

    /// File, line, key: the three things every error about a key must name.
    fn refused_at<T: Settings + std::fmt::Debug>(text: &str) -> (usize, String, String) {
        let error = parse::<T>(text).unwrap_err();
        assert_eq!(error.refusal().status(), Status::Usage, "{error}");
        assert!(error.to_string().starts_with("role.toml, line "), "{error}");
        match error {
            DaemonError::SettingsKey { line, key, why, .. } => (line, key, why),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_unknown_key_is_refused_with_its_line() {
        let (line, key, why) = refused_at::<MasterSettings>("# a comment\ncopies = 3\n\ncopis = 2\n");
        assert_eq!((line, key.as_str()), (4, "copis"));
        assert!(why.contains("unknown field"), "{why}");
        let (line, key, _) = refused_at::<SecuritySettings>("copies = 3");
        assert_eq!((line, key.as_str()), (1, "copies"));
    }

    #[test]
    fn a_value_of_the_wrong_type_is_refused_with_its_line() {
        for (text, expected) in [
            ("\nlisten = 7400", (2, "listen")),
            ("listen = \"everywhere\"", (1, "listen")),
            ("copies = \"three\"", (1, "copies")),
            ("copies = -1", (1, "copies")),
            ("copies = 1000", (1, "copies")),
        ] {
            let (line, key, _) = refused_at::<MasterSettings>(text);
            assert_eq!((line, key.as_str()), expected, "{text}");
        }
        let (line, key, why) = refused_at::<NodeSettings>("master = \"10.0.0.1:7400\"\nid = \"../up\"");
        assert_eq!((line, key.as_str()), (2, "id"));
        assert!(why.contains("node id"), "{why}");
    }

    #[test]
    fn a_text_that_is_not_toml_is_refused_with_its_line() {
        let error = parse::<MasterSettings>("copies = 3\nthis is no toml\n").unwrap_err();
        assert!(error.to_string().starts_with("role.toml, line 2: "), "{error}");
        let twice = parse::<MasterSettings>("copies = 3\ncopies = 3\n").unwrap_err();
        assert!(twice.to_string().contains("line 2"), "{twice}");
    }

    #[test]
    fn a_missing_file_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let error = Checked::<MasterSettings>::read(&folder.path().join("absent.toml")).unwrap_err();
        assert!(error.to_string().contains("absent.toml"), "{error}");
        assert_eq!(error.refusal().status(), Status::NotFound);
    }

    #[test]
    fn a_required_key_that_is_missing_is_named() {
        let error = parse::<NodeSettings>("site = \"chicago\"").unwrap_err();
        assert!(matches!(&error, DaemonError::SettingsMissing { key: "id", .. }), "{error}");
        assert!(error.to_string().contains("the node needs it"), "{error}");
    }

    #[test]
    fn a_relation_is_refused_at_the_line_that_was_written() {
        let (line, key, why) = refused_at::<MasterSettings>("copies = 2\nsync_copies = 3\n");
        assert_eq!((line, key.as_str()), (2, "sync_copies"));
        assert!(why.contains("copies"), "{why}");
        // The other half of the relation is a default: the line that is in the file is the one to look at.
        let (line, key, _) = refused_at::<MasterSettings>("copies = 1\n");
        assert_eq!((line, key.as_str()), (1, "copies"));
    }

    #[test]
    fn relative_paths_are_relative_to_the_settings_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("security.toml");
        fs::write(&file, "folder = \"state\"\nkey = \"/etc/sector/key.pem\"\n").unwrap();
        let settings = Checked::<SecuritySettings>::read(&file).unwrap();
        assert_eq!(settings.folder, folder.path().join("state"));
        assert_eq!(settings.certificate, folder.path().join("state/certificate.pem"));
        assert_eq!(settings.key, Path::new("/etc/sector/key.pem"));
    }

    #[test]
    fn what_is_written_is_read_back_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("node.toml");
        let node = NodeSettings {
            id: "node-7".parse().unwrap(),
            folder: "data".into(),
            advertise: "192.0.2.7:7410".parse().ok(),
            ..NodeSettings::default()
        };
        let checked = Checked::of(node, folder.path()).unwrap();
        fs::write(&file, checked.to_toml()).unwrap();
        assert_eq!(Checked::read(&file).unwrap(), checked);
    }

    #[test]
    fn settings_of_a_program_are_checked_too() {
        let error = Checked::of(MasterSettings { copies: 0, ..MasterSettings::default() }, Path::new("/")).unwrap_err();
        assert!(error.to_string().contains("the settings of the master"), "{error}");
        assert!(error.to_string().contains("`copies`"), "{error}");
    }

    #[test]
    fn an_address_no_one_can_reach_is_refused() {
        for address in ["0.0.0.0:7401", "[::]:7401", "10.0.0.1:0"] {
            let (_, key, _) = refused_at::<MasterSettings>(&format!("security = \"{address}\""));
            assert_eq!(key, "security");
        }
    }
}
