//! One message to a receiver over HTTP or HTTPS: a bounded wait, no redirection, no proxy of the environment, and
//! certificates that are checked. It never tries twice: the webhook does.

use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use daemon::{http_agent, system_certificates};
use ring::rand::{SecureRandom, SystemRandom};
use rustls::pki_types::{CertificateDer, pem::PemObject};
use tokio::task::spawn_blocking;
use ureq::Agent;

use super::signature::Secret;

/// Where messages go.
#[derive(Clone)]
pub(super) struct Receiver {
    agent: Agent,
    url: String,
    secret: Arc<Secret>,
}

/// What became of a message.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Delivery {
    /// The receiver answered that it has it.
    Taken,
    /// It did not, and why.
    Failed(String),
}

impl Receiver {
    /// A receiver whose certificate is checked against an authority, or those of the system.
    pub(super) fn new(url: String, secret: Secret, authority: Option<&[u8]>) -> Result<Self, String> {
        let trusted: Vec<CertificateDer<'static>> = match authority {
            Some(pem) => CertificateDer::pem_slice_iter(pem)
                .collect::<Result<_, _>>()
                .map_err(|error| format!("its authority is no certificate in PEM: {error}"))?,
            None if url.starts_with("https://") => system_certificates(),
            None => Vec::new(),
        };
        if trusted.is_empty() && url.starts_with("https://") {
            return Err(
                "there is no certificate of an authority: install those of the system, or give `authority`".into()
            );
        }
        let agent = http_agent(&trusted, ANSWER_MAX).build().into();
        Ok(Self { agent, url, secret: Arc::new(secret) })
    }

    /// Sends a message. The same one has the same id each time.
    pub(super) async fn send(&self, id: &str, body: &str) -> Delivery {
        let (receiver, id, body) = (self.clone(), id.to_owned(), body.to_owned());
        let sent = spawn_blocking(move || receiver.send_now(&id, &body)).await;
        sent.unwrap_or_else(|error| Delivery::Failed(error.to_string()))
    }

    fn send_now(&self, id: &str, body: &str) -> Delivery {
        let unix_seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
        let asked = self
            .agent
            .post(&self.url)
            .header("content-type", "application/json")
            .header("webhook-id", id)
            .header("webhook-timestamp", unix_seconds.to_string())
            .header("webhook-signature", self.secret.sign(id, unix_seconds, body))
            .send(body);
        match asked {
            Ok(mut answer) => {
                // Read so that the connection can be used again; nobody needs what it says.
                let _ = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_vec();
                match answer.status().as_u16() {
                    200..300 => Delivery::Taken,
                    status => Delivery::Failed(format!("it answers with status {status}")),
                }
            }
            Err(error) => Delivery::Failed(error.to_string()),
        }
    }
}

/// How long to wait after so many failures: twice as long each time up to some minutes, and a random part more or less.
/// So receivers that come back are not hit by all at once.
pub(super) fn pause(failures: u32) -> Duration {
    let whole = PAUSE_FIRST.saturating_mul(1 << failures.min(16)).min(PAUSE_MAX);
    let mut random = [0];
    // Without it the pause is only less random.
    let _ = SystemRandom::new().fill(&mut random);
    whole.mul_f64(0.75 + 0.5 * f64::from(random[0]) / 255.0)
}

/// For connecting, sending and the answer.
const ANSWER_MAX: Duration = Duration::from_secs(15);
/// Of an answer that is read, in bytes.
const ANSWER_BYTES_MAX: u64 = 64 << 10;
/// After the first failure.
const PAUSE_FIRST: Duration = Duration::from_millis(500);
/// However many there were.
const PAUSE_MAX: Duration = Duration::from_secs(600);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_minutes_and_are_never_the_same_for_all() {
        for failures in 0..40 {
            let whole = PAUSE_FIRST.saturating_mul(1 << failures.min(16)).min(PAUSE_MAX);
            let pause = pause(failures);
            assert!(pause >= whole.mul_f64(0.74) && pause <= whole.mul_f64(1.26), "{failures}: {pause:?}");
        }
        let hour: Duration = (0..20).map(|failures| PAUSE_FIRST.saturating_mul(1 << failures).min(PAUSE_MAX)).sum();
        assert!(hour > Duration::from_secs(3_600));
    }
}
