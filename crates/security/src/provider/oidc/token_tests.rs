//! Tests of id tokens: what is taken, and every forgery we know of.

#![allow(clippy::unwrap_used)]
use std::time::Duration;

use ring::{
    hmac,
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair},
};
use serde_json::json;

use super::*;

/// A provider with an ES256 key `ec`, an EdDSA key `ed`, and a stranger's key that is not in its set.
struct Provider {
    ec: EcdsaKeyPair,
    ed: Ed25519KeyPair,
    keys: Keys,
}

fn provider() -> Provider {
    let random = SystemRandom::new();
    let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
    let ec = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
    let ec = EcdsaKeyPair::from_pkcs8(algorithm, ec.as_ref(), &random).unwrap();
    let ed = Ed25519KeyPair::from_pkcs8(Ed25519KeyPair::generate_pkcs8(&random).unwrap().as_ref()).unwrap();
    let text = |bytes: &[u8]| BASE64URL_NOPAD.encode(bytes);
    let (x, y) = ec.public_key().as_ref()[1..].split_at(32);
    let set = json!({"keys": [
        {"kty": "EC", "crv": "P-256", "kid": "ec", "x": text(x), "y": text(y), "use": "sig"},
        {"kty": "OKP", "crv": "Ed25519", "kid": "ed", "x": text(ed.public_key().as_ref()), "alg": "EdDSA"},
    ]});
    let keys = Keys::parse(&set.to_string(), Duration::ZERO).unwrap();
    Provider { ec, ed, keys }
}

fn claims() -> Value {
    json!({"iss": "https://op", "aud": "sector", "sub": "7", "exp": 1_100, "iat": 990, "nonce": "n", "name": "Al"})
}

fn part(value: &Value) -> String {
    BASE64URL_NOPAD.encode(value.to_string().as_bytes())
}

impl Provider {
    fn sign(&self, header: &Value, claims: &Value) -> String {
        let message = format!("{}.{}", part(header), part(claims));
        let signature = match header["alg"].as_str() {
            Some("EdDSA") => self.ed.sign(message.as_bytes()).as_ref().to_vec(),
            _ => self.ec.sign(&SystemRandom::new(), message.as_bytes()).unwrap().as_ref().to_vec(),
        };
        format!("{message}.{}", BASE64URL_NOPAD.encode(&signature))
    }

    fn check(&self, token: &str) -> Result<Claims, TokenError> {
        let expected =
            Expected { issuer: "https://op", client: "sector", nonce: "n", skew_seconds: 60, now_seconds: 1_000 };
        check(token, &self.keys, expected)
    }

    /// Signs the usual claims with these changed, and checks them.
    fn with(&self, changes: &Value) -> Result<Claims, TokenError> {
        let mut claims = claims();
        for (name, value) in changes.as_object().unwrap() {
            match value {
                Value::Null => drop(claims.as_object_mut().unwrap().remove(name)),
                value => claims[name] = value.clone(),
            }
        }
        self.check(&self.sign(&json!({"alg": "ES256", "kid": "ec"}), &claims))
    }
}

#[test]
fn a_token_by_a_key_of_the_provider_is_taken() {
    let provider = provider();
    for header in [json!({"alg": "ES256", "kid": "ec"}), json!({"alg": "EdDSA", "kid": "ed"}), json!({"alg": "EdDSA"})]
    {
        let claims = provider.check(&provider.sign(&header, &claims())).unwrap();
        assert_eq!((claims.subject.as_str(), &claims.others["name"]), ("7", &json!("Al")));
    }
}

#[test]
fn an_rs256_token_of_another_library_is_taken() {
    // The example of RFC 7515, appendix A.2, whose claims have no `sub`: its signature holds, its claims do not.
    let set = r#"{"keys":[{"kty":"RSA","e":"AQAB","n":"ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ"}]}"#;
    let message = "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ";
    let signature = "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw";
    let keys = Keys::parse(set, Duration::ZERO).unwrap();
    let signature = BASE64URL_NOPAD.decode(signature.as_bytes()).unwrap();
    assert_eq!(keys.verify(Algorithm::Rs256, None, message.as_bytes(), &signature), Some(true));
    assert_eq!(keys.verify(Algorithm::Rs256, None, &message.as_bytes()[1..], &signature), Some(false));
}

#[test]
fn a_token_that_is_not_signed_by_the_provider_is_worth_nothing() {
    let (stranger, provider) = (provider(), provider());
    let good = provider.sign(&json!({"alg": "ES256", "kid": "ec"}), &claims());
    let (message, signature) = good.rsplit_once('.').unwrap();
    let none = format!("{}.{}.", part(&json!({"alg": "none"})), part(&claims()));
    let wrong = TokenError::Token("its signature is wrong");
    let unsigned = TokenError::Token("it is not signed by RS256, ES256 or EdDSA");
    // The public key as the secret of an HMAC: what a library that believes the header would take.
    let hs = format!("{}.{}", part(&json!({"alg": "HS256", "kid": "ec"})), part(&claims()));
    let key = hmac::Key::new(hmac::HMAC_SHA256, provider.ec.public_key().as_ref());
    let hs = format!("{hs}.{}", BASE64URL_NOPAD.encode(hmac::sign(&key, hs.as_bytes()).as_ref()));
    let other = part(&json!({"iss": "https://op", "aud": "sector", "sub": "root", "exp": 1_100, "iat": 990}));
    let header = message.split_once('.').unwrap().0;
    for (token, expected) in [
        (none.clone(), unsigned.clone()),
        (none.replace(&part(&json!({"alg": "none"})), &part(&json!({"alg": "None"}))), unsigned.clone()),
        (hs, unsigned),
        (stranger.sign(&json!({"alg": "ES256", "kid": "ec"}), &claims()), wrong.clone()),
        (format!("{header}.{other}.{signature}"), wrong.clone()),
        (format!("{message}."), wrong.clone()),
        // Another type of key than the header says, under the id of one that is there.
        (provider.sign(&json!({"alg": "ES256", "kid": "ed"}), &claims()), TokenError::UnknownKey),
        (provider.sign(&json!({"alg": "EdDSA", "kid": "ec"}), &claims()), TokenError::UnknownKey),
        (provider.sign(&json!({"alg": "RS256", "kid": "ec"}), &claims()), TokenError::UnknownKey),
        (provider.sign(&json!({"alg": "ES256", "kid": "new"}), &claims()), TokenError::UnknownKey),
        (
            provider.sign(&json!({"alg": "ES256", "kid": "ec", "crit": ["b64"]}), &claims()),
            TokenError::Token("it demands an extension"),
        ),
        (message.to_owned(), TokenError::Token("it does not have three parts")),
        (format!("{good}.x"), TokenError::Token("it does not have three parts")),
        (good.replace('.', ".="), TokenError::Token("a part of it is no base64url")),
        ("x".repeat(TOKEN_BYTES_MAX + 1), TokenError::Token("it is too long")),
    ] {
        assert_eq!(provider.check(&token).unwrap_err(), expected, "{token}");
    }
}

#[test]
fn a_token_for_someone_else_or_of_another_time_is_worth_nothing() {
    let provider = provider();
    for (changes, word) in [
        (json!({"iss": "https://op/"}), "issuer"),
        (json!({"iss": null}), "read"),
        (json!({"aud": "other"}), "client"),
        (json!({"aud": []}), "client"),
        (json!({"aud": ["other", "sector"]}), "client"),
        (json!({"aud": ["other", "sector"], "azp": "other"}), "client"),
        (json!({"azp": "other"}), "client"),
        (json!({"exp": 940}), "expired"),
        (json!({"exp": null}), "read"),
        (json!({"exp": "1100"}), "read"),
        (json!({"iat": 1_061}), "future"),
        (json!({"nbf": 1_061}), "future"),
        (json!({"nonce": "m"}), "another login"),
        (json!({"sub": ""}), "`sub`"),
        (json!({"sub": "x".repeat(256)}), "`sub`"),
        (json!({"sub": null}), "read"),
    ] {
        match provider.with(&changes) {
            Err(TokenError::Token(why)) => assert!(why.contains(word), "{changes}: {why}"),
            other => panic!("{changes}: {other:?}"),
        }
    }
    for changes in [
        json!({"exp": 941}),
        json!({"iat": 1_060, "nbf": 1_060}),
        json!({"nonce": null}),
        json!({"aud": ["sector"]}),
        json!({"aud": ["other", "sector"], "azp": "sector"}),
    ] {
        assert!(provider.with(&changes).is_ok(), "{changes}");
    }
}
