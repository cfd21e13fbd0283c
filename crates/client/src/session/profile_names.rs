//! Clouds by name: profiles in `$SECTOR_HOME/profiles/`, and which of them commands use. It never reads what is in a
//! profile.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
};

use protocol::{HostAddress, Reason};

use crate::{ClientError, Profile};

/// The name of `$SECTOR_HOME/profile.toml`, which `sector up` and `sector login` write.
const DEFAULT_PROFILE: &str = "default";

impl Profile {
    /// Where commands look: `$SECTOR_PROFILE`, a name or a file; else the profile in use.
    pub fn default_file() -> Result<PathBuf, ClientError> {
        match env::var_os("SECTOR_PROFILE") {
            Some(chosen) => Self::chosen_file(Path::new(&chosen)),
            None => Self::named_file(&Self::in_use()?),
        }
    }

    /// The file that a person means: a name of a profile, or a path. A path has a `/`, ends with `.toml`, or is there.
    pub fn chosen_file(chosen: &Path) -> Result<PathBuf, ClientError> {
        match chosen.to_str() {
            Some(name) if is_name(name) && !chosen.exists() => Self::named_file(name),
            _ => Ok(chosen.into()),
        }
    }

    /// The file of a name, which need not be there.
    ///
    /// # Errors
    /// When it is no name.
    pub fn named_file(name: &str) -> Result<PathBuf, ClientError> {
        if name == DEFAULT_PROFILE {
            return Ok(Self::home()?.join("profile.toml"));
        }
        if !is_name(name) {
            let message = format!(
                "`{name}` is no name of a profile: 1 to {NAME_BYTES_MAX} letters, digits, `-`, `_` and `.`, not at the \
                 beginning, and no `.toml` at the end"
            );
            return Err(ClientError::Usage(message));
        }
        Ok(Self::home()?.join(FOLDER).join(format!("{name}.toml")))
    }

    /// The name of the profile in use.
    ///
    /// # Errors
    /// When the note that holds it cannot be read.
    pub fn in_use() -> Result<String, ClientError> {
        let file = Self::home()?.join(NOTE);
        match fs::read_to_string(&file) {
            Ok(text) => Ok(text.trim().to_owned()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(DEFAULT_PROFILE.into()),
            Err(error) => Err(unusable(&file, "read", &error)),
        }
    }

    /// Has commands use this profile from now on.
    ///
    /// # Errors
    /// [`Reason::NotFound`] when there is none of this name.
    pub fn use_named(name: &str) -> Result<(), ClientError> {
        let profile = Self::named_file(name)?;
        if !profile.exists() {
            return Err(ClientError::Profile {
                file: profile,
                why: format!("does not exist, so there is no profile `{name}`; see `sector profile list`"),
                reason: Reason::NotFound,
            });
        }
        let note = Self::home()?.join(NOTE);
        let new = note.with_extension(format!("{}.new", std::process::id()));
        let written = fs::write(&new, format!("{name}\n")).and_then(|()| fs::rename(&new, &note));
        written.map_err(|error| unusable(&note, "written", &error))
    }

    /// The file of a profile for the cloud whose master is at this address. It is `own`, which a command uses anyway, or
    /// one that has a name.
    ///
    /// # Errors
    /// When there is none: the sentence says how to get one.
    pub fn file_at(address: &HostAddress, own: &Path) -> Result<PathBuf, ClientError> {
        let is_at = |file: &Path| Self::load(file).is_ok_and(|profile| profile.address == *address);
        if is_at(own) {
            return Ok(own.into());
        }
        for name in Self::names()? {
            let file = Self::named_file(&name)?;
            if is_at(&file) {
                return Ok(file);
            }
        }
        let message = format!(
            "no profile is of the cloud at `{address}`: `sector login USER --master {address} --authority FILE --profile \
             NAME` makes one, and `sector profile add NAME FILE` takes one that you have; a folder of this name is \
             written `sector:///{address}`"
        );
        Err(ClientError::Usage(message))
    }

    /// The name by which a profile of this file can be chosen, else the file.
    pub fn shown_file(file: &Path) -> String {
        let mut names = Self::names().unwrap_or_default().into_iter();
        let name = names.find(|name| Self::named_file(name).is_ok_and(|named| named == file));
        name.unwrap_or_else(|| file.display().to_string())
    }

    /// The names of all profiles that are there, in order.
    ///
    /// # Errors
    /// When their folder cannot be read.
    pub fn names() -> Result<Vec<String>, ClientError> {
        let folder = Self::home()?.join(FOLDER);
        let mut names = Vec::new();
        match fs::read_dir(&folder) {
            Ok(entries) => {
                let files = entries.filter_map(Result::ok).filter_map(|entry| entry.file_name().into_string().ok());
                names.extend(files.filter_map(|file| file.strip_suffix(".toml").map(ToOwned::to_owned)));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(unusable(&folder, "read", &error)),
        }
        names.retain(|name| is_name(name) && name != DEFAULT_PROFILE);
        if Self::named_file(DEFAULT_PROFILE)?.exists() {
            names.push(DEFAULT_PROFILE.into());
        }
        names.sort();
        Ok(names)
    }
}

fn is_name(text: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    (1..=NAME_BYTES_MAX).contains(&text.len())
        && text.bytes().all(is_letter)
        && !text.starts_with(['-', '_', '.'])
        && !text.ends_with(".toml")
}

fn unusable(file: &Path, how: &str, error: &io::Error) -> ClientError {
    ClientError::Profile { file: file.into(), why: format!("cannot be {how}: {error}"), reason: Reason::Failed }
}

/// The folder of named profiles in `$SECTOR_HOME`.
const FOLDER: &str = "profiles";
/// The note in `$SECTOR_HOME` with the name of the profile in use.
const NOTE: &str = "profile-in-use";
/// Longest name.
const NAME_BYTES_MAX: usize = 64;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_name_is_told_from_a_path() {
        for name in ["chicago", "a.b-c_1", "default"] {
            assert!(is_name(name), "{name}");
        }
        let long = "a".repeat(NAME_BYTES_MAX + 1);
        for path in ["", "a/b", "./a", "a.toml", ".hidden", "-x", "a b", "ä", &long] {
            assert!(!is_name(path), "{path}");
            assert_eq!(Profile::chosen_file(Path::new(path)).unwrap(), Path::new(path));
            assert!(Profile::named_file(path).is_err(), "{path}");
        }
    }
}
