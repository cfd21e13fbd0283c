//! Test vectors of how machines come into a cloud ([`admission`](crate::message::admission)); see the module above. A
//! vector never changes without a new codec version.

use super::{Vectors, address, node, user};
use crate::{
    CredentialId, KeyDigest, MachineKind, TicketSecret,
    message::{
        admission::{
            AdmissionReply, AdmissionRequest, AdmissionVerb, CertificateRequest, Enrolment, MachineStatus,
            WaitingMachine,
        },
        master_security::{Asker, UserRights},
        request::{
            AddTicketRequest, AllowRequest, ApproveRequest, MachinesRequest, RejectRequest, StrikeRequest,
            WaitingMachinesRequest,
        },
    },
};

#[test]
fn the_words_about_machines_have_their_bytes() {
    let mut vectors = Vectors::of("admission", include_str!("../../../tests/vectors/admission.txt"));
    let key = || CertificateRequest { x: [1; 32], y: [2; 32], r: [3; 32], s: [4; 32] };
    let digest = KeyDigest(0x1234);
    compare!(vectors, Enrolment {
        "with-ticket": Enrolment::WithTicket { .. } => Enrolment::WithTicket {
            kind: MachineKind::Master,
            secret: TicketSecret([7; 16]),
            name: Some(node()),
            key: key(),
        },
        "ask": Enrolment::Ask { .. } => Enrolment::Ask { name: node(), key: key() },
        "renew": Enrolment::Renew { .. } => Enrolment::Renew { name: node(), key: key() },
        "confirm": Enrolment::Confirm { .. } => Enrolment::Confirm { name: node() },
    });
    let rights = UserRights { user: user(), groups: vec!["astro".into()], admin: true };
    let by = Asker { rights, credential: CredentialId(3), address: address().ip() };
    compare!(vectors, AdmissionRequest {
        "enrol": AdmissionRequest::Enrol { .. } => AdmissionRequest::Enrol {
            address: address().ip(),
            fingerprint: Some([8; 32]),
            enrolment: Enrolment::Confirm { name: node() },
        },
        "administer": AdmissionRequest::Administer { .. } =>
            AdmissionRequest::Administer { by: by.clone(), verb: AdmissionVerb::Machines(MachinesRequest { after: None }) },
        "own": AdmissionRequest::Own(_) => AdmissionRequest::Own(AdmissionVerb::Requests(WaitingMachinesRequest)),
    });
    compare!(vectors, AdmissionVerb {
        "add-ticket": AdmissionVerb::AddTicket(_) => AdmissionVerb::AddTicket(AddTicketRequest {
            kind: MachineKind::Node,
            digest: [9; 32],
            name: Some(node()),
            life_seconds: 3_600,
        }),
        "requests": AdmissionVerb::Requests(WaitingMachinesRequest) => AdmissionVerb::Requests(WaitingMachinesRequest),
        "approve": AdmissionVerb::Approve(_) => AdmissionVerb::Approve(ApproveRequest { name: node(), key: Some(digest) }),
        "reject": AdmissionVerb::Reject(_) => AdmissionVerb::Reject(RejectRequest { name: node() }),
        "allow": AdmissionVerb::Allow(_) =>
            AdmissionVerb::Allow(AllowRequest { name: node(), addresses: vec!["10.0.0.0/8".parse().unwrap()] }),
        "machines": AdmissionVerb::Machines(_) => AdmissionVerb::Machines(MachinesRequest { after: Some(node()) }),
        "strike": AdmissionVerb::Strike(_) => AdmissionVerb::Strike(StrikeRequest { name: node(), undo: true }),
    });
    let waiting =
        WaitingMachine { name: node(), key: digest, address: address().ip(), asked_unix_millis: 1_700_000_000_000 };
    let machine = MachineStatus {
        name: node(),
        kind: MachineKind::Security,
        fingerprint: [5; 32],
        until_unix_millis: Some(1_700_000_000_000),
        next_fingerprint: Some([6; 32]),
        addresses: vec!["2001:db8::/32".parse().unwrap()],
        is_struck_off: true,
    };
    compare!(vectors, AdmissionReply {
        "issued": AdmissionReply::Issued { .. } => AdmissionReply::Issued {
            name: node(),
            certificate_pem: "certificate".into(),
            authority_pem: "authority".into(),
        },
        "waiting": AdmissionReply::Waiting { .. } => AdmissionReply::Waiting { key: digest },
        "done": AdmissionReply::Done => AdmissionReply::Done,
        "requests": AdmissionReply::Requests(_) => AdmissionReply::Requests(vec![waiting.clone()]),
        "machines": AdmissionReply::Machines { .. } =>
            AdmissionReply::Machines { machines: vec![machine.clone()], more: true },
    });
    vectors.finish();
}
