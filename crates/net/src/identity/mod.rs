//! Identity: the cloud's certificate authority ([`Authority`]), keys that request certificates ([`NewKey`]), and TLS
//! configuration ([`TlsIdentity`]). Also transfer tickets ([`TicketSigner`], [`is_signed`]) and their holders
//! ([`HolderKeyPair`], [`Bearer`]). It serves every door with a socket (architecture, Doors 2 to 6; Sector/Sphere
//! paper, 2.3 and 2.4). It takes and returns PEM texts and never touches files. It never decides who may do what, and
//! never trusts a foreign certificate.

mod authority;
mod authority_pinning;
mod certificate_request;
mod holder;
mod ticket_signature;
mod tls;
mod validity;

use std::fmt;

use ring::{
    digest::{SHA256, digest},
    rand::{SecureRandom, SystemRandom},
};
use rustls::pki_types::{CertificateDer, pem::PemObject};

pub use authority::{Authority, Subject};
pub use certificate_request::{NewKey, ProvedKey, key_digest, ticket_digest};
pub use holder::{Bearer, HolderKeyPair};
pub use ticket_signature::{TicketSigner, is_signed};
pub(crate) use tls::server_name;
pub use tls::{PeerCertificate, TlsIdentity};
pub use validity::{RenewalState, Validity};

use crate::NetError;

/// PEM texts of one role's certificate chain and private key.
#[derive(Clone)]
pub struct Credentials {
    /// The certificate, PEM.
    pub certificate_pem: String,
    /// Its private key, PKCS#8 in PEM. It belongs in a file that only the role can read.
    pub key_pem: String,
}

impl fmt::Debug for Credentials {
    /// Shows that there are credentials, but never the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials(…)")
    }
}

/// SHA-256 of the first certificate of a PEM text, as [`TransferStream::peer_fingerprint`] reports it for peers.
///
/// # Errors
/// [`NetError::Certificate`] when the text holds no certificate.
///
/// [`TransferStream::peer_fingerprint`]: crate::transfer::TransferStream::peer_fingerprint
pub fn fingerprint(certificate_pem: &str) -> Result<[u8; 32], NetError> {
    Ok(fingerprint_of(&certificate(certificate_pem, "read a certificate")?))
}

/// Random bytes from the system, for ids, tokens and keys.
///
/// # Panics
/// When the system's random generator fails, which Linux rules out once it has booted.
pub fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    // Without randomness we would hand out keys that can be guessed: stopping is the only safe answer.
    #[allow(clippy::expect_used)]
    SystemRandom::new().fill(&mut bytes).expect("the system gives random bytes");
    bytes
}

/// SHA-256 of a certificate.
pub(crate) fn fingerprint_of(certificate: &CertificateDer<'_>) -> [u8; 32] {
    sha256(certificate)
}

/// The first certificate of a PEM text.
fn certificate(pem: &str, operation: &'static str) -> Result<CertificateDer<'static>, NetError> {
    CertificateDer::from_pem_slice(pem.as_bytes()).map_err(|error| certificate_error(operation, error))
}

/// Stands in for the certificate of a role on a connection in memory.
pub(crate) fn role_digest(role: &str) -> [u8; 32] {
    sha256(role.as_bytes())
}

/// SHA-256 as an array.
fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut out = [0; 32];
    out.copy_from_slice(digest(&SHA256, bytes).as_ref());
    out
}

/// A [`NetError::Certificate`] from a library's error.
fn certificate_error(operation: &'static str, why: impl fmt::Display) -> NetError {
    NetError::Certificate { operation, why: why.to_string() }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_fingerprint_is_the_sha_256_of_the_certificate_and_of_nothing_else() {
        let credentials = Authority::create("cloud").unwrap().issue("node-1").unwrap();
        let der = CertificateDer::from_pem_slice(credentials.certificate_pem.as_bytes()).unwrap();
        assert_eq!(fingerprint(&credentials.certificate_pem).unwrap(), sha256(&der));
        assert!(fingerprint(&credentials.key_pem).is_err());
        assert!(fingerprint("").is_err());
    }

    #[test]
    fn the_digest_is_sha_256() {
        // FIPS 180-2, appendix B.1: the digest of "abc" begins like this.
        assert_eq!(sha256(b"abc")[..8], [0xba, 0x78, 0x16, 0xbf, 0x8f, 0x01, 0xcf, 0xea]);
    }

    #[test]
    fn credentials_never_show_their_key() {
        let credentials = Authority::create("cloud").unwrap().issue("master").unwrap();
        assert_eq!(format!("{credentials:?}"), "Credentials(…)");
    }

    #[test]
    fn random_bytes_differ() {
        assert_ne!(random::<16>(), random::<16>());
    }
}
