//! The secrets of access keys. A door must know a secret itself to check a signature, so it cannot be a digest that is kept.
//! Secret and token are made from the id and what only this server has, and can be made again. They are never stored.

use std::fmt;

use data_encoding::BASE64URL_NOPAD;

/// Makes the secrets of access keys.
#[derive(Clone)]
pub struct AccessKeySecrets {
    root: [u8; 32],
}

impl AccessKeySecrets {
    /// From what only this server knows, and always will: its authority's private key.
    pub fn new(known: &[u8]) -> Self {
        Self { root: blake3::derive_key("Sector 2026-11 secrets of access keys", known) }
    }

    /// What requests are signed with.
    pub(crate) fn secret(&self, id: &str) -> String {
        BASE64URL_NOPAD.encode(&self.derive("secret", id)[..SECRET_BYTES])
    }

    /// What logs the user in.
    pub(crate) fn token(&self, id: &str) -> [u8; 32] {
        self.derive("token", id)
    }

    fn derive(&self, what: &str, id: &str) -> [u8; 32] {
        *blake3::keyed_hash(&self.root, format!("{what} of {id}").as_bytes()).as_bytes()
    }
}

impl fmt::Debug for AccessKeySecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AccessKeySecrets(…)")
    }
}

/// Of the secret: 40 letters, as clients expect.
const SECRET_BYTES: usize = 30;
