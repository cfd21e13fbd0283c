//! Renews the node's own certificate while it serves (door 4). The new certificate is written to disk before it is
//! used, and the old one stays valid until the master has seen the new one. The new key is made here and never leaves
//! the node.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use daemon::{
    settings::CredentialFiles,
    shutdown::ShutdownToken,
    worker::{BackgroundWork, NextStep, WorkError, Worker},
};
use net::{
    identity::{NewKey, RenewalState, TlsIdentity, Validity},
    transfer::{TcpCarrier, connect_to_host},
};
use protocol::{
    HostAddress, NodeId, Reason,
    message::{
        admission::{AdmissionReply, Enrolment},
        join::{JoinReply, JoinRequest},
    },
};
use store::replace_files_atomically;
use tokio::time::timeout;

use crate::{NodeError, blocking, session::join::UNEXPECTED_REPLY};

/// The certificate to renew, and the master that is asked.
pub(crate) struct CertificateRenewal {
    pub(crate) name: NodeId,
    pub(crate) files: CredentialFiles,
    pub(crate) identity: TlsIdentity,
    pub(crate) stopping: ShutdownToken,
    pub(crate) master: HostAddress,
}

impl CertificateRenewal {
    /// Renews the certificate if it is due, and returns how long to wait before the next check.
    async fn renew_if_due(&self) -> Result<Duration, NodeError> {
        let texts = self.files.read()?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        match Validity::of(&texts.certificate_pem)?.renewal_state(now) {
            RenewalState::NotDue(wait) => return Ok(wait),
            RenewalState::Due => {}
            RenewalState::Expired => {
                tracing::error!(certificate = %self.files.certificate.display(), "{ENDED}");
                return Ok(LOOK_AT_ENDED_AFTER);
            }
        }
        let key = NewKey::generate()?;
        let renew = Enrolment::Renew { name: self.name.clone(), key: key.request(Some(&self.name))? };
        let AdmissionReply::Issued { certificate_pem, .. } = self.ask(renew).await? else {
            return Err(NodeError::refused(Reason::Failed, UNEXPECTED_REPLY));
        };
        let credentials = key.with_certificate(certificate_pem);
        // Checked before it is written: an unusable certificate must not replace a usable one.
        TlsIdentity::role(&texts.authority_pem, &credentials)?;
        let (files, written) = (self.files.clone(), credentials.clone());
        let write = move || {
            replace_files_atomically(&[
                (&files.key, written.key_pem.as_bytes(), 0o600),
                (&files.certificate, written.certificate_pem.as_bytes(), 0o644),
            ])
            .map_err(NodeError::io("write the new certificate", &files.certificate))
        };
        blocking("writing the new certificate", write).await?;
        self.identity.replace(&texts.authority_pem, &credentials)?;
        // From here on the old certificate is worthless. If this request fails, the next join does the same.
        self.ask(Enrolment::Confirm { name: self.name.clone() }).await?;
        tracing::info!("the node has renewed its certificate");
        Ok(Duration::ZERO)
    }

    async fn ask(&self, enrolment: Enrolment) -> Result<AdmissionReply, NodeError> {
        let conversation = async {
            let carrier = TcpCarrier::new(self.identity.clone());
            let mut stream = connect_to_host(&carrier, &self.master, "master").await?;
            stream.send(&JoinRequest::Enrol(enrolment)).await?;
            let reply = stream.receive::<JoinReply>().await?;
            stream.close().await;
            match reply {
                JoinReply::Admission(reply) => Ok(reply),
                JoinReply::Refused(refusal) => Err(NodeError::Refused(refusal)),
                JoinReply::Accepted { .. } | JoinReply::LoggedIn(_) | JoinReply::Device(_) => {
                    Err(NodeError::refused(Reason::Failed, UNEXPECTED_REPLY))
                }
            }
        };
        let late = |_| NodeError::refused(Reason::Unavailable, "the master took too long to renew the certificate");
        timeout(ANSWER_MAX, conversation).await.map_err(late)?
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
            renewed.inspect_err(|error| tracing::error!(%error, "the node's certificate could not be renewed"))?;
        worker.set_due(wait);
        Ok(NextStep::IdleFor(wait.min(RECHECK_AFTER)))
    }
}

/// Longest sleep: a machine that was itself suspended checks soon after it woke.
const RECHECK_AFTER: Duration = Duration::from_secs(3_600);
/// What is logged about a certificate that nobody accepts any more.
const ENDED: &str = "the node's certificate has ended, since it was off for too long or its clock is wrong: set the clock, or stop \
    it, remove the certificate, and let it in again with `sector node join` and a ticket of `sector node ticket --for` its name";
/// Pause before the certificate is checked again: the clock may have been set.
const LOOK_AT_ENDED_AFTER: Duration = Duration::from_secs(60);
/// Pause after a failure; a third of the certificate's life remains for retries.
const RETRY_AFTER: Duration = Duration::from_secs(2);
/// Time limit of one request: the master asks the security server meanwhile.
const ANSWER_MAX: Duration = Duration::from_secs(30);
