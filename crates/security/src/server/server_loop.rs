//! Drives the [rules](crate::rules) of the security server: the one task that has them, with clock, processor time and
//! journal. Serves door 3. It must never wait for anything but the next event, and never answer what is not durable.

use std::{
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use daemon::{
    group_commit::{CommitError, GroupCommit},
    metrics::{LabelCounts, MetricsQuestion, Readings, definitions},
};
use net::clock::Clock;
use protocol::message::master_security::{SecurityReply, SecurityRequest};
use store::{Journal, RowChange, StoreError};
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinSet,
    time::sleep,
};
use tracing::Span;

use crate::{
    SecurityError,
    accounts::machines::Certificate,
    audit::AuditLog,
    provider::Providers,
    rules::{Connection, Security, SecurityAction, SecurityBatchId, SecurityCaller, SecurityCompletion},
    server::{audit_writer::AuditWriter, signer::Signer},
};

/// The rules with the hands that serve them.
pub(crate) struct ServerLoop {
    clock: Clock,
    security: Security,
    signer: Arc<Signer>,
    /// Bounded by the questions under way: each changes a few rows and waits for its answer.
    journal: GroupCommit<SecurityBatchId, RowChange, StoreError>,
    providers: Providers,
    audit: AuditWriter,
    /// Bounded by the connections: each waits for its reply before it asks again.
    callers: BTreeMap<SecurityCaller, Caller>,
    questions: LabelCounts,
    certificates: LabelCounts,
    /// Comparisons, hashes and questions to providers under way; the rules bound them.
    work: JoinSet<SecurityCompletion>,
}

/// What is on its way to the keeper.
pub(crate) enum ServerEvent {
    /// A question; no reply comes where the connection is with nobody who may ask it.
    Question { connection: Connection, request: SecurityRequest, reply: oneshot::Sender<SecurityReply> },
    /// Whether this certificate is that of one who may ask more than a stranger.
    IsServer { fingerprint: [u8; 32], reply: oneshot::Sender<bool> },
    /// A scraper of metrics asks what is counted.
    Metrics(MetricsQuestion),
    /// The security server has issued itself a certificate; answered when that is written down.
    OwnCertificate { certificate: Certificate, reply: oneshot::Sender<SecurityReply> },
}

impl ServerLoop {
    pub(crate) fn new(
        security: Security,
        journal: Arc<Journal>,
        providers: Providers,
        record: AuditLog,
        signer: Arc<Signer>,
    ) -> Self {
        let record = AuditWriter::new(record);
        let mut security = security;
        security.note_audit_space(record.space());
        Self {
            signer,
            clock: Clock::start(),
            security,
            // It has the journal to itself: nobody else changes the accounts while they are in memory here.
            journal: GroupCommit::new(move |rows: &[RowChange]| journal.commit(rows)),
            providers,
            audit: record,
            callers: BTreeMap::new(),
            questions: LabelCounts::default(),
            certificates: LabelCounts::default(),
            work: JoinSet::new(),
        }
    }

    /// Works until nobody can ask any more. What was changed before is written.
    ///
    /// # Errors
    /// When the accounts or the audit record can no longer be written, and not because their disk is full.
    pub(crate) async fn run(mut self, mut asked: mpsc::Receiver<ServerEvent>) -> Result<(), SecurityError> {
        for number in 0.. {
            let due = self.security.next_timeout().map(|due| due.saturating_sub(self.clock.now().monotonic));
            tokio::select! {
                ask = asked.recv() => {
                    let Some(ask) = ask else { break };
                    self.handle_event(SecurityCaller(number), ask);
                }
                saved = self.journal.saved() => self.note_saving(saved)?,
                written = self.audit.written() => {
                    self.security.note_audit_space(self.audit.space());
                    self.handle_completion(written?);
                }
                Some(Ok(done)) = self.work.join_next() => self.handle_completion(done),
                () = sleep(due.unwrap_or_default()), if due.is_some() => {
                    self.security.handle_timeout(self.clock.now());
                }
            }
            self.perform_actions()?;
        }
        while !self.audit.is_idle() {
            let written = self.audit.written().await?;
            self.handle_completion(written);
            self.perform_actions()?;
        }
        while !self.journal.is_idle() {
            self.journal.saved().await?;
        }
        Ok(())
    }

    fn handle_event(&mut self, caller: SecurityCaller, ask: ServerEvent) {
        match ask {
            ServerEvent::Question { connection, request, reply } => {
                let span = request_span(&request);
                let _entered = span.enter();
                self.callers.insert(caller, Caller { question: request.name(), span: span.clone(), reply });
                self.security.handle_question(self.clock.now(), caller, connection, request);
            }
            ServerEvent::IsServer { fingerprint, reply } => {
                // Who asked may have gone; then nobody misses the reply.
                let _ = reply.send(self.security.is_server(fingerprint));
            }
            ServerEvent::Metrics(scraper) => {
                // It may have hung up.
                let _ = scraper.send(self.metrics());
            }
            ServerEvent::OwnCertificate { certificate, reply } => {
                self.callers.insert(caller, Caller { question: "own-certificate", span: Span::none(), reply });
                self.security.renew_own(caller, certificate);
            }
        }
    }

    /// A full disk does not end the security server: the rows wait until there is room.
    fn note_saving(&mut self, saved: Result<SecurityBatchId, CommitError<StoreError>>) -> Result<(), SecurityError> {
        match saved {
            Ok(batch) => self.handle_completion(SecurityCompletion::Saved { batch }),
            Err(CommitError::Refused(error)) if error.is_full() => {
                tracing::error!(%error, "the accounts wait for room on their disk");
                self.handle_completion(SecurityCompletion::Unsaved);
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    fn handle_completion(&mut self, completion: SecurityCompletion) {
        self.security.handle_completion(self.clock.now(), completion);
    }

    /// Does all that the rules want done.
    fn perform_actions(&mut self) -> Result<(), SecurityError> {
        while let Some(action) = self.security.poll_action() {
            match action {
                SecurityAction::HangUp { caller } => drop(self.callers.remove(&caller)),
                SecurityAction::Issue { check, name, kind, key } => {
                    let issued = self.signer.issue(&name, kind, &key);
                    let outcome = issued.as_ref().map_or("failed", |_| "done");
                    self.certificates.count(kind.as_str(), outcome);
                    self.handle_completion(SecurityCompletion::Issued { check, issued });
                }
                SecurityAction::Answer { caller, reply } => self.answer(caller, reply),
                SecurityAction::Save { batch, changes } => self.journal.push(batch, changes),
                SecurityAction::Record { record, records } => self.audit.begin(record, records)?,
                SecurityAction::Inspect { caller, request } => {
                    let reading = self.audit.inspect(request);
                    self.work.spawn(async move { SecurityCompletion::Inspected { caller, reply: reading.await } });
                }
                SecurityAction::ReadMetrics { caller } => {
                    let reply = SecurityReply::Metrics(self.metrics());
                    self.handle_completion(SecurityCompletion::Inspected { caller, reply });
                }
                SecurityAction::Verify { check, verification } => {
                    // A comparison that panics proves nothing, and must not leave its caller without an answer.
                    let run = move || catch_unwind(AssertUnwindSafe(|| verification.run())).unwrap_or(None);
                    self.work.spawn_blocking(move || SecurityCompletion::Verified { check, found: run() });
                }
                SecurityAction::AskProvider { check, provider, question } => {
                    let providers = self.providers.clone();
                    self.work.spawn(async move {
                        let answer = providers.ask(&provider, question).await;
                        SecurityCompletion::Asked { check, answer }
                    });
                }
                SecurityAction::Hash { check, hashing } => {
                    let panicked = || Err(SecurityError::Panicked("hashed a password"));
                    let run = move || catch_unwind(AssertUnwindSafe(|| hashing.run())).unwrap_or_else(|_| panicked());
                    self.work.spawn_blocking(move || SecurityCompletion::Hashed { check, hash: run() });
                }
            }
        }
        self.journal.begin();
        Ok(())
    }

    fn answer(&mut self, caller: SecurityCaller, reply: SecurityReply) {
        let refusal = match &reply {
            SecurityReply::Refused(refusal) => Some(refusal),
            _ => None,
        };
        if let Some(caller) = self.callers.remove(&caller) {
            if let Some(refusal) = refusal {
                caller.span.in_scope(|| tracing::info!(%refusal, "refused"));
            }
            self.questions.count(caller.question, refusal.map_or("done", |refusal| refusal.status().as_str()));
            // Who asked may have gone; then nobody misses the reply.
            let _ = caller.reply.send(reply);
        }
    }

    /// All that the security server counts, as text.
    fn metrics(&self) -> String {
        let mut readings = Readings::default();
        self.questions.read(&definitions::SECURITY_QUESTIONS, &mut readings);
        self.certificates.read(&definitions::SECURITY_CERTIFICATES, &mut readings);
        self.journal.read(&mut readings);
        readings.encode()
    }
}

/// Says in each line of the log for whom the master asked: user, login and address, as far as they are known.
fn request_span(request: &SecurityRequest) -> Span {
    let question = request.name();
    match request {
        SecurityRequest::CheckUser { user, address, .. } | SecurityRequest::Login { user, address, .. } => {
            tracing::info_span!("request", question, %user, %address)
        }
        SecurityRequest::CheckNode { node, address, .. } => tracing::info_span!("request", question, %node, %address),
        SecurityRequest::Accounts { by, .. } => {
            tracing::info_span!("request", question, user = %by.rights.user, login = %by.credential, address = %by.address)
        }
        SecurityRequest::Device { address, .. } => tracing::info_span!("request", question, %address),
        _ => tracing::info_span!("request", question),
    }
}

/// Whoever waits for an answer, and what was asked.
struct Caller {
    question: &'static str,
    /// Who it is for: the answer may come long after the question.
    span: Span,
    reply: oneshot::Sender<SecurityReply>,
}
