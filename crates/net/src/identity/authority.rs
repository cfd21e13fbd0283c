//! The cloud's own certificate authority, kept by the security server. It issues the certificates by which roles know
//! each other. There is one self-signed certificate, ECDSA P-256, and no intermediate ones.
//!
//! It never gives its key to anyone but its keeper, and never issues for a name that it cannot write down
//! unambiguously.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PublicKeyData, SerialNumber, date_time_ymd,
};
use rustls::RootCertStore;

use protocol::limits;

use super::{Credentials, ProvedKey, certificate, certificate_error, random, tls::dns_name};
use crate::NetError;

/// The cloud's certificate authority: one self-signed ECDSA P-256 certificate and its key.
pub struct Authority {
    certificate_pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// Makes a new authority for a cloud, valid for ten years from yesterday.
    ///
    /// # Errors
    /// [`NetError::Certificate`] when `cloud` is empty or longer than 64 bytes.
    pub fn create(cloud: &str) -> Result<Self, NetError> {
        let operation = "make the cloud's authority";
        if cloud.is_empty() || cloud.len() > limits::NAME_BYTES_MAX {
            return Err(certificate_error(operation, "the cloud's name must have 1 to 64 bytes"));
        }
        let fail = |error: rcgen::Error| certificate_error(operation, error);
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(fail)?;
        let mut params = authority_params(cloud);
        set_life(&mut params, AUTHORITY_LIFE, now(operation)?);
        let certificate_pem = params.self_signed(&key).map_err(fail)?.pem();
        Ok(Self { certificate_pem, issuer: Issuer::new(params, key) })
    }

    /// Loads an authority that [`Authority::create`] made, so that it can issue again.
    ///
    /// # Errors
    /// [`NetError::Certificate`] when a text does not parse, the key is not the certificate's, or the certificate was
    /// not made here.
    pub fn from_pem(certificate_pem: &str, key_pem: &str) -> Result<Self, NetError> {
        let operation = "load the cloud's authority";
        let key = KeyPair::from_pem(key_pem).map_err(|error| certificate_error(operation, error))?;
        let mut roots = RootCertStore::empty();
        roots.add(certificate(certificate_pem, operation)?).map_err(|error| certificate_error(operation, error))?;
        let Some(root) = roots.roots.first() else {
            return Err(certificate_error(operation, "the text holds no certificate"));
        };
        // rustls keeps the content of the public key's outermost SEQUENCE, without its tag and length.
        if !key.subject_public_key_info().ends_with(&root.subject_public_key_info) {
            return Err(certificate_error(operation, "the key does not belong to the certificate"));
        }
        let Some(cloud) = common_name(&root.subject) else {
            return Err(certificate_error(operation, "the certificate was not made by sector"));
        };
        Ok(Self { certificate_pem: certificate_pem.to_owned(), issuer: Issuer::new(authority_params(cloud), key) })
    }

    /// The authority's certificate, which everyone in the cloud trusts.
    pub fn certificate_pem(&self) -> &str {
        &self.certificate_pem
    }

    /// The authority's private key, PKCS#8 in PEM. Whoever has it can impersonate anyone.
    pub fn key_pem(&self) -> String {
        self.issuer.key().serialize_pem()
    }

    /// A certificate for server and client use, with a new key. Its DNS name is `role` ("master", "security", or a node
    /// id) followed by ".sector". It is valid from yesterday until [`limits::CERTIFICATE_LIFE`] from now. A name that
    /// is not a lower-case DNS label is replaced by its digest.
    ///
    /// # Errors
    /// [`NetError::Certificate`] when `role` is empty or longer than 64 bytes.
    pub fn issue(&self, role: &str) -> Result<Credentials, NetError> {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(|error| certificate_error(ISSUE, error))?;
        let certificate_pem = self.sign(&Subject { name: role, role }, &key, limits::CERTIFICATE_LIFE)?;
        Ok(Credentials { certificate_pem, key_pem: key.serialize_pem() })
    }

    /// The same with a life of `life`, for a key whose owner made it and keeps the private half.
    ///
    /// # Errors
    /// [`NetError::Certificate`] when a name of `subject` is empty or longer than 64 bytes.
    pub fn certify(&self, subject: &Subject<'_>, key: &ProvedKey, life: Duration) -> Result<String, NetError> {
        self.sign(subject, key, life)
    }

    fn sign(&self, subject: &Subject<'_>, key: &impl PublicKeyData, life: Duration) -> Result<String, NetError> {
        if [subject.name, subject.role].iter().any(|name| name.is_empty() || name.len() > limits::NAME_BYTES_MAX) {
            return Err(certificate_error(ISSUE, "the role's name must have 1 to 64 bytes"));
        }
        let fail = |error: rcgen::Error| certificate_error(ISSUE, error);
        let mut params = CertificateParams::new([dns_name(subject.role)]).map_err(fail)?;
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, subject.name);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        params.use_authority_key_identifier_extension = true;
        // Otherwise rcgen derives it from the key, and a key's second certificate would have the number of its first.
        params.serial_number = Some(SerialNumber::from_slice(&random::<16>()));
        set_life(&mut params, life, now(ISSUE)?);
        Ok(params.signed_by(key, &self.issuer).map_err(fail)?.pem())
    }
}

/// The subject of a certificate.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The machine's own name, for people.
    pub name: &'a str,
    /// The name that its callers expect: the name of a node, "master" for every master, "security".
    pub role: &'a str,
}

/// The content of every authority's certificate, except its life.
fn authority_params(cloud: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, cloud);
    // No certificate below it may itself issue.
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    params
}

/// Makes a certificate valid from a day before `now` for `life`. Machines whose clock is late accept it too.
fn set_life(params: &mut CertificateParams, life: Duration, now: Duration) {
    let epoch = date_time_ymd(1970, 1, 1);
    params.not_before = epoch + now.saturating_sub(CLOCK_SKEW);
    params.not_after = epoch + now + life;
}

/// Time since the Unix epoch.
fn now(operation: &'static str) -> Result<Duration, NetError> {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_err(|_| certificate_error(operation, "this machine's clock stands before 1970; set it"))
}

/// The common name in a subject of the one shape that [`authority_params`] gives: SET { SEQUENCE { OID commonName,
/// UTF8String } }. Each part is shorter than 128 bytes, so every length is one byte.
fn common_name(subject: &[u8]) -> Option<&str> {
    // Some parsers keep the outer SEQUENCE around the SET, some do not.
    let name = match subject {
        [0x30, bytes, rest @ ..] if usize::from(*bytes) == rest.len() => rest,
        other => other,
    };
    let [0x31, set_bytes, 0x30, sequence_bytes, 0x06, 3, 0x55, 4, 3, 0x0c, bytes, text @ ..] = name else {
        return None;
    };
    let length = text.len();
    let fits = usize::from(*bytes) == length
        && usize::from(*sequence_bytes) == length + 7
        && usize::from(*set_bytes) == length + 9
        && (1..=limits::NAME_BYTES_MAX).contains(&length);
    if fits { std::str::from_utf8(text).ok() } else { None }
}

/// Life of an authority: as long as a machine lives, since changing it means editing every profile.
const AUTHORITY_LIFE: Duration = Duration::from_secs(10 * 365 * 24 * 3600);
const ISSUE: &str = "issue a certificate";
/// How far another machine's clock may be behind ours.
pub(super) const CLOCK_SKEW: Duration = Duration::from_secs(24 * 3600);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::identity::TlsIdentity;

    #[test]
    fn an_authority_taken_up_again_issues_what_the_first_one_would() {
        for cloud in ["c", "Größe 1", &"x".repeat(64)] {
            let first = Authority::create(cloud).unwrap();
            let again = Authority::from_pem(first.certificate_pem(), &first.key_pem()).unwrap();
            assert_eq!(again.certificate_pem(), first.certificate_pem());
            assert_eq!(again.key_pem(), first.key_pem());
            let issued = again.issue("node-1").unwrap();
            TlsIdentity::role(first.certificate_pem(), &issued).unwrap();
        }
    }

    #[test]
    fn a_key_of_another_authority_is_refused() {
        let (one, other) = (Authority::create("one").unwrap(), Authority::create("one").unwrap());
        let error = Authority::from_pem(one.certificate_pem(), &other.key_pem()).err().unwrap();
        assert_eq!(error.to_string(), "cannot load the cloud's authority: the key does not belong to the certificate");
    }

    #[test]
    fn texts_that_are_no_certificate_or_key_are_refused() {
        let authority = Authority::create("cloud").unwrap();
        assert!(Authority::from_pem("", &authority.key_pem()).is_err());
        assert!(Authority::from_pem(authority.certificate_pem(), "").is_err());
        assert!(Authority::from_pem(&authority.key_pem(), authority.certificate_pem()).is_err());
    }

    #[test]
    fn a_name_that_is_empty_or_too_long_gets_no_certificate() {
        let authority = Authority::create("cloud").unwrap();
        let too_long = "x".repeat(65);
        for name in ["", &too_long] {
            assert!(authority.issue(name).is_err());
            assert!(Authority::create(name).is_err());
        }
    }

    #[test]
    fn a_subject_cut_short_or_of_another_shape_has_no_common_name() {
        let good = [&[0x31, 11, 0x30, 9, 6, 3, 0x55, 4, 3, 0x0c, 2][..], b"ab"].concat();
        assert_eq!(common_name(&good), Some("ab"));
        for cut in 0..good.len() {
            assert_eq!(common_name(&good[..cut]), None);
        }
        for at in 0..11 {
            let mut bad = good.clone();
            bad[at] ^= 1;
            assert_eq!(common_name(&bad), None, "byte {at}");
        }
    }
}
