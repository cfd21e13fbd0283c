//! The nodes of the cloud, as rows of the journal: key = node id, value = a version byte, then postcard. Serves the
//! restart of the master. After it, a node that does not come is missed, and one that was being drained still is.
//! Values that change all the time (load, room, slices) are never in a row.

use std::net::{IpAddr, SocketAddr};

use protocol::{NodeId, Now, Place, message::cluster::Membership};
use serde::{Deserialize, Serialize};
use store::RowChange;

use super::{Node, NodeKey, Nodes};
use crate::{
    actions::{NODES_TABLE, StoredRow},
    catalog::namespace::{damaged_row, decode_row, encode_row},
    error::MasterError,
};

/// The stored form of a node. Field order is the format.
#[derive(Serialize, Deserialize)]
struct NodeRow {
    /// The place it reports itself.
    place: Place,
    address: SocketAddr,
    ip: IpAddr,
    folder: String,
    membership: Membership,
    /// Removed while it was up: it may not join by itself.
    barred: bool,
}

impl Nodes {
    /// Restores a node that an earlier master had. It counts as lost until it joins.
    pub(crate) fn load(&mut self, now: Now, row: &StoredRow) -> Result<(), MasterError> {
        let text = String::from_utf8(row.key.clone()).map_err(|_| damaged_row(row))?;
        let id = NodeId::new(text).map_err(|_| damaged_row(row))?;
        let read: NodeRow = decode_row(&row.value).ok_or_else(|| damaged_row(row))?;
        if read.barred {
            self.barred.insert(id);
            return Ok(());
        }
        // An older copy of the rows may have said otherwise before.
        self.barred.remove(&id);
        let mut node = Node::new(id, read.place, read.address, read.ip);
        (node.folder, node.membership, node.lost_at) = (read.folder, read.membership, Some(now.monotonic));
        node.row.clone_from(&row.value);
        // A journal never holds more nodes than a master takes.
        let _ = self.add(node);
        self.resolve_places();
        Ok(())
    }

    /// Takes a row that was kept elsewhere while this journal was lost, and returns the change that makes it durable.
    /// For a node that has joined already, only whether it was leaving counts. One that has not joined may have been
    /// removed.
    pub(crate) fn restore_row(&mut self, now: Now, row: &StoredRow) -> Option<RowChange> {
        let id = NodeId::new(std::str::from_utf8(&row.key).ok()?).ok()?;
        let read: NodeRow = decode_row(&row.value)?;
        let Some(key) = self.of_id(&id) else {
            self.load(now, row).ok()?;
            return Some(RowChange::Set { table: NODES_TABLE, key: row.key.clone(), value: row.value.clone() });
        };
        if read.barred && !self.get(key).has_joined {
            self.remove(key, true);
            return Some(RowChange::Set { table: NODES_TABLE, key: row.key.clone(), value: row.value.clone() });
        }
        if !read.barred {
            // If it is empty, it is found to be drained again.
            let standing =
                if read.membership == Membership::Active { Membership::Active } else { Membership::Draining };
            self.set_membership(key, standing);
        }
        self.row_change(key)
    }

    /// The row to save so that a node is known as it is now; `None` if it is saved already.
    pub(crate) fn row_change(&mut self, key: NodeKey) -> Option<RowChange> {
        let node = self.get_mut(key);
        let row = encode_row(&NodeRow {
            place: node.reported_place.clone(),
            address: node.address,
            ip: node.ip,
            folder: node.folder.clone(),
            membership: node.membership,
            barred: false,
        });
        if row == node.row {
            return None;
        }
        node.row = row;
        Some(self.saved_row(key))
    }

    /// The row of a node, as it was last to be saved.
    pub(crate) fn saved_row(&self, key: NodeKey) -> RowChange {
        let node = self.get(key);
        RowChange::Set { table: NODES_TABLE, key: node.id.as_str().into(), value: node.row.clone() }
    }

    /// The row to save once a node was removed.
    pub(crate) fn removal_change(&self, key: NodeKey) -> RowChange {
        let node = self.get(key);
        if !self.barred.contains(&node.id) {
            return Self::remove_row(&node.id);
        }
        let row = NodeRow {
            place: node.reported_place.clone(),
            address: node.address,
            ip: node.ip,
            folder: String::new(),
            membership: node.membership,
            barred: true,
        };
        RowChange::Set { table: NODES_TABLE, key: node.id.as_str().into(), value: encode_row(&row) }
    }

    /// The change that removes a node's row.
    pub(crate) fn remove_row(id: &NodeId) -> RowChange {
        RowChange::Remove { table: NODES_TABLE, key: id.as_str().into() }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use protocol::SessionId;

    use super::*;
    use crate::{actions::NodeJoin, fleet::nodes::Nodes};

    #[test]
    fn a_node_that_an_older_copy_of_the_rows_bars_and_a_newer_one_does_not_may_join() {
        let mut before = Nodes::default();
        let now = Now::default();
        let join = || NodeJoin {
            node: NodeId::new("n2").unwrap(),
            place: Place { site: "s0".into(), rack: "r1".into() },
            transfer: "192.0.2.1:1".parse().unwrap(),
            spe_slots: 1,
            pid: 1,
            folder: String::new(),
            local: None,
            address: "192.0.2.1".parse().unwrap(),
        };
        let (key, _) = before.join(now, SessionId(1), join()).unwrap();
        let RowChange::Set { table, key: row, value: admitted } = before.row_change(key).unwrap() else {
            panic!("a row")
        };
        before.remove(key, true);
        let RowChange::Set { value: barred, .. } = before.removal_change(key) else { panic!("a row") };

        let mut rebuilt = Nodes::default();
        rebuilt.restore_row(now, &StoredRow { table, key: row.clone(), value: barred });
        assert!(rebuilt.join(now, SessionId(2), join()).is_err());
        rebuilt.restore_row(now, &StoredRow { table, key: row, value: admitted });
        assert!(rebuilt.join(now, SessionId(3), join()).is_ok());
    }
}
