//! The keys with which a provider signs its tokens (RFC 7517), and for how long they are trusted. Pure. A key is never
//! used for any algorithm but the one of its type, whatever a token says of itself.

use std::time::Duration;

use data_encoding::BASE64URL_NOPAD;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey,
};
use serde::Deserialize;

/// A provider's keys, as last fetched.
#[derive(Debug, Default)]
pub(super) struct Keys {
    keys: Vec<Key>,
    /// When they were fetched, on a clock that only goes forward.
    fetched: Option<Duration>,
}

/// A key that signs tokens.
#[derive(Debug)]
struct Key {
    id: Option<String>,
    material: Material,
}

#[derive(Debug)]
enum Material {
    Rsa { n: Vec<u8>, e: Vec<u8> },
    P256(Vec<u8>),
    Ed25519(Vec<u8>),
}

/// How a token is signed. There is no "none", and no algorithm for which a public key could serve as the secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Algorithm {
    Rs256,
    Es256,
    EdDsa,
}

impl Algorithm {
    /// By its name in a token (RFC 7518, 3.1).
    pub(super) fn named(name: &str) -> Option<Self> {
        match name {
            "RS256" => Some(Self::Rs256),
            "ES256" => Some(Self::Es256),
            "EdDSA" => Some(Self::EdDsa),
            _ => None,
        }
    }
}

impl Keys {
    /// Reads a set of keys; those for other purposes are left out.
    pub(super) fn parse(json: &str, now: Duration) -> Result<Self, String> {
        let set: JwkSet = serde_json::from_str(json).map_err(|error| format!("its keys cannot be read: {error}"))?;
        if set.keys.len() > KEYS_MAX {
            return Err(format!("it has {} keys, and {KEYS_MAX} are taken", set.keys.len()));
        }
        let keys: Vec<_> = set.keys.into_iter().filter_map(key).collect();
        if keys.is_empty() {
            return Err("it has no key for RS256, ES256 or EdDSA".into());
        }
        Ok(Self { keys, fetched: Some(now) })
    }

    /// Whether they should be fetched before a token is checked.
    pub(super) fn are_old(&self, now: Duration) -> bool {
        self.fetched.is_none_or(|fetched| now.saturating_sub(fetched) >= KEYS_AGE_MAX)
    }

    /// Whether they may be fetched because a token names an unknown key. This is not done for every such token:
    /// otherwise anyone who makes up tokens could make us ask the provider as often.
    pub(super) fn may_be_refetched(&self, now: Duration) -> bool {
        self.fetched.is_none_or(|fetched| now.saturating_sub(fetched) >= REFETCH_PAUSE)
    }

    /// Whether `signature` of `message` is by the key of this id; without an id, by the only key for the algorithm.
    /// `None` if there is no such key.
    pub(super) fn verify(
        &self,
        algorithm: Algorithm,
        id: Option<&str>,
        message: &[u8],
        signature: &[u8],
    ) -> Option<bool> {
        let mut fitting = self.keys.iter().filter(|key| key.material.is_for(algorithm));
        let key = match id {
            Some(id) => fitting.find(|key| key.id.as_deref() == Some(id))?,
            None => match (fitting.next(), fitting.next()) {
                (Some(key), None) => key,
                _ => return None,
            },
        };
        Some(key.material.verify(message, signature))
    }
}

impl Material {
    fn is_for(&self, algorithm: Algorithm) -> bool {
        matches!(
            (self, algorithm),
            (Self::Rsa { .. }, Algorithm::Rs256)
                | (Self::P256(_), Algorithm::Es256)
                | (Self::Ed25519(_), Algorithm::EdDsa)
        )
    }

    fn verify(&self, message: &[u8], signature: &[u8]) -> bool {
        let result = match self {
            Self::Rsa { n, e } => {
                RsaPublicKeyComponents { n, e }.verify(&RSA_PKCS1_2048_8192_SHA256, message, signature)
            }
            Self::P256(point) => UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(message, signature),
            Self::Ed25519(point) => UnparsedPublicKey::new(&ED25519, point).verify(message, signature),
        };
        result.is_ok()
    }
}

/// A set of keys in its written form. Fields that are not named here are ignored.
#[derive(Deserialize)]
struct JwkSet {
    keys: Vec<Jwk>,
}

#[derive(Deserialize)]
struct Jwk {
    kty: String,
    kid: Option<String>,
    #[serde(rename = "use")]
    purpose: Option<String>,
    alg: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

fn key(written: Jwk) -> Option<Key> {
    if written.purpose.is_some_and(|purpose| purpose != "sig") {
        return None;
    }
    let bytes = |text: Option<String>| BASE64URL_NOPAD.decode(text?.as_bytes()).ok();
    let material = match (written.kty.as_str(), written.crv.as_deref()) {
        ("RSA", _) => Material::Rsa { n: bytes(written.n)?, e: bytes(written.e)? },
        ("EC", Some("P-256")) => {
            let (x, y) = (bytes(written.x)?, bytes(written.y)?);
            // An uncompressed point, SEC 1, 2.3.3.
            Material::P256([&[4], x.as_slice(), y.as_slice()].concat())
        }
        ("OKP", Some("Ed25519")) => Material::Ed25519(bytes(written.x)?),
        _ => return None,
    };
    // A key that states its purpose is used for nothing else.
    let is_named = |algorithm| material.is_for(algorithm);
    if written.alg.is_some_and(|name| !Algorithm::named(&name).is_some_and(is_named)) {
        return None;
    }
    Some(Key { id: written.kid, material })
}

/// Most keys of a provider: a few, and those that are being replaced.
const KEYS_MAX: usize = 64;
/// After this long, keys are fetched again: a key that the provider withdrew is trusted no longer than this.
const KEYS_AGE_MAX: Duration = Duration::from_secs(3_600);
/// Shortest time between two fetches.
const REFETCH_PAUSE: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const KEY: &str = r#"{"kty":"OKP","crv":"Ed25519","kid":"a","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}"#;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn keys_are_fetched_again_after_an_hour_and_for_unknown_ones_once_a_minute() {
        let keys = Keys::default();
        assert!(keys.are_old(at(0)) && keys.may_be_refetched(at(0)));
        let keys = Keys::parse(&format!(r#"{{"keys":[{KEY}]}}"#), at(100)).unwrap();
        assert!(!keys.are_old(at(3_699)) && keys.are_old(at(3_700)));
        assert!(!keys.may_be_refetched(at(159)) && keys.may_be_refetched(at(160)));
    }

    #[test]
    fn keys_for_something_else_are_left_out_and_their_number_is_bounded() {
        let others = [
            KEY.replace("\"kid\"", "\"use\":\"enc\",\"kid\""),
            KEY.replace("\"kid\"", "\"alg\":\"HS256\",\"kid\""),
            KEY.replace("\"kid\"", "\"alg\":\"RS256\",\"kid\""),
            KEY.replace("Ed25519", "X25519"),
            r#"{"kty":"oct","k":"AAAA"}"#.to_owned(),
            r#"{"kty":"RSA","n":"!","e":"AQAB"}"#.to_owned(),
        ];
        let set = format!(r#"{{"keys":[{}]}}"#, others.join(","));
        assert!(Keys::parse(&set, at(0)).unwrap_err().contains("no key"), "{set}");
        let many = vec![KEY; KEYS_MAX + 1].join(",");
        assert!(Keys::parse(&format!(r#"{{"keys":[{many}]}}"#), at(0)).unwrap_err().contains("65 keys"));
        assert!(Keys::parse("<html>", at(0)).is_err());
    }
}
