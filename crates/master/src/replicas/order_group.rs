//! The same order to several nodes, sent as one (Open Cloud Testbed paper, section 4: GMP is a group messaging
//! protocol). It mainly serves the rows that every node keeps for a master that loses its journal: each change goes to
//! all. It never joins two different orders.

use protocol::{SessionId, message::node_master::Order};

use crate::actions::OrderId;

/// One order to several nodes.
pub(crate) struct OrderGroup {
    pub(crate) body: Order,
    /// The session of each, once, and the order's number there.
    pub(crate) to: Vec<(SessionId, OrderId)>,
}

impl OrderGroup {
    /// Adds an order to a group if it is the same for another node; the rules emit such orders one after the other.
    pub(crate) fn add(groups: &mut Vec<Self>, session: SessionId, order: OrderId, body: Order) {
        match groups.last_mut() {
            Some(last) if last.body == body && last.to.iter().all(|(named, _)| *named != session) => {
                last.to.push((session, order));
            }
            _ => groups.push(Self { body, to: vec![(session, order)] }),
        }
    }
}

#[cfg(test)]
mod tests {
    use protocol::{JobId, SliceId};

    use super::*;

    #[test]
    fn the_same_order_to_many_nodes_is_one_group_and_no_node_is_in_it_twice() {
        let (job, slice) = (Order::ForgetJob(JobId(1)), Order::Remove(SliceId(2)));
        let given = [(1, &job), (2, &job), (3, &slice), (3, &slice), (4, &slice), (1, &job)];
        let mut groups = Vec::new();
        for ((session, body), order) in given.into_iter().zip(0..) {
            OrderGroup::add(&mut groups, SessionId(session), OrderId(order), body.clone());
        }
        let sessions: Vec<Vec<_>> =
            groups.iter().map(|group| group.to.iter().map(|(session, _)| session.0).collect()).collect();
        assert_eq!(sessions, [vec![1, 2], vec![3], vec![3, 4], vec![1]]);
        let orders: Vec<_> = groups.iter().flat_map(|group| group.to.iter().map(|(_, order)| order.0)).collect();
        assert_eq!(orders, [0, 1, 2, 3, 4, 5], "in the order in which they were given");
    }
}
