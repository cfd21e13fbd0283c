//! Questions that only the security server can answer: passed on with who asks, answered when it answers. Serves what
//! people ask about accounts (door 2 to door 3). Never decides anything, and keeps nothing of what passes.

use protocol::{
    Now, Refusal, Status,
    message::{
        accounts::AccountsRequest,
        admission::{AdmissionRequest, AdmissionVerb},
        client_master::ClientReply,
        master_security::{Asker, SecurityReply, SecurityRequest},
    },
};

use crate::{
    Master,
    actions::{Action, Caller},
    sessions::ClientSession,
    standing::{OWN, OWN_HEALTH},
};

/// The questions that wait for the security server.
#[derive(Debug, Default)]
pub(crate) struct Questions {
    open: usize,
}

impl Master {
    /// Passes a question about accounts on.
    pub(crate) fn ask_accounts(
        &mut self,
        from: Caller,
        client: &ClientSession,
        request: AccountsRequest,
    ) -> Result<Option<ClientReply>, Refusal> {
        let by = Asker { rights: client.rights.clone(), credential: client.credential, address: client.address };
        self.ask_security(from, SecurityRequest::Accounts { by, request })
    }

    /// Passes on what is wanted about machines that come in.
    pub(crate) fn ask_admission(
        &mut self,
        from: Caller,
        client: &ClientSession,
        verb: AdmissionVerb,
    ) -> Result<Option<ClientReply>, Refusal> {
        let by = Asker { rights: client.rights.clone(), credential: client.credential, address: client.address };
        self.ask_security(from, SecurityRequest::Admission(AdmissionRequest::Administer { by, verb }))
    }

    /// Asks the security server for `from`, who is answered when it has answered.
    ///
    /// # Errors
    /// Where too many questions wait already.
    pub(crate) fn ask_security(
        &mut self,
        from: Caller,
        request: SecurityRequest,
    ) -> Result<Option<ClientReply>, Refusal> {
        if self.questions.open >= QUESTIONS_MAX {
            let sentence = "too many questions wait for the security server; try again in a few seconds";
            return Err(Refusal::new(Status::Unavailable, sentence));
        }
        self.questions.open += 1;
        self.actions.push_back(Action::AskSecurity { to: from, request });
        Ok(None)
    }

    /// The security server answered, or could not be reached.
    pub(crate) fn note_security_answer(&mut self, now: Now, to: Caller, reply: Result<SecurityReply, Refusal>) {
        if to == OWN {
            return self.note_standing(now, reply);
        }
        if to == OWN_HEALTH {
            return self.note_security_health(reply);
        }
        self.questions.open = self.questions.open.saturating_sub(1);
        let reply = match reply {
            Ok(SecurityReply::Accounts(reply)) => ClientReply::Accounts(reply),
            Ok(SecurityReply::Admission(reply)) => ClientReply::Admission(reply),
            Ok(SecurityReply::Audit(reply)) => ClientReply::Audit(reply),
            Ok(SecurityReply::Refused(refusal)) | Err(refusal) => ClientReply::Refused(refusal),
            Ok(_) => {
                let sentence = "the security server answered another question than was asked; see its log";
                ClientReply::Refused(Refusal::new(Status::Failed, sentence))
            }
        };
        self.reply(to, reply);
    }
}

/// Questions that wait for the security server at once. It answers eight at a time, a password among them in a good part
/// of a second; so the last waits for about ten.
const QUESTIONS_MAX: usize = 64;
