//! A key pair that its owner makes and keeps, and the request that takes the public half to the cloud's authority
//! ([`protocol::message::admission::CertificateRequest`]). It serves joining machines and renewing certificates. The
//! request is four numbers of 32 bytes, not a request in ASN.1. So a stranger's bytes meet no parser before their
//! signature was checked. The private key never leaves [`NewKey`] except as its owner's file.

use std::fmt;

use protocol::{KeyDigest, NodeId, TicketSecret, message::admission::CertificateRequest};
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256, PublicKeyData, SignatureAlgorithm};
use ring::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, UnparsedPublicKey},
};

use super::{Credentials, certificate_error, sha256};
use crate::NetError;

/// A new key pair that has no certificate yet.
pub struct NewKey {
    pair: KeyPair,
}

/// A public key whose owner has proved that it has the private half.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ProvedKey {
    /// The uncompressed point: 4, then both coordinates.
    point: [u8; POINT_BYTES],
}

impl NewKey {
    /// Makes a key pair, ECDSA over P-256.
    ///
    /// # Errors
    /// [`NetError::Certificate`] when the system gives no random bytes.
    pub fn generate() -> Result<Self, NetError> {
        let pair = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(|error| certificate_error(MAKE, error))?;
        Ok(Self { pair })
    }

    /// Loads a key pair from a file. So a machine that waits for a certificate asks with the same key after a restart.
    ///
    /// # Errors
    /// [`NetError::Certificate`] when the text is no such key.
    pub fn from_pem(key_pem: &str) -> Result<Self, NetError> {
        let pair = KeyPair::from_pem_and_sign_algo(key_pem, &PKCS_ECDSA_P256_SHA256)
            .map_err(|error| certificate_error("read the private key", error))?;
        Ok(Self { pair })
    }

    /// Asks for a certificate of this name; `None` where the cloud is to choose one.
    ///
    /// # Errors
    /// [`NetError::Certificate`] when the signature cannot be made.
    pub fn request(&self, name: Option<&NodeId>) -> Result<CertificateRequest, NetError> {
        let random = SystemRandom::new();
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, self.pair.serialized_der(), &random)
            .map_err(|error| certificate_error(MAKE, error))?;
        let Some([x, y]) = self.pair.public_key_raw().strip_prefix(&[UNCOMPRESSED]).and_then(halves) else {
            return Err(certificate_error(MAKE, "the key has another form than expected"));
        };
        let signature =
            key.sign(&random, &signed_text(name, &x, &y)).map_err(|error| certificate_error(MAKE, error))?;
        let [r, s] = halves(signature.as_ref())
            .ok_or_else(|| certificate_error(MAKE, "the signature has another form than expected"))?;
        Ok(CertificateRequest { x, y, r, s })
    }

    /// The private key, PKCS#8 in PEM, for a file that only its owner can read.
    pub fn key_pem(&self) -> String {
        self.pair.serialize_pem()
    }

    /// The key with the certificate that was issued for it.
    pub fn with_certificate(self, certificate_pem: String) -> Credentials {
        Credentials { certificate_pem, key_pem: self.key_pem() }
    }
}

impl ProvedKey {
    /// Checks that the requester has the private key and means this name. Takes some fifty microseconds.
    ///
    /// # Errors
    /// [`NetError::Certificate`] when the point is not on the curve or the signature not of that key and name.
    pub fn check(request: &CertificateRequest, name: Option<&NodeId>) -> Result<Self, NetError> {
        let CertificateRequest { x, y, r, s } = request;
        let mut point = [UNCOMPRESSED; POINT_BYTES];
        point[1..33].copy_from_slice(x);
        point[33..].copy_from_slice(y);
        let signature = [*r, *s].concat();
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, &point[..])
            .verify(&signed_text(name, x, y), &signature)
            .map_err(|_| certificate_error("take the request for a certificate", "its proof is not of its key"))?;
        Ok(Self { point })
    }

    /// What a person compares, and what tells two keys apart.
    pub fn digest(&self) -> KeyDigest {
        digest_of(&self.point)
    }
}

/// The digest of the key in a request, whether or not the request is valid: for the machine that made it.
pub fn key_digest(request: &CertificateRequest) -> KeyDigest {
    let mut point = [UNCOMPRESSED; POINT_BYTES];
    point[1..33].copy_from_slice(&request.x);
    point[33..].copy_from_slice(&request.y);
    digest_of(&point)
}

/// The digest under which the security server knows a ticket's secret. The secret has 128 random bits that nobody
/// guesses, so a fast digest without salt is enough.
pub fn ticket_digest(secret: &TicketSecret) -> [u8; 32] {
    sha256(&[TICKET_LABEL, &secret.0[..]].concat())
}

impl PublicKeyData for ProvedKey {
    fn der_bytes(&self) -> &[u8] {
        &self.point
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &PKCS_ECDSA_P256_SHA256
    }
}

impl fmt::Debug for ProvedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ProvedKey({})", self.digest())
    }
}

fn digest_of(point: &[u8; POINT_BYTES]) -> KeyDigest {
    let digest = sha256(point);
    let mut first = [0; 16];
    first.copy_from_slice(&digest[..16]);
    KeyDigest(u128::from_be_bytes(first))
}

/// The text that the proof signs.
fn signed_text(name: Option<&NodeId>, x: &[u8; 32], y: &[u8; 32]) -> Vec<u8> {
    // The name has no zero byte, so no two names and keys give the same text.
    [PROOF_LABEL, name.map_or("", NodeId::as_str).as_bytes(), &[0], x, y].concat()
}

fn halves(bytes: &[u8]) -> Option<[[u8; 32]; 2]> {
    let (first, second) = bytes.split_at_checked(32)?;
    Some([first.try_into().ok()?, second.try_into().ok()?])
}

const MAKE: &str = "make a key";
/// Bytes of an uncompressed point of P-256.
const POINT_BYTES: usize = 65;
/// First byte of such a point (SEC 1, 2.3.3).
const UNCOMPRESSED: u8 = 4;
/// Prefix of what is signed, so that the signature is good for nothing else.
const PROOF_LABEL: &[u8] = b"sector certificate request 1\0";
/// Prefix of what a ticket's digest is computed from.
const TICKET_LABEL: &[u8] = b"sector join ticket 1\0";

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn name(text: &str) -> NodeId {
        text.parse().unwrap()
    }

    #[test]
    fn a_request_is_good_for_its_own_name_and_key_only() {
        let key = NewKey::generate().unwrap();
        let node = name("node-1");
        let request = key.request(Some(&node)).unwrap();
        let proved = ProvedKey::check(&request, Some(&node)).unwrap();
        assert_eq!(proved.digest(), key_digest(&request));
        assert!(ProvedKey::check(&request, Some(&name("node-2"))).is_err());
        assert!(ProvedKey::check(&request, None).is_err());
        let other = NewKey::generate().unwrap().request(Some(&node)).unwrap();
        let (x, y) = (other.x, other.y);
        assert!(ProvedKey::check(&CertificateRequest { x, y, ..request }, Some(&node)).is_err(), "someone else's key");
        assert!(ProvedKey::check(&key.request(None).unwrap(), None).is_ok());
    }

    #[test]
    fn a_request_with_any_bit_changed_is_refused() {
        let request = NewKey::generate().unwrap().request(None).unwrap();
        for part in 0..4 {
            for bit in 0..256 {
                let mut changed = request.clone();
                let CertificateRequest { x, y, r, s } = &mut changed;
                [x, y, r, s][part][bit / 8] ^= 1 << (bit % 8);
                assert!(ProvedKey::check(&changed, None).is_err(), "bit {bit} of part {part}");
            }
        }
        let zero = CertificateRequest { x: [0; 32], y: [0; 32], r: [0; 32], s: [0; 32] };
        assert!(ProvedKey::check(&zero, None).is_err());
    }

    #[test]
    fn a_key_taken_up_from_its_file_asks_as_the_same_key() {
        let key = NewKey::generate().unwrap();
        let again = NewKey::from_pem(&key.key_pem()).unwrap();
        assert_eq!(key_digest(&key.request(None).unwrap()), key_digest(&again.request(None).unwrap()));
        assert!(NewKey::from_pem("no key").is_err());
    }

    #[test]
    fn the_digests_of_secrets_differ_and_are_not_the_secrets() {
        let (one, other) = (ticket_digest(&TicketSecret([1; 16])), ticket_digest(&TicketSecret([2; 16])));
        assert_ne!(one, other);
        assert_ne!(one[..16], [1; 16]);
    }
}
