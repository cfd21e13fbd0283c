//! Requests about a file as long as its content is the one that was meant. Most change keys of its user metadata (paths:
//! upload, tree, s3). The content stays the same slice, whose copies are told. It never changes what is in a file, nor its
//! version or date.

use std::collections::BTreeMap;

use protocol::{
    FileId, Now, Reason, Refusal, SectorPath, SliceId, limits,
    message::{
        client_master::{ClientReply, FileContent},
        request::ChangeMetadataRequest,
    },
};

use crate::{Master, actions::SessionCaller, catalog::namespace::folder_refusal, log::journal_writes::Effect};

impl Master {
    /// The file at a path, if its content is still this slice.
    pub(crate) fn check_content(&self, path: &SectorPath, slice: SliceId) -> Result<(FileId, FileContent), Refusal> {
        let id = self.catalog.names().get(path)?;
        let content = self.catalog.names().content(id).ok_or_else(|| folder_refusal(path))?;
        if content.slice != slice {
            let reason = Reason::VersionChanged { current: Some(content.version) };
            return Err(Refusal::new(reason, format!("`{path}` has another content by now")));
        }
        Ok((id, content))
    }

    /// Changes keys, if the file's content is still the one that was meant.
    pub(crate) fn change_metadata(
        &mut self,
        now: Now,
        caller: SessionCaller,
        request: ChangeMetadataRequest,
    ) -> Result<Option<ClientReply>, Refusal> {
        let ChangeMetadataRequest { path, slice, changes } = request;
        let (id, mut content) = self.check_content(&path, slice)?;
        for (key, value) in changes {
            match value {
                Some(value) => content.user.insert(key, value),
                None => content.user.remove(&key),
            };
        }
        check_user_metadata(&content.user)?;
        let mut rows = self.catalog.set_content_details(now, id, content);
        let mut effects = vec![Effect::Reconcile(slice)];
        effects.extend(self.entry(id).map(|entry| Effect::Reply(caller, ClientReply::Entry(entry))));
        self.note_missed_change(&mut rows, id);
        self.save(now, rows, effects);
        Ok(None)
    }
}

/// Refuses more keys and values than a sidecar has room for.
pub(crate) fn check_user_metadata(user: &BTreeMap<String, String>) -> Result<(), Refusal> {
    let bytes: usize = user.iter().map(|(key, value)| key.len() + value.len()).sum();
    if bytes > limits::USER_METADATA_BYTES_MAX {
        let most = limits::USER_METADATA_BYTES_MAX;
        let message = format!("{bytes} bytes of metadata are too many; {most} are allowed");
        return Err(Refusal::new(Reason::Invalid, message));
    }
    Ok(())
}
