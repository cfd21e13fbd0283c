//! Test vectors of tickets. A vector never changes without a new codec version.

use super::{Vectors, header, node, path, signed, slice, user};
use crate::{
    JobId, LeaseId, ResumeKey, Version,
    ticket::{Delegate, Delegation, Holder, HolderKey, SignedTicket, Ticket, TicketFault, TicketFile, TicketRight},
};

#[test]
fn tickets_have_their_bytes() {
    let mut vectors = Vectors::of("ticket", include_str!("../../../tests/vectors/ticket.txt"));
    let file = TicketFile { path: path(), version: Version(1_700_000_000_000) };
    let ticket = |right| Ticket {
        number: 11,
        user: user(),
        holder: Holder::Client(HolderKey([5; 32])),
        node: node(),
        right,
        file: Some(file.clone()),
        plain_within: Some("uic".into()),
        holder_site: Some("jhu".into()),
        until_unix_millis: 1_700_000_060_000,
    };
    compare!(vectors, Ticket {
        "read": Ticket { right: TicketRight::Read { .. }, .. } =>
            ticket(TicketRight::Read { slice: slice(), from: 0, until: 1 << 20 }),
        "write": Ticket { right: TicketRight::Write { .. }, .. } =>
            ticket(TicketRight::Write {
                lease: LeaseId(5),
                header: header(),
                resume: Some(ResumeKey(7)),
                base: Some(slice()),
            }),
        "compute": Ticket { right: TicketRight::Compute { .. }, .. } => ticket(TicketRight::Compute { job: JobId(6) }),
        "import": Ticket { right: TicketRight::Import, .. } => ticket(TicketRight::Import),
        "inputs": Ticket { right: TicketRight::Inputs { .. }, .. } =>
            ticket(TicketRight::Inputs { job: JobId(6), slices: vec![slice()] }),
    });
    vectors.compare("Ticket.of-a-node", &Ticket { holder: Holder::Node(node()), ..ticket(TicketRight::Import) });
    vectors.compare("SignedTicket", &signed());
    let handed = |to| SignedTicket { delegation: Some(Delegation { to, signature: vec![0xdd; 64] }), ..signed() };
    vectors.compare("SignedTicket.handed", &handed(Delegate::Node(node())));
    vectors.compare("SignedTicket.handed-to-key", &handed(Delegate::Key(HolderKey([5; 32]))));
    vectors.compare("TicketFault.all", &TicketFault::ALL.to_vec());
    vectors.finish();
}
