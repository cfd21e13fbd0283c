//! The node that a client writes a new file to. Serves upload, and owns the rule that a write is refused only when no node
//! has room: a policy that cannot be kept now is kept later, by moving.

use protocol::{FileId, Now, Refusal, SectorPath, Status, message::client_master::CreateRequest};

use crate::{
    Master,
    nodes::NodeKey,
    placement::{Choice, Wanted, choose},
    spread::Terms,
    wish::Wish,
};

impl Master {
    /// Chooses the node for a write of so many bytes.
    pub(crate) fn choose_target(
        &mut self,
        now: Now,
        request: &CreateRequest,
        copies: u8,
        bytes: u64,
    ) -> Result<NodeKey, Refusal> {
        if request.at.is_some() {
            return self.check_target(request, bytes);
        }
        let terms = self.terms_at(now, &request.path, copies);
        // Where the wish leaves no node with room, the file goes where there is some, and is moved when that changes; but
        // never to a site where it must not be.
        let at_large = Terms { only: None, wanted: Vec::new(), ..terms.clone() };
        for terms in [&terms, &at_large] {
            let wanted = Wanted {
                bytes,
                reserve_bytes: self.config.reserve_bytes,
                terms,
                holders: &[],
                closed: &[],
                shunned: &[],
                incoming_max: u32::MAX,
                patient: false,
            };
            if let Choice::Node(key) = choose(&self.nodes, &wanted, &mut self.rng) {
                return Ok(key);
            }
        }
        let path = &request.path;
        let sentence = if self.nodes.up_count() == 0 {
            "no node is up; start one, or wait until those that were started have joined".to_owned()
        } else if self.nodes.takers_count(&terms.forbidden, 1) == 0 {
            format!("no node may take `{path}`: all that are up are being drained, or at sites where it must not be")
        } else {
            format!("no node has room for `{path}` ({bytes} bytes and a reserve); add a node or remove files")
        };
        Err(Refusal::new(Status::Unavailable, sentence))
    }

    /// What is wanted of a file's copies.
    pub(crate) fn wanted(&self, file: FileId) -> Wish {
        #[cfg(test)]
        if let Some(wish) = self.wishes_of_test.and_then(|wishes| wishes(&self.names, &self.names.path(file)?)) {
            return wish;
        }
        self.wish(file)
    }

    /// What is wanted of the copies of a file that is not there yet, or will be another one: as its folder says.
    pub(crate) fn wanted_at(&self, path: &SectorPath, copies: u8) -> Wish {
        #[cfg(test)]
        if let Some(wish) = self.wishes_of_test.and_then(|wishes| wishes(&self.names, path)) {
            return wish;
        }
        self.wish_at(path, Some(copies))
    }

    /// The node that the client itself names: what a job made lies there already.
    fn check_target(&self, request: &CreateRequest, bytes: u64) -> Result<NodeKey, Refusal> {
        let unavailable = |sentence: String| Err(Refusal::new(Status::Unavailable, sentence));
        let Some(id) = &request.at else { return unavailable("no node was named".into()) };
        let unknown = || Refusal::new(Status::NotFound, format!("there is no node {id}; `sector nodes` shows them"));
        let key = self.nodes.of_id(id).ok_or_else(unknown)?;
        let node = self.nodes.get(key);
        if !node.is_up() {
            return unavailable(format!("the node {id} cannot be reached now"));
        }
        if node.room_bytes() < bytes.saturating_add(self.config.reserve_bytes) {
            return unavailable(format!("the node {id} has no room for {bytes} bytes"));
        }
        Ok(key)
    }
}
