//! Questions that only the security server can answer: passed on with the asker's name, and answered when it answers.
//! Serves requests about accounts (door 2 to door 3). It stores none of the content, and never decides anything.

use protocol::{
    Now, Reason, Refusal, UserName,
    message::{
        accounts::AccountsRequest,
        admission::{AdmissionRequest, AdmissionVerb},
        client_master::ClientReply,
        master_security::{Asker, SecurityReply, SecurityRequest},
    },
};

use crate::{
    Master,
    access::{
        security_proxy::SecurityProxy,
        session_recheck::{MASTER_CALLER, MASTER_HEALTH_CALLER},
        sessions::ClientSession,
    },
    actions::{MasterAction, SessionCaller},
};

impl Master {
    /// Passes a question about accounts on.
    pub(crate) fn handle_accounts(
        &mut self,
        from: SessionCaller,
        client: &ClientSession,
        request: AccountsRequest,
    ) -> Result<Option<ClientReply>, Refusal> {
        let by = Asker { rights: client.rights.clone(), credential: client.credential, address: client.address };
        self.forward_to_security(from, &client.rights.user, SecurityRequest::Accounts { by, request })
    }

    /// Passes on requests about admitting machines.
    pub(crate) fn handle_admission(
        &mut self,
        from: SessionCaller,
        client: &ClientSession,
        verb: AdmissionVerb,
    ) -> Result<Option<ClientReply>, Refusal> {
        let by = Asker { rights: client.rights.clone(), credential: client.credential, address: client.address };
        let question = SecurityRequest::Admission(AdmissionRequest::Administer { by, verb });
        self.forward_to_security(from, &client.rights.user, question)
    }

    /// Asks the security server on behalf of `from`. The caller is answered when it has answered. If too many questions
    /// of the same user wait already, the caller is answered at once.
    pub(crate) fn forward_to_security(
        &mut self,
        from: SessionCaller,
        user: &UserName,
        request: SecurityRequest,
    ) -> Result<Option<ClientReply>, Refusal> {
        let refused = self.open_question(from, user);
        if refused.is_none() {
            self.actions.push_back(MasterAction::AskSecurity { to: from, request });
        }
        Ok(refused)
    }

    /// Counts a question that will be forwarded; the answer if the user has too many.
    pub(crate) fn open_question(&mut self, from: SessionCaller, user: &UserName) -> Option<ClientReply> {
        let SecurityProxy { open, per_user } = &mut self.access.security_proxy;
        if !per_user.may_add(user, 1, QUESTIONS_MAX) {
            let message = format!("{} questions of {user} wait for the security server", per_user.has(user));
            return Some(ClientReply::Refused(Refusal::throttled(message, QUESTION_RETRY_SECONDS)));
        }
        per_user.add(user, 1);
        open.push((from, user.clone()));
        None
    }

    /// The security server answered, or could not be reached.
    pub(crate) fn note_security_answer(&mut self, now: Now, to: SessionCaller, reply: Result<SecurityReply, Refusal>) {
        if to == MASTER_CALLER {
            return self.note_master_answer(now, reply);
        }
        if to == MASTER_HEALTH_CALLER {
            return self.note_security_health(reply);
        }
        let SecurityProxy { open, per_user } = &mut self.access.security_proxy;
        if let Some(at) = open.iter().position(|(asked, _)| *asked == to) {
            let (_, user) = open.swap_remove(at);
            per_user.take(&user, 1);
        }
        let reply = match reply {
            Ok(SecurityReply::Accounts(reply)) => ClientReply::Accounts(reply),
            Ok(SecurityReply::Admission(reply)) => ClientReply::Admission(reply),
            Ok(SecurityReply::Audit(reply)) => ClientReply::Audit(reply),
            Ok(SecurityReply::Metrics(text)) => ClientReply::Metrics(text),
            Ok(SecurityReply::Refused(refusal)) | Err(refusal) => ClientReply::Refused(refusal),
            Ok(_) => {
                let message = "the security server answered another question than was asked; see its log";
                ClientReply::Refused(Refusal::new(Reason::Failed, message))
            }
        };
        self.reply(to, reply);
    }
}

/// Questions that wait for the security server at once. It answers eight at a time, a password among them in a good
/// part of a second; so the last waits for about ten.
const QUESTIONS_MAX: u64 = 64;

/// Some of them are answered within this time, in seconds.
const QUESTION_RETRY_SECONDS: u32 = 2;
