//! What the master sends to the audit record: refusals, grants, administrators' acts, jobs, and tickets that nodes have
//! refused. It gathers events and has them sent to the security server in batches (door 3). It serves every path that
//! changes who may do what. Nothing is lost silently: events wait while the security server is away. Events that find
//! no room are counted, and the count is an event itself. A secret is never noted.

use protocol::{
    Now, Refusal, Status,
    message::{
        audit::{AuditEvent, AuditHead, AuditKind, AuditOutcome, AuditQuestion, AuditRequest},
        client_master::ClientReply,
        master_security::SecurityRequest,
        node_master::TicketRefusal,
        request::{AuditNote, VerifyAuditRequest},
    },
    refusals::source_of,
};

use crate::{
    Master,
    access::{audit::event, sessions::ClientSession},
    actions::{MasterAction, SessionCaller},
    catalog::rights::check_admin,
    fleet::nodes::NodeKey,
};

impl Master {
    /// Answers an administrator's question about the record with the security server's answer. What has happened by now
    /// is in the record before it is asked.
    pub(crate) fn handle_audit(
        &mut self,
        now: Now,
        from: SessionCaller,
        client: &ClientSession,
        question: AuditQuestion,
    ) -> Result<Option<ClientReply>, Refusal> {
        check_admin(&client.rights, "look at the audit record")?;
        let by = client.rights.clone();
        let request = match question {
            AuditQuestion::Show(query) => AuditRequest::Show { by, query },
            AuditQuestion::Verify(VerifyAuditRequest) => AuditRequest::Verify { by, head: self.access.audit.head },
        };
        if let Some(refused) = self.open_question(from, &client.rights.user) {
            return Ok(Some(refused));
        }
        self.send_audit(now);
        self.access.audit.ask_when_recorded(now, from, request);
        self.ask_of_record();
        Ok(None)
    }

    /// Asks what need not wait any more.
    fn ask_of_record(&mut self) {
        for (to, request) in self.access.audit.due_questions() {
            self.actions.push_back(MasterAction::AskSecurity { to, request: SecurityRequest::Audit(request) });
        }
    }

    /// Notes a client's request if it is worth recording, and every refusal.
    pub(crate) fn note_request(
        &mut self,
        now: Now,
        client: &ClientSession,
        noted: AuditNote,
        refusal: Option<&Refusal>,
    ) {
        let AuditNote { kind, what, object, note } = noted;
        let (kind, outcome) = match (kind, refusal.map(|refusal| refusal.status())) {
            (Some(kind), None) => (kind, AuditOutcome::Done),
            (Some(kind), Some(status)) if status != Status::Refused => (kind, AuditOutcome::Failed),
            (_, Some(Status::Refused)) => (AuditKind::Refusal, AuditOutcome::Refused),
            (None, _) | (Some(_), Some(_)) => return,
        };
        let who = client.rights.user.to_string();
        if outcome == AuditOutcome::Refused && !self.access.audit.of_users.try_record(now, &who) {
            return;
        }
        if kind == AuditKind::Removal && !self.access.audit.of_removals.try_record(now, &who) {
            return;
        }
        let note = refusal.map_or(note, |refusal| refusal.message.clone());
        self.access.audit.note(AuditEvent {
            who,
            from: client.address.to_string(),
            outcome,
            ..event(now, kind, what, object, note)
        });
    }

    /// Notes the outcome of a job.
    pub(crate) fn note_job(&mut self, now: Now, who: &str, what: &str, job: String, note: String) {
        let event = event(now, AuditKind::Job, what, job, note);
        self.access.audit.note(AuditEvent { who: who.to_owned(), ..event });
    }

    /// Notes tickets that a node has refused.
    pub(crate) fn note_refused_tickets(
        &mut self,
        now: Now,
        node: NodeKey,
        refusals: Vec<TicketRefusal>,
        left_out: u64,
    ) {
        let node = self.fleet.nodes.get(node).id.to_string();
        for TicketRefusal { unix_millis, fault, user, from, why } in refusals {
            if !self.access.audit.of_strangers.try_record(now, &source_of(&from)) {
                continue;
            }
            let what = format!("show a ticket ({})", fault.as_str());
            self.access.audit.note(AuditEvent {
                who: user.map_or_else(|| "a stranger".into(), |user| user.to_string()),
                from,
                outcome: AuditOutcome::Refused,
                ..event(Now { unix_millis, ..now }, AuditKind::Ticket, &what, node.clone(), why)
            });
        }
        self.access.audit.of_strangers.count(left_out);
    }

    /// Has the next events sent.
    pub(crate) fn send_audit(&mut self, now: Now) {
        if let Some(count) = self.access.audit.of_strangers.take_counted(now) {
            let note = format!("{count} more tickets were refused than are told one by one");
            let refused = event(now, AuditKind::Ticket, "show tickets", String::new(), note);
            self.access.audit.note(AuditEvent { who: "a stranger".into(), outcome: AuditOutcome::Refused, ..refused });
        }
        if let Some(count) = self.access.audit.of_removals.take_counted(now) {
            let note = format!("{count} more removals and renames were made than are told one by one");
            self.access.audit.note(event(now, AuditKind::Record, "leave out removals", String::new(), note));
        }
        if let Some(count) = self.access.audit.of_users.take_counted(now) {
            let note = format!("{count} more requests were refused than are told one by one");
            self.access.audit.note(event(now, AuditKind::Record, "leave out refusals", String::new(), note));
        }
        self.actions.extend(self.access.audit.next_batch(now).map(MasterAction::SendAudit));
    }

    /// A batch was recorded, or could not be sent.
    pub(crate) fn note_audit_sent(&mut self, now: Now, brought: Result<AuditHead, Refusal>) {
        let again = brought.is_ok();
        self.access.audit.finish(now, brought);
        self.ask_of_record();
        if again {
            self.send_audit(now);
        }
    }
}
