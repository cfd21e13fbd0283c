//! The signature of a webhook's message (Standard Webhooks 1.0): HMAC-SHA256 over its id, its time and its body. A secret
//! is never shown.

use data_encoding::BASE64;
use ring::hmac;

/// The secret that sender and receiver share.
pub(super) struct Secret(hmac::Key);

impl Secret {
    /// A secret as the standard writes it: `whsec_` and 24 to 64 bytes in base64.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let wrong =
            || "write `whsec_` and 24 to 64 random bytes in base64, such as of `openssl rand -base64 32`".to_owned();
        let encoded = text.strip_prefix("whsec_").ok_or_else(wrong)?;
        let bytes = BASE64.decode(encoded.as_bytes()).map_err(|_| wrong())?;
        if !(24..=64).contains(&bytes.len()) {
            return Err(wrong());
        }
        Ok(Self(hmac::Key::new(hmac::HMAC_SHA256, &bytes)))
    }

    /// The header `webhook-signature`.
    pub(super) fn sign(&self, id: &str, unix_seconds: u64, body: &str) -> String {
        let tag = hmac::sign(&self.0, format!("{id}.{unix_seconds}.{body}").as_bytes());
        format!("v1,{}", BASE64.encode(tag.as_ref()))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// The example of the standard's reference libraries.
    #[test]
    fn a_signature_is_that_of_the_standard() {
        let secret = Secret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let signature = secret.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, r#"{"test": 2432232314}"#);
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn what_is_no_secret_is_refused() {
        for wrong in ["", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_MfKQ", "whsec_not base64 at all, and not short"] {
            assert!(Secret::parse(wrong).is_err(), "{wrong}");
        }
    }
}
