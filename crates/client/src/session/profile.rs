//! A profile: where the cloud is, whom to trust, and who you are. `sector up` writes one. It holds a secret, so the
//! file that is written is never readable by anyone but its owner.

use std::{
    env, fs,
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use protocol::{
    CarrierChoice, ControllerKind, CredentialId, HostAddress, JobId, Reason, UserName,
    message::{
        client_master::DriverKey,
        join::{JoinRequest, Secret},
    },
    ticket::HolderKey,
};
use serde::{Deserialize, Serialize};

use crate::ClientError;

/// What a client needs to know to log in.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Where the master is: TCP for the login, UDP for the messages after it.
    pub address: HostAddress,
    /// The user who logs in.
    pub user: UserName,
    /// The user's token, 64 hexadecimal digits.
    #[serde(with = "hexadecimal")]
    pub token: [u8; 32],
    /// The certificate of the cloud's authority, PEM.
    pub authority: String,
    /// The login session that the token belongs to; `None` for a named token.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "session_text")]
    pub session: Option<CredentialId>,
    /// Whether bytes go over the network even if a node is on this machine: to measure it, or to try it out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub over_network: bool,
    /// The detached job that the holder of `token` may drive, for the user who detached it.
    #[serde(skip)]
    pub drives: Option<JobId>,
    /// What carries bytes to and from nodes; `$SECTOR_CARRIER` and `--carrier` take precedence.
    #[serde(default, skip_serializing_if = "is_auto")]
    pub carrier: CarrierChoice,
    /// The congestion control of QUIC, if one is chosen; `$SECTOR_CONTROLLER` takes precedence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller: Option<ControllerKind>,
}

impl Profile {
    /// A user's profile without any optional value.
    pub fn of(address: impl Into<HostAddress>, user: UserName, token: [u8; 32], authority: String) -> Self {
        Self {
            address: address.into(),
            user,
            token,
            authority,
            session: None,
            over_network: false,
            drives: None,
            carrier: CarrierChoice::Auto,
            controller: None,
        }
    }

    /// `$SECTOR_HOME`, by default `~/.sector`.
    pub fn home() -> Result<PathBuf, ClientError> {
        env::var_os("SECTOR_HOME")
            .map(PathBuf::from)
            .or_else(|| env::home_dir().map(|home| home.join(".sector")))
            .ok_or_else(|| ClientError::Usage("there is no home folder; set SECTOR_HOME to a folder of yours".into()))
    }

    /// Reads a profile; unknown keys are refused.
    pub fn load(file: &Path) -> Result<Self, ClientError> {
        let error = |reason, why: String| ClientError::Profile { file: file.into(), why, reason };
        let text = fs::read_to_string(file).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => error(
                Reason::NotFound,
                "does not exist; start a cloud with `sector up`, or name a profile with --profile (`sector profile list`)".into(),
            ),
            _ => error(Reason::Failed, format!("cannot be read: {source}")),
        })?;
        Self::parse(&text).map_err(|why| error(Reason::Invalid, format!("is broken: {why}")))
    }

    /// Reads a profile's text.
    pub fn parse(text: &str) -> Result<Self, String> {
        toml::from_str(text).map_err(|source| {
            let line = source.span().map(|span| 1 + text[..span.start.min(text.len())].matches('\n').count());
            let place = line.map(|line| format!("line {line}: ")).unwrap_or_default();
            format!("{place}{}", source.message())
        })
    }

    /// The profile as the text that [`parse`](Self::parse) reads.
    pub fn to_text(&self) -> String {
        // Texts can always be written as TOML.
        #[allow(clippy::expect_used)]
        toml::to_string(self).expect("a profile is plain text")
    }

    /// Writes the profile, readable by its owner alone, whole or not at all.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn save(&self, file: &Path) -> Result<(), ClientError> {
        let failed = |source: io::Error| ClientError::Profile {
            file: file.into(),
            why: format!("cannot be written: {source}"),
            reason: Reason::Failed,
        };
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
        let mut temporary = file.as_os_str().to_owned();
        temporary.push(format!(".{}.new", std::process::id()));
        let write = || {
            // Never over an existing file: its mode would stay.
            let mut new = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
            new.write_all(self.to_text().as_bytes())?;
            new.sync_all()?;
            fs::rename(&temporary, file)?;
            fs::File::open(folder)?.sync_all()
        };
        write().map_err(|source| {
            // Best effort: it holds a token.
            let _ = fs::remove_file(&temporary);
            failed(source)
        })
    }

    /// The login request of this profile's holder, with the key that its tickets are to name.
    pub(crate) fn join_request(&self, holder: HolderKey) -> JoinRequest {
        match self.drives {
            Some(job) => JoinRequest::Driver { job, key: DriverKey(self.token), holder },
            None => JoinRequest::Client { user: self.user.clone(), secret: Secret::Token(self.token), holder },
        }
    }
}

impl std::fmt::Debug for Profile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Profile({} at {})", self.user, self.address)
    }
}

fn is_auto(carrier: &CarrierChoice) -> bool {
    *carrier == CarrierChoice::Auto
}

/// A session's id as text, or nothing.
mod session_text {
    use protocol::CredentialId;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(session: &Option<CredentialId>, to: S) -> Result<S::Ok, S::Error> {
        match session {
            Some(session) => to.collect_str(session),
            None => to.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<CredentialId>, D::Error> {
        let text = String::deserialize(from)?;
        text.parse().map(Some).map_err(D::Error::custom)
    }
}

/// A token as hexadecimal text.
mod hexadecimal {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(token: &[u8; 32], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&token.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<[u8; 32], D::Error> {
        let text = String::deserialize(from)?;
        let wrong = || D::Error::custom("`token` must have 64 hexadecimal digits");
        if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(wrong());
        }
        let mut token = [0; 32];
        for (byte, digits) in token.iter_mut().zip(text.as_bytes().chunks(2)) {
            let digits = std::str::from_utf8(digits).map_err(|_| wrong())?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_| wrong())?;
        }
        Ok(token)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn profile() -> Profile {
        let address: HostAddress = "127.0.0.1:7000".parse().unwrap();
        let ada = UserName::new("ada").unwrap();
        let session = Some(CredentialId(u64::MAX));
        Profile { session, ..Profile::of(address, ada, [0xab; 32], "-----BEGIN CERTIFICATE-----\n".into()) }
    }

    #[test]
    fn a_profile_reads_back_as_written_and_does_not_print_its_token() {
        let by_quic = Profile { carrier: CarrierChoice::Quic, controller: Some(ControllerKind::Cubic), ..profile() };
        assert!(by_quic.to_text().contains("carrier = \"quic\"\ncontroller = \"cubic\""));
        assert_eq!(Profile::parse(&by_quic.to_text()).unwrap().carrier, CarrierChoice::Quic);
        let named = profile().to_text().replace("127.0.0.1:7000", "master.example.org:7000");
        assert_eq!(Profile::parse(&named).unwrap().to_text(), named, "the name stays");
        let read = Profile::parse(&profile().to_text()).unwrap();
        assert_eq!(read.to_text(), profile().to_text());
        assert!(!format!("{read:?}").contains("abab"));
    }

    #[test]
    fn a_saved_profile_is_its_owners_alone_also_where_another_was_before() {
        use std::os::unix::fs::PermissionsExt;
        let folder = env::temp_dir().join(format!("sector-profile-{}", std::process::id()));
        let file = folder.join("profile.toml");
        fs::create_dir_all(&folder).unwrap();
        fs::write(&file, "").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        profile().save(&file).unwrap();
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(Profile::load(&file).unwrap().session, Some(CredentialId(u64::MAX)));
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "nothing else is left");
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_broken_profile_is_refused_with_the_reason() {
        let text = profile().to_text();
        for (bad, reason) in [
            (format!("{text}colour = 1\n"), "colour"),
            (format!("{text}carrier = \"pigeon\"\n"), "pigeon"),
            (text.replace("127.0.0.1:7000", "nowhere"), "address"),
            (text.replace("abab", "xyxy"), "hexadecimal"),
            (String::new(), "missing field"),
        ] {
            let error = Profile::parse(&bad).unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
    }

    #[test]
    fn a_profile_that_is_no_toml_is_refused_with_its_line() {
        let error = Profile::parse("user = \"ann\"\ngarbage here\n").unwrap_err();
        assert!(error.starts_with("line 2: ") && !error.contains('|') && !error.contains('\n'), "{error}");
    }

    #[test]
    fn a_missing_profile_says_what_to_do() {
        let error = Profile::load(Path::new("/nonexistent/profile.toml")).unwrap_err();
        assert_eq!(error.reason(), Reason::NotFound);
        assert!(error.to_string().contains("sector up"), "{error}");
    }
}
