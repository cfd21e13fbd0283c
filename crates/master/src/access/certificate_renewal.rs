//! Renews the master's own certificate while it serves (door 3). The new certificate is written to disk before it is
//! used. The old one stays valid until the security server has seen the new one. The new key is made here and never
//! leaves this machine.

use std::{
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use daemon::{
    settings::CredentialFiles,
    shutdown::ShutdownToken,
    worker::{BackgroundWork, NextStep, WorkError, Worker},
};
use net::identity::{NewKey, RenewalState, TlsIdentity, Validity};
use protocol::{
    NodeId, Reason, Refusal,
    message::{
        admission::{AdmissionReply, AdmissionRequest, Enrolment},
        master_security::{SecurityReply, SecurityRequest},
    },
};
use store::replace_files_atomically;
use tokio::task::spawn_blocking;

use crate::access::security_client::SecurityClient;

/// What is renewed, and the connection used for it.
pub(crate) struct CertificateRenewal {
    pub(crate) name: NodeId,
    pub(crate) files: CredentialFiles,
    pub(crate) identity: TlsIdentity,
    pub(crate) stopping: ShutdownToken,
    pub(crate) security: Arc<SecurityClient>,
}

impl CertificateRenewal {
    /// Renews it if it is due, and returns how long to wait before the next check.
    async fn renew_if_due(&self) -> Result<Duration, Refusal> {
        let texts = self.files.read().map_err(|error| error.refusal())?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        match Validity::of(&texts.certificate_pem).map_err(|error| error.refusal())?.renewal_state(now) {
            RenewalState::NotDue(wait) => return Ok(wait),
            RenewalState::Due => {}
            RenewalState::Expired => {
                tracing::error!(certificate = %self.files.certificate.display(), "{ENDED}");
                return Ok(RECHECK_ENDED_AFTER);
            }
        }
        let refusal = |error: net::NetError| error.refusal();
        let key = NewKey::generate().map_err(refusal)?;
        let request = key.request(Some(&self.name)).map_err(refusal)?;
        let renew = Enrolment::Renew { name: self.name.clone(), key: request };
        let AdmissionReply::Issued { certificate_pem, .. } = self.ask(renew).await? else {
            return Err(Refusal::new(Reason::Failed, "the security server answered another question than was asked"));
        };
        let credentials = key.with_certificate(certificate_pem);
        // Checked before it is written: an unusable certificate must not replace a usable one.
        TlsIdentity::role(&texts.authority_pem, &credentials).map_err(refusal)?;
        let (files, written) = (self.files.clone(), credentials.clone());
        let write = move || {
            replace_files_atomically(&[
                (&files.key, written.key_pem.as_bytes(), 0o600),
                (&files.certificate, written.certificate_pem.as_bytes(), 0o644),
            ])
        };
        let written = spawn_blocking(write).await.unwrap_or_else(|error| Err(std::io::Error::other(error)));
        written.map_err(|error| Refusal::new(Reason::Failed, format!("cannot write the new certificate: {error}")))?;
        self.identity.replace(&texts.authority_pem, &credentials).map_err(refusal)?;
        self.security.forget_idle();
        // From here on the old certificate is worthless. If this call fails, the next question confirms it too.
        self.ask(Enrolment::Confirm { name: self.name.clone() }).await?;
        tracing::info!("the master has renewed its certificate");
        Ok(Duration::ZERO)
    }

    async fn ask(&self, enrolment: Enrolment) -> Result<AdmissionReply, Refusal> {
        // The security server sees for itself which certificate is shown. It does not check the address of a master.
        let address = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        let request = AdmissionRequest::Enrol { address, fingerprint: None, enrolment };
        match self.security.ask_for_master(&SecurityRequest::Admission(request)).await? {
            SecurityReply::Admission(reply) => Ok(reply),
            SecurityReply::Refused(refusal) => Err(refusal),
            _ => Err(Refusal::new(Reason::Failed, "the security server answered another question than was asked")),
        }
    }
}

impl BackgroundWork for CertificateRenewal {
    const BACK_OFF_MAX: Duration = RETRY_AFTER;

    async fn step(&mut self, worker: &Worker) -> Result<NextStep, WorkError> {
        // A stop may cut it off anywhere: what is half done is finished at the next start.
        let Some(renewed) = self.stopping.run_until_cancelled(self.renew_if_due()).await else {
            return Ok(NextStep::Done);
        };
        let wait =
            renewed.inspect_err(|error| tracing::error!(%error, "the master's certificate could not be renewed"))?;
        worker.set_due(wait);
        Ok(NextStep::IdleFor(wait.min(RECHECK_AFTER)))
    }
}

/// Longest sleep: a machine that was itself suspended checks soon after it wakes.
const RECHECK_AFTER: Duration = Duration::from_secs(3_600);
/// The error text for a certificate that is no longer accepted.
const ENDED: &str = "the master's certificate has ended, since it was off for too long or its clock is wrong: set the clock, or stop \
    it, remove the certificate, and let it in again with `sector master join` and a ticket of `sector security ticket master --name` its name";
/// Pause before an expired one is checked again: the clock may have been set.
const RECHECK_ENDED_AFTER: Duration = Duration::from_secs(60);
/// Pause after a failure. A third of the certificate's life remains for retries.
const RETRY_AFTER: Duration = Duration::from_secs(2);
