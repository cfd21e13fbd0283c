//! The stored form of what proves a user, and how it is compared. Passwords are kept as argon2id hashes, tokens as
//! BLAKE3 digests; neither can be reversed. Comparing takes as long for a wrong secret as for a right one, and as long
//! for an unknown user as for a known one. Neither hashes nor secrets are ever printed: their debug output never shows
//! them.

use std::fmt;

use argon2::{
    Algorithm, Argon2, Params, Version,
    password_hash::{PasswordHasher, PasswordVerifier, phc},
};
use protocol::{CredentialId, message::join::Secret};
use serde::{Deserialize, Serialize};

use crate::SecurityError;

/// The hash of a password, with its salt and cost (a PHC string).
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PasswordHash(String);

/// The digest of a token. A token has 32 random bytes, which nobody can guess, so a fast digest without salt is enough.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenHash([u8; 32]);

/// A password that is still to be hashed, which takes some ten milliseconds of a processor and 19 MiB.
pub struct PasswordHashing(String);

/// A comparison that is still to be made; for a password it takes some ten milliseconds of a processor and 19 MiB. The
/// [rules](crate::rules) ask for it; the [server](crate::server) runs it where it delays nobody.
pub struct Verification {
    secret: Secret,
    against: Against,
}

impl PasswordHash {
    /// Hashes a new password, with a salt of its own.
    pub fn new(password: &str) -> Result<Self, SecurityError> {
        check_length(password)?;
        let failed = |error: &dyn fmt::Display| SecurityError::Hash(error.to_string());
        let params = Params::new(MEMORY_KIB, PASSES, LANES, None).map_err(|error| failed(&error))?;
        let hasher = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
        let hash: phc::PasswordHash = hasher.hash_password(password.as_bytes()).map_err(|error| failed(&error))?;
        Ok(Self(hash.to_string()))
    }

    /// Whether it was made with the current costs.
    fn is_current(&self) -> bool {
        phc::PasswordHash::new(&self.0).is_ok_and(|hash| {
            let is_one = |name, value| hash.params.get_decimal(name) == Some(value);
            hash.algorithm.as_str() == "argon2id"
                && is_one("m", MEMORY_KIB)
                && is_one("t", PASSES)
                && is_one("p", LANES)
        })
    }

    /// Whether this is the hash of `password`.
    fn matches(&self, password: &str) -> bool {
        // Longer than any accepted password; the answer depends on the guess alone, so it reveals nothing.
        if password.len() > PASSWORD_BYTES_MAX {
            return false;
        }
        // Cost and salt are those of the stored hash.
        phc::PasswordHash::new(&self.0)
            .is_ok_and(|hash| Argon2::default().verify_password(password.as_bytes(), &hash).is_ok())
    }
}

impl PasswordHashing {
    /// Takes a password, if its length is allowed.
    pub fn new(password: String) -> Result<Self, SecurityError> {
        check_length(&password)?;
        Ok(Self(password))
    }

    /// Hashes it.
    pub fn run(self) -> Result<PasswordHash, SecurityError> {
        PasswordHash::new(&self.0)
    }
}

fn check_length(password: &str) -> Result<(), SecurityError> {
    if (PASSWORD_BYTES_MIN..=PASSWORD_BYTES_MAX).contains(&password.len()) {
        return Ok(());
    }
    Err(SecurityError::PasswordLength { least: PASSWORD_BYTES_MIN, most: PASSWORD_BYTES_MAX })
}

impl TokenHash {
    /// The digest of a token.
    pub fn new(token: &[u8; 32]) -> Self {
        Self(*blake3::hash(token).as_bytes())
    }

    /// An id for a token that was made before tokens had ids: part of the digest, which reveals nothing of the token.
    pub fn derived_id(&self) -> CredentialId {
        let [a, b, c, d, e, f, g, h, ..] = self.0;
        CredentialId(u64::from_be_bytes([a, b, c, d, e, f, g, h]).max(1))
    }

    /// Whether this is the digest of `token`, in constant time.
    fn matches(&self, token: &[u8; 32]) -> bool {
        // `blake3::Hash` compares in constant time; arrays of bytes do not.
        blake3::hash(token) == blake3::Hash::from_bytes(self.0)
    }
}

impl Verification {
    /// Compares `secret` with what is stored of a user; `password` and `tokens` may be decoys that no secret matches.
    pub fn new(secret: Secret, password: &PasswordHash, tokens: Vec<(CredentialId, TokenHash)>) -> Self {
        let against = match &secret {
            Secret::Password(_) => Against::Password(password.clone()),
            Secret::Token(_) => Against::Tokens(tokens),
        };
        Self { secret, against }
    }

    /// Makes the comparison; `None` where nothing matches.
    pub fn run(self) -> Option<SecretMatch> {
        match (&self.secret, &self.against) {
            (Secret::Password(password), Against::Password(hash)) if hash.matches(password) => {
                // A failure costs the upgrade, not the login.
                let rehashed = if hash.is_current() { None } else { PasswordHash::new(password).ok() };
                Some(SecretMatch { credential: CredentialId(0), rehashed })
            }
            // Every token is compared, also after a match: the time must not say which it was.
            (Secret::Token(token), Against::Tokens(tokens)) => {
                let matching =
                    |found, (id, hash): &(CredentialId, TokenHash)| if hash.matches(token) { Some(*id) } else { found };
                tokens.iter().fold(None, matching).map(|credential| SecretMatch { credential, rehashed: None })
            }
            _ => None,
        }
    }
}

/// A secret that was right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretMatch {
    /// Which token it was; 0 for the password.
    pub credential: CredentialId,
    /// The password hashed anew, if it was stored with other costs than the current ones.
    pub rehashed: Option<PasswordHash>,
}

impl fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PasswordHash(…)")
    }
}

impl fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenHash(…)")
    }
}

impl fmt::Debug for PasswordHashing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hashing(…)")
    }
}

impl fmt::Debug for Verification {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Verification(…)")
    }
}

enum Against {
    Password(PasswordHash),
    Tokens(Vec<(CredentialId, TokenHash)>),
}

/// Fewest bytes of a password, as commonly recommended.
pub const PASSWORD_BYTES_MIN: usize = 8;
/// Most bytes of a password: more than any phrase, little enough to hash at once.
pub const PASSWORD_BYTES_MAX: usize = 1_024;
/// Memory of one argon2id hash in KiB: with the two below, the first choice of OWASP's password storage cheat sheet.
const MEMORY_KIB: u32 = 19 * 1_024;
/// Passes over that memory.
const PASSES: u32 = 2;
/// Lanes: one, since a login has one processor.
const LANES: u32 = 1;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn password(text: &str) -> Secret {
        Secret::Password(text.into())
    }

    #[test]
    fn a_password_matches_its_own_hash_only() {
        let hash = PasswordHash::new("correct horse").unwrap();
        let run = |guess| Verification::new(password(guess), &hash, vec![]).run().is_some();
        assert!(run("correct horse"));
        for guess in ["", "correct", "correct horse ", "Correct horse", &"x".repeat(PASSWORD_BYTES_MAX + 1)] {
            assert!(!run(guess), "{guess:?}");
        }
        assert!(hash.0.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{}", hash.0);
        assert_ne!(hash, PasswordHash::new("correct horse").unwrap(), "each hash has its own salt");
    }

    #[test]
    fn a_password_of_a_senseless_length_is_not_taken() {
        assert!(PasswordHash::new("1234567").is_err());
        assert!(PasswordHash::new(&"x".repeat(PASSWORD_BYTES_MAX + 1)).is_err());
    }

    #[test]
    fn any_of_the_tokens_matches_and_no_other() {
        let hash = PasswordHash(String::new());
        let tokens = [1, 2].map(|byte| (CredentialId(byte.into()), TokenHash::new(&[byte; 32]))).to_vec();
        let run = |token| Verification::new(Secret::Token(token), &hash, tokens.clone()).run();
        for byte in [1, 2] {
            assert_eq!(run([byte; 32]).map(|found| found.credential), Some(CredentialId(byte.into())));
        }
        assert_eq!(run([3; 32]), None);
        assert_eq!(Verification::new(Secret::Token([1; 32]), &hash, vec![]).run(), None);
    }

    #[test]
    fn the_text_of_a_stored_hash_is_no_password_and_a_broken_hash_matches_nothing() {
        let hash = PasswordHash::new("correct horse").unwrap();
        assert_eq!(Verification::new(password(&hash.0), &hash, vec![]).run(), None);
        let broken = PasswordHash("$argon2id$".into());
        assert_eq!(Verification::new(password("correct horse"), &broken, vec![]).run(), None);
    }

    #[test]
    fn a_hash_of_other_costs_still_matches_and_is_made_anew_at_the_login() {
        let params = Params::new(8, 1, 1, None).unwrap();
        let cheap: phc::PasswordHash =
            Argon2::new(Algorithm::Argon2id, Version::V0x13, params).hash_password(b"correct horse").unwrap();
        let cheap = PasswordHash(cheap.to_string());
        let run = |guess, hash: &PasswordHash| Verification::new(password(guess), hash, vec![]).run();
        assert_eq!(run("wrong horse", &cheap), None);
        let rehashed = run("correct horse", &cheap).unwrap().rehashed.expect("a new hash");
        assert!(rehashed.0.contains("m=19456,t=2,p=1"), "{}", rehashed.0);
        assert_eq!(run("correct horse", &rehashed).unwrap().rehashed, None);
    }

    #[test]
    fn nothing_secret_is_printed() {
        let hash = PasswordHash::new("correct horse").unwrap();
        let shown = format!("{:?} {:?}", hash, Verification::new(password("correct horse"), &hash, vec![]));
        assert!(!shown.contains("horse") && !shown.contains("argon2"), "{shown}");
    }
}
