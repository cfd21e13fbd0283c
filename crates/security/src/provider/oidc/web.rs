//! One question over HTTPS to a provider (blocking; run it where it holds up nobody). It never follows a redirection,
//! never asks without TLS, never takes a proxy from the environment, and reads no more than a bounded answer.

use std::time::Duration;

use daemon::http_agent;
use data_encoding::BASE64;
use ureq::{Agent, Body, http::Response};

use crate::provider::{ProviderFailure, SecretText, trust::TrustRoots};

/// Asks over HTTPS.
pub(super) struct Web {
    agent: Agent,
}

/// What was answered: the status and the text.
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) text: String,
}

impl Web {
    pub(super) fn new(trust: &TrustRoots, limit: Duration) -> Self {
        let agent = http_agent(trust.certificates(), limit).https_only(true).build().into();
        Self { agent }
    }

    pub(super) fn get(&self, url: &str) -> Result<Reply, ProviderFailure> {
        read(url, self.agent.get(url).header("accept", "application/json").call())
    }

    /// Sends a form; with a secret, the client proves itself by it (RFC 6749, 2.3.1).
    pub(super) fn post(
        &self,
        url: &str,
        form: &[(&str, &str)],
        client: Option<(&str, &SecretText)>,
    ) -> Result<Reply, ProviderFailure> {
        let mut request = self.agent.post(url).header("accept", "application/json");
        if let Some((id, secret)) = client {
            let both = format!("{}:{}", form_encode(id), form_encode(&secret.0));
            request = request.header("authorization", format!("Basic {}", BASE64.encode(both.as_bytes())));
        }
        read(url, request.send_form(form.iter().copied()))
    }
}

fn read(url: &str, sent: Result<Response<Body>, ureq::Error>) -> Result<Reply, ProviderFailure> {
    let failed = |error: ureq::Error| match error {
        ureq::Error::BadUri(_) | ureq::Error::RequireHttpsOnly(_) | ureq::Error::Http(_) => {
            ProviderFailure::Misconfigured(format!("{url} is no address that can be asked over HTTPS"))
        }
        other => ProviderFailure::Unreachable(format!("{url}: {other}")),
    };
    let mut response = sent.map_err(failed)?;
    let status = response.status().as_u16();
    let text = response.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_string().map_err(failed)?;
    match status {
        500.. | 429 => Err(ProviderFailure::Unreachable(format!("{url} answers with status {status}"))),
        300..400 => Err(ProviderFailure::Misconfigured(format!("{url} wants us elsewhere (status {status})"))),
        _ => Ok(Reply { status, text }),
    }
}

/// As in a form, RFC 6749, appendix B.
fn form_encode(text: &str) -> String {
    text.bytes().fold(String::new(), |mut encoded, byte| {
        match byte {
            b' ' => encoded.push('+'),
            byte if byte.is_ascii_alphanumeric() || b"-_.*".contains(&byte) => encoded.push(char::from(byte)),
            byte => encoded.push_str(&format!("%{byte:02X}")),
        }
        encoded
    })
}

/// Longest answer in bytes.
const ANSWER_BYTES_MAX: u64 = 512 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_and_a_secret_cannot_run_into_one_another() {
        assert_eq!(form_encode("a:b c/é"), "a%3Ab+c%2F%C3%A9");
    }
}
