//! Requests about rights: `acl get`, `set`, `add`, `remove`, `clear` and `owner`. It never checks whether the user may make
//! them: that was done before.

use protocol::{
    Acl, FileId, Now, Reason, Refusal, SectorPath, UserName,
    message::{
        access::AclRequest,
        client_master::ClientReply,
        master_security::UserRights,
        request::{
            AddToAclRequest, ClearAclRequest, GetAclRequest, GiveToRequest, JobInputsRequest, RemoveFromAclRequest,
            SetAclRequest,
        },
    },
};
use store::RowChange;

use crate::{Master, access::sessions::ClientSession, actions::SessionCaller, log::journal_writes::Effect};

impl Master {
    /// Answers a question about rights, or a change.
    pub(crate) fn handle_acl(
        &mut self,
        now: Now,
        caller: SessionCaller,
        client: &ClientSession,
        request: AclRequest,
    ) -> Result<Option<ClientReply>, Refusal> {
        let by = &client.rights;
        match request {
            AclRequest::Get(GetAclRequest(path)) => {
                let id = self.catalog.names().get(&path)?;
                Ok(Some(self.catalog.acl_reply(by, id)))
            }
            AclRequest::Set(SetAclRequest { path, acl }) => self.change_acl(now, caller, by, &path, Some(acl)),
            AclRequest::Add(AddToAclRequest { path, acl }) => {
                let id = self.catalog.names().get(&path)?;
                let joined = self.catalog.acl_with(id, &acl);
                let joined = joined.map_err(|message| Refusal::new(Reason::Invalid, message))?;
                self.change_acl(now, caller, by, &path, Some(joined))
            }
            AclRequest::Clear(ClearAclRequest(path)) => self.change_acl(now, caller, by, &path, None),
            AclRequest::Remove(RemoveFromAclRequest { path, principals: whom }) => {
                let id = self.catalog.names().get(&path)?;
                let own = self.catalog.names().own_acl(id).ok_or_else(|| {
                    let message = format!(
                        "`{path}` says nothing itself, what holds comes from above; say what shall hold with \
                         `sector acl set {path} …`"
                    );
                    Refusal::new(Reason::NotFound, message)
                })?;
                if let Some(who) = whom.iter().find(|who| own.entries().iter().all(|entry| entry.principal != **who)) {
                    let message = format!("`{path}` says nothing of {who}; `sector acl get {path}` shows what it says");
                    return Err(Refusal::new(Reason::NotFound, message));
                }
                let left = own.without(&whom);
                self.change_acl(now, caller, by, &path, Some(left))
            }
            AclRequest::GiveTo(GiveToRequest { path, owner }) => self.change_owner(now, caller, by, &path, &owner),
            AclRequest::Inputs(JobInputsRequest { job, node, slices }) => {
                self.job_inputs(now, client, job, &node, slices).map(Some)
            }
        }
    }

    fn change_acl(
        &mut self,
        now: Now,
        caller: SessionCaller,
        by: &UserRights,
        path: &SectorPath,
        acl: Option<Acl>,
    ) -> Result<Option<ClientReply>, Refusal> {
        let id = self.catalog.names().get(path)?;
        let rows = self.catalog.set_acl(id, acl);
        self.save_rights(now, caller, by, id, rows);
        Ok(None)
    }

    fn change_owner(
        &mut self,
        now: Now,
        caller: SessionCaller,
        by: &UserRights,
        path: &SectorPath,
        owner: &UserName,
    ) -> Result<Option<ClientReply>, Refusal> {
        let (id, rows) = self.catalog.give_to(path, owner)?;
        self.save_rights(now, caller, by, id, rows);
        Ok(None)
    }

    /// Saves a change of an entry's rights; for a file, its copies are told.
    fn save_rights(&mut self, now: Now, caller: SessionCaller, by: &UserRights, id: FileId, mut rows: Vec<RowChange>) {
        let mut effects = vec![Effect::Reply(caller, self.catalog.acl_reply(by, id))];
        if let Some(slice) = self.catalog.names().slice_of(id).filter(|_| !rows.is_empty()) {
            effects.push(Effect::Reconcile(slice));
            self.note_missed_change(&mut rows, id);
        }
        self.save(now, rows, effects);
    }
}
