//! Whether an id token is valid, and whom it is about (OpenID Connect Core, 3.1.3.7; RFC 7519). Pure. A token that
//! fails in any point is rejected as a whole: it is never trusted in part.

use data_encoding::BASE64URL_NOPAD;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::keys::{Algorithm, Keys};

/// What a token must say.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expected<'a> {
    pub(super) issuer: &'a str,
    pub(super) client: &'a str,
    /// The value sent along when the login began.
    pub(super) nonce: &'a str,
    /// How far the two clocks may be apart.
    pub(super) skew_seconds: u64,
    /// Seconds since the Unix epoch.
    pub(super) now_seconds: u64,
}

/// What a token says of its user.
#[derive(Clone, Debug)]
pub(super) struct Claims {
    pub(super) subject: String,
    pub(super) others: Map<String, Value>,
}

/// Why a token is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TokenError {
    /// It names a key that we do not have: newer keys may include it.
    UnknownKey,
    /// Anything else.
    Token(&'static str),
}

/// Checks the whole token.
pub(super) fn check(token: &str, keys: &Keys, expected: Expected<'_>) -> Result<Claims, TokenError> {
    if token.len() > TOKEN_BYTES_MAX {
        return Err(TokenError::Token("it is too long"));
    }
    let mut parts = token.split('.');
    let (Some(header), Some(claims), Some(signature), None) = (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(TokenError::Token("it does not have three parts"));
    };
    let message = &token.as_bytes()[..header.len() + 1 + claims.len()];
    let header: Header = json(header)?;
    let signature = decode(signature)?;
    if header.crit.is_some() {
        return Err(TokenError::Token("it demands an extension"));
    }
    let algorithm =
        Algorithm::named(&header.alg).ok_or(TokenError::Token("it is not signed by RS256, ES256 or EdDSA"))?;
    match keys.verify(algorithm, header.kid.as_deref(), message, &signature) {
        Some(true) => {}
        Some(false) => return Err(TokenError::Token("its signature is wrong")),
        None => return Err(TokenError::UnknownKey),
    }
    // No claim is used before the signature was verified.
    check_claims(json(claims)?, expected)
}

fn check_claims(claims: RawClaims, expected: Expected<'_>) -> Result<Claims, TokenError> {
    let Expected { issuer, client, nonce, skew_seconds, now_seconds } = expected;
    if claims.iss != issuer {
        return Err(TokenError::Token("it is by another issuer"));
    }
    let for_us = match &claims.aud {
        Audience::One(one) => one == client,
        // A token that is for others too must say that we requested it.
        Audience::Several(all) => all.iter().any(|one| one == client) && (all.len() == 1 || claims.azp.is_some()),
    };
    if !for_us || claims.azp.as_deref().is_some_and(|party| party != client) {
        return Err(TokenError::Token("it is for another client"));
    }
    let (now, skew) = (now_seconds as f64, skew_seconds as f64);
    if claims.exp + skew <= now {
        return Err(TokenError::Token("it has expired"));
    }
    if claims.iat - skew > now || claims.nbf.is_some_and(|begin| begin - skew > now) {
        return Err(TokenError::Token("it is of the future; compare the clocks"));
    }
    if claims.nonce.is_some_and(|given| given != nonce) {
        return Err(TokenError::Token("it belongs to another login"));
    }
    if claims.sub.is_empty() || claims.sub.len() > SUBJECT_BYTES_MAX {
        return Err(TokenError::Token("its `sub` is empty or too long"));
    }
    Ok(Claims { subject: claims.sub, others: claims.others })
}

fn json<T: for<'a> Deserialize<'a>>(part: &str) -> Result<T, TokenError> {
    serde_json::from_slice(&decode(part)?).map_err(|_| TokenError::Token("a part of it cannot be read"))
}

fn decode(part: &str) -> Result<Vec<u8>, TokenError> {
    BASE64URL_NOPAD.decode(part.as_bytes()).map_err(|_| TokenError::Token("a part of it is no base64url"))
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    crit: Option<Value>,
}

#[derive(Deserialize)]
struct RawClaims {
    iss: String,
    sub: String,
    aud: Audience,
    azp: Option<String>,
    exp: f64,
    iat: f64,
    nbf: Option<f64>,
    nonce: Option<String>,
    #[serde(flatten)]
    others: Map<String, Value>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Audience {
    One(String),
    Several(Vec<String>),
}

/// Longest token in bytes: one with a thousand groups fits.
const TOKEN_BYTES_MAX: usize = 128 * 1024;
/// Longest `sub`, OpenID Connect Core, 2.
const SUBJECT_BYTES_MAX: usize = 255;

#[cfg(test)]
#[path = "token_tests.rs"]
mod tests;
