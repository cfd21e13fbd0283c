//! The part of the audit that concerns the estate: question by question, beside the list of all names. It only asks and
//! never changes anything.

use protocol::{
    Policy,
    message::{
        access::{AclReply, AclRequest, AclStatus},
        client_master::{ClientReply, ClientRequest, Entry, PolicyStatus, QuotaStatus, TrashItem, TrashKey},
        rebuild::{RebuildRequest, RebuildState},
        request::{GetAclRequest, PolicyRequest, QuotasRequest, RebuildStatusRequest, TrashRequest},
    },
};

use crate::{ViolationKind, environment::Environment, invariants::attribute_checks};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct AttributeAudit {
    step: Step,
    folder: usize,
    quotas: Vec<QuotaStatus>,
    items: Vec<TrashItem>,
    /// What is wrong while a node with newer knowledge may still come.
    pub(super) wrong: Vec<String>,
    /// What may differ in a moment.
    pub(super) unwell: Option<String>,
}

#[derive(Debug, Default)]
enum Step {
    #[default]
    Rebuild,
    Rights,
    Policy(Box<AclStatus>),
    Quotas,
    Trash(Option<TrashKey>),
    Done,
}

impl AttributeAudit {
    /// What is asked next; `None` at the end.
    pub(super) fn request(&self, env: &Environment) -> Option<ClientRequest> {
        let at = || env.model.attributes.folders.get(self.folder).map(|folder| folder.path.clone());
        match &self.step {
            Step::Rebuild => Some(ClientRequest::Rebuild(RebuildRequest::Status(RebuildStatusRequest { after: None }))),
            Step::Rights => Some(ClientRequest::Acl(AclRequest::Get(GetAclRequest(at()?)))),
            Step::Policy(_) => Some(ClientRequest::Policy(PolicyRequest(at()?))),
            Step::Quotas => Some(ClientRequest::Quotas(QuotasRequest { after: None })),
            Step::Trash(after) => Some(ClientRequest::Trash(TrashRequest { all_users: true, after: *after })),
            Step::Done => None,
        }
    }

    /// The answer.
    pub(super) fn answered(&mut self, env: &mut Environment, entries: &[Entry], reply: ClientReply) {
        match (std::mem::take(&mut self.step), reply) {
            (Step::Rebuild, ClientReply::Rebuild(status)) if status.state == RebuildState::Running => {
                self.unwell = Some("the names are being put together".into());
                self.step = Step::Done;
            }
            (Step::Rebuild, _) => {
                env.model.attributes.found.clear();
                self.go_to_folder(env, 0);
            }
            (Step::Rights, ClientReply::Acl(AclReply::Status(status))) => self.step = Step::Policy(Box::new(status)),
            (Step::Policy(status), ClientReply::Policy(PolicyStatus { own, .. })) => {
                self.folder_told(env, &status, &own);
                self.go_to_folder(env, self.folder + 1);
            }
            // The names show that it is missing.
            (Step::Rights | Step::Policy(_), _) => self.go_to_folder(env, self.folder + 1),
            (Step::Quotas, ClientReply::Quotas(page)) => {
                self.quotas = page.quotas;
                self.step = Step::Trash(None);
            }
            (Step::Trash(_), ClientReply::Trash(page)) => {
                self.items.extend(page.items);
                match self.items.last().filter(|_| page.more) {
                    Some(last) => self.step = Step::Trash(Some(last.key)),
                    None => self.finish(env, entries),
                }
            }
            (step @ (Step::Quotas | Step::Trash(_)), other) => {
                self.unwell = Some(format!("{step:?} was answered with {other:?}"));
                self.step = Step::Done;
            }
            (Step::Done, _) => self.step = Step::Done,
        }
    }

    fn go_to_folder(&mut self, env: &Environment, folder: usize) {
        self.folder = folder;
        self.step = if folder < env.model.attributes.folders.len() { Step::Rights } else { Step::Quotas };
    }

    fn folder_told(&mut self, env: &mut Environment, status: &AclStatus, policy: &Policy) {
        if let Some(message) = attribute_checks::check_folder(env, status, policy) {
            self.note(env, message);
        }
    }

    fn finish(&mut self, env: &mut Environment, entries: &[Entry]) {
        self.step = Step::Done;
        if let Some(message) = attribute_checks::check_trash(env, &self.items, entries) {
            self.note(env, message);
        }
        if let Some(message) = attribute_checks::check_most(env, &self.quotas) {
            self.note(env, message);
        }
        env.model.attributes.found_trash = attribute_checks::found_in_trash(env, &self.items, entries);
        if let Some(message) = attribute_checks::check_replaced(env, entries) {
            self.note(env, message);
        }
        // Jobs may still write.
        self.unwell = attribute_checks::check_quotas(env, &self.quotas, &self.items, entries);
    }

    /// Nobody changes anything now: unless names were rebuilt a moment ago, it is wrong for good.
    fn note(&mut self, env: &mut Environment, message: String) {
        if env.model.recovered.is_none() {
            env.violate(ViolationKind::Safety, message);
        } else {
            self.wrong.push(format!("after the journal was lost {message}"));
        }
    }
}
