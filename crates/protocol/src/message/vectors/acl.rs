//! Test vectors of the messages about rights. A vector never changes without a new codec version.

use super::{Vectors, acl, node, path, signed, slice, user};
use crate::{
    JobId, Principal, Rights, SectorPath,
    message::access::{AclReply, AclRequest, AclStatus},
};

#[test]
fn the_words_about_rights_have_their_bytes() {
    let mut vectors = Vectors::of("acl", include_str!("../../../tests/vectors/acl.txt"));
    compare!(vectors, AclRequest {
        "get": AclRequest::Get(_) => AclRequest::Get(path()),
        "set": AclRequest::Set { .. } => AclRequest::Set { path: path(), acl: acl() },
        "remove": AclRequest::Remove { .. } => AclRequest::Remove {
            path: path(),
            principals: vec![Principal::User(user()), Principal::Group("astro".into()), Principal::Everyone],
        },
        "clear": AclRequest::Clear(_) => AclRequest::Clear(path()),
        "give-to": AclRequest::GiveTo { .. } => AclRequest::GiveTo { path: path(), owner: user() },
        "inputs": AclRequest::Inputs { .. } =>
            AclRequest::Inputs { job: JobId(6), node: node(), slices: vec![slice()] },
    });
    let status = AclStatus {
        path: path(),
        owner: user(),
        own: None,
        effective: acl(),
        from: Some(SectorPath::root()),
        mine: Rights::ALL,
    };
    compare!(vectors, AclReply {
        "status": AclReply::Status(_) => AclReply::Status(status),
        "inputs": AclReply::Inputs(_) => AclReply::Inputs(signed()),
    });
    vectors.finish();
}
