//! Test vectors of how people and machines come in: joining, and what a master asks the security server. A vector never
//! changes without a new codec version.

use super::{Vectors, accounts, address, audit, known_user, node, place, refusal, rights, user};
use crate::{
    CredentialId, JobId, Reason, SessionId,
    message::{
        accounts::{AccountsReply, AccountsRequest},
        admission::{AdmissionReply, AdmissionRequest, AdmissionVerb, Enrolment},
        audit::{AuditHead, AuditReply},
        client_master::DriverKey,
        join::{JoinReply, JoinRequest, Secret},
        login::{DeviceReply, DeviceRequest},
        master_security::{AccountChanges, Asker, ChangeCursor, HeldSession, SecurityReply, SecurityRequest},
        request::{WaitingMachinesRequest, WhoAmIRequest},
    },
    ticket::{HolderKey, TicketKeys},
};

#[test]
fn the_words_of_joining_have_their_bytes() {
    let mut vectors = Vectors::of("join", include_str!("../../../tests/vectors/join.txt"));
    let password = Secret::Password("correct horse".into());
    compare!(vectors, JoinRequest {
        "client": JoinRequest::Client { .. } => JoinRequest::Client { user: user(), secret: password, holder: HolderKey([5; 32]) },
        "node": JoinRequest::Node { .. } => JoinRequest::Node {
            node: node(),
            place: place(),
            transfer: address(),
            spe_slots: 4,
            pid: 4321,
            folder: "/srv/sector".into(),
            local: Some("sector-1".into()),
        },
        "driver": JoinRequest::Driver { .. } =>
            JoinRequest::Driver { job: JobId(6), key: DriverKey([8; 32]), holder: HolderKey([5; 32]) },
        "login": JoinRequest::Login { .. } => JoinRequest::Login {
            user: user(),
            secret: Secret::Password("battery staple".into()),
            machine: "laptop".into(),
        },
        "enrol": JoinRequest::Enrol(_) => JoinRequest::Enrol(Enrolment::Confirm { name: node() }),
        "device": JoinRequest::Device(_) => JoinRequest::Device(DeviceRequest::Begin { provider: None, machine: "laptop".into() }),
    });
    compare!(vectors, JoinReply {
        "accepted": JoinReply::Accepted { .. } => JoinReply::Accepted {
            session: SessionId(0xabcdef),
            ticket_keys: TicketKeys { current: [9; 32], next: [10; 32] },
            reset_token: [7; 16],
        },
        "refused": JoinReply::Refused(_) => JoinReply::Refused(refusal(Reason::NoRight)),
        "logged-in": JoinReply::LoggedIn(_) => JoinReply::LoggedIn(accounts::new_session()),
        "admission": JoinReply::Admission(_) => JoinReply::Admission(AdmissionReply::Done),
        "device": JoinReply::Device(_) => JoinReply::Device(DeviceReply::Pending { interval_seconds: 5 }),
    });
    vectors.finish();
}

#[test]
fn the_words_of_master_and_security_server_have_their_bytes() {
    let mut vectors = Vectors::of("master_security", include_str!("../../../tests/vectors/master_security.txt"));
    let from = "2001:db8::7".parse().unwrap();
    compare!(vectors, SecurityRequest {
        "device": SecurityRequest::Device { .. } =>
            SecurityRequest::Device { request: DeviceRequest::Begin { provider: None, machine: "laptop".into() }, address: from },
        "check-user": SecurityRequest::CheckUser { .. } =>
            SecurityRequest::CheckUser { user: user(), secret: Secret::Token([7; 32]), address: from },
        "check-node": SecurityRequest::CheckNode { .. } =>
            SecurityRequest::CheckNode { node: node(), fingerprint: [8; 32], address: address().ip() },
        "accounts": SecurityRequest::Accounts { .. } => SecurityRequest::Accounts {
            by: Asker { rights: rights(), credential: CredentialId(0x77), address: from },
            request: AccountsRequest::WhoAmI(WhoAmIRequest),
        },
        "login": SecurityRequest::Login { .. } => SecurityRequest::Login {
            user: user(),
            secret: Secret::Password("battery staple".into()),
            address: from,
            machine: "laptop".into(),
        },
        "changes": SecurityRequest::Changes(_) => SecurityRequest::Changes(ChangeCursor { epoch: 5, number: 6 }),
        "recheck": SecurityRequest::Recheck(_) => SecurityRequest::Recheck(vec![HeldSession {
            user: user(),
            credential: CredentialId(0x77),
            address: from,
        }]),
        "admission": SecurityRequest::Admission(_) =>
            SecurityRequest::Admission(AdmissionRequest::Own(AdmissionVerb::Requests(WaitingMachinesRequest))),
        "audit": SecurityRequest::Audit(_) => SecurityRequest::Audit(audit::batch()),
        "health": SecurityRequest::Health => SecurityRequest::Health,
        "struck-off": SecurityRequest::StruckOff => SecurityRequest::StruckOff,
        "metrics": SecurityRequest::Metrics => SecurityRequest::Metrics,
    });
    let changes = AccountChanges { cursor: ChangeCursor { epoch: 5, number: 7 }, users: Some(vec![user()]) };
    compare!(vectors, SecurityReply {
        "device": SecurityReply::Device(_) => SecurityReply::Device(DeviceReply::Pending { interval_seconds: 5 }),
        "user": SecurityReply::User(_) => SecurityReply::User(known_user()),
        "node-allowed": SecurityReply::NodeAllowed => SecurityReply::NodeAllowed,
        "refused": SecurityReply::Refused(_) => SecurityReply::Refused(refusal(Reason::NotFound)),
        "accounts": SecurityReply::Accounts(_) => SecurityReply::Accounts(AccountsReply::Done),
        "session": SecurityReply::Session(_) => SecurityReply::Session(accounts::new_session()),
        "changes": SecurityReply::Changes(_) => SecurityReply::Changes(changes),
        "rechecked": SecurityReply::Rechecked(_) => SecurityReply::Rechecked(vec![Some(known_user()), None]),
        "admission": SecurityReply::Admission(_) => SecurityReply::Admission(AdmissionReply::Done),
        "audit": SecurityReply::Audit(_) => SecurityReply::Audit(AuditReply::Recorded(AuditHead::EMPTY)),
        "health": SecurityReply::Health(_) => SecurityReply::Health(vec!["the disk is full".into()]),
        "struck-off": SecurityReply::StruckOff(_) => SecurityReply::StruckOff(vec![node()]),
        "metrics": SecurityReply::Metrics(_) => SecurityReply::Metrics("# EOF\n".into()),
    });
    vectors.finish();
}
