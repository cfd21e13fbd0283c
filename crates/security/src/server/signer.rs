//! The cloud's authority at work in a running security server: it signs what the [rules](crate::rules) have decided,
//! and renews the security server's own certificate. Its key never leaves this process.

use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use daemon::settings::CredentialFiles;
use net::identity::{Authority, NewKey, ProvedKey, RenewalState, Subject, TlsIdentity, Validity, fingerprint};
use protocol::{MachineKind, NodeId};
use tokio::{
    sync::{mpsc, oneshot},
    time::sleep,
};

use crate::{
    SecurityError,
    accounts::{MASTER, SECURITY, machines::Certificate},
    rules::IssuedCertificate,
    server::server_loop::ServerEvent,
    setup::write_credentials,
};

/// The authority, and for how long it signs.
pub(crate) struct Signer {
    pub(crate) authority: Authority,
    pub(crate) life: Duration,
}

impl Signer {
    /// Signs a certificate. Some hundred microseconds.
    pub(crate) fn issue(
        &self,
        name: &NodeId,
        kind: MachineKind,
        key: &ProvedKey,
    ) -> Result<IssuedCertificate, SecurityError> {
        // Who connects to a master does not know, and need not know, which of them it is.
        let role = match kind {
            MachineKind::Node => name.as_str(),
            MachineKind::Master => MASTER,
            MachineKind::Security => SECURITY,
        };
        let certificate_pem = self.authority.certify(&Subject { name: name.as_str(), role }, key, self.life)?;
        Ok(IssuedCertificate {
            fingerprint: fingerprint(&certificate_pem)?,
            until_unix_millis: Validity::of(&certificate_pem)?.until_unix_millis(),
            authority_pem: self.authority.certificate_pem().to_owned(),
            certificate_pem,
        })
    }
}

/// Renews the security server's own certificate, again and again, while it runs.
pub(crate) struct CertificateRenewal {
    pub(crate) signer: Arc<Signer>,
    pub(crate) files: CredentialFiles,
    pub(crate) identity: TlsIdentity,
    pub(crate) events: mpsc::Sender<ServerEvent>,
}

impl CertificateRenewal {
    /// Never returns, but when nobody keeps the accounts any more.
    pub(crate) async fn run(self) {
        loop {
            match self.step().await {
                Ok(Some(wait)) => sleep(wait.min(RECHECK_AFTER)).await,
                Ok(None) => return,
                Err(error) => {
                    tracing::error!(%error, "the security server's own certificate could not be renewed");
                    sleep(RETRY_AFTER).await;
                }
            }
        }
    }

    /// How long to wait before the next look; `None` at the end.
    async fn step(&self) -> Result<Option<Duration>, SecurityError> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        // One that has ended is renewed too: the authority is here, and nobody else need take it.
        if let RenewalState::NotDue(wait) = Validity::of(&self.files.read()?.certificate_pem)?.renewal_state(now) {
            return Ok(Some(wait));
        }
        let name = NodeId::new(SECURITY).map_err(|_| SecurityError::Panicked("named itself"))?;
        let key = NewKey::generate()?;
        let proved = ProvedKey::check(&key.request(Some(&name))?, Some(&name))?;
        let issued = self.signer.issue(&name, MachineKind::Security, &proved)?;
        let certificate = Certificate {
            fingerprint: issued.fingerprint,
            key: Some(proved.digest()),
            until_unix_millis: Some(issued.until_unix_millis),
        };
        // The row first: a certificate that lies in the files must be known.
        let (reply, saved) = oneshot::channel();
        if self.events.send(ServerEvent::OwnCertificate { certificate, reply }).await.is_err() || saved.await.is_err() {
            return Ok(None);
        }
        let credentials = key.with_certificate(issued.certificate_pem);
        write_credentials(&self.files, &credentials)?;
        self.identity.replace(&issued.authority_pem, &credentials)?;
        tracing::info!("the security server has renewed its own certificate");
        Ok(Some(Duration::ZERO))
    }
}

/// Longest sleep: a machine that was asleep itself looks soon after it woke.
const RECHECK_AFTER: Duration = Duration::from_secs(3_600);
/// Pause after a failure.
const RETRY_AFTER: Duration = Duration::from_secs(60);
