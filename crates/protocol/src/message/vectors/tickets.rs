//! The vectors of tickets.

use super::{Vectors, header, node, path, signed, slice, user};
use crate::{
    JobId, LeaseId, ResumeKey, Version,
    ticket::{Handed, HandedTo, Holder, HolderKey, Right, SignedTicket, Ticket, TicketFault, TicketFile},
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
        "read": Ticket { right: Right::Read { .. }, .. } =>
            ticket(Right::Read { slice: slice(), from: 0, until: 1 << 20 }),
        "write": Ticket { right: Right::Write { .. }, .. } =>
            ticket(Right::Write {
                lease: LeaseId(5),
                header: header(),
                resume: Some(ResumeKey(7)),
                base: Some(slice()),
            }),
        "compute": Ticket { right: Right::Compute { .. }, .. } => ticket(Right::Compute { job: JobId(6) }),
        "import": Ticket { right: Right::Import, .. } => ticket(Right::Import),
        "inputs": Ticket { right: Right::Inputs { .. }, .. } =>
            ticket(Right::Inputs { job: JobId(6), slices: vec![slice()] }),
    });
    vectors.compare("Ticket.of-a-node", &Ticket { holder: Holder::Node(node()), ..ticket(Right::Import) });
    vectors.compare("SignedTicket", &signed());
    let handed = |to| SignedTicket { handed: Some(Handed { to, signature: vec![0xdd; 64] }), ..signed() };
    vectors.compare("SignedTicket.handed", &handed(HandedTo::Node(node())));
    vectors.compare("SignedTicket.handed-to-key", &handed(HandedTo::Key(HolderKey([5; 32]))));
    vectors.compare("TicketFault.all", &TicketFault::ALL.to_vec());
    vectors.finish();
}
