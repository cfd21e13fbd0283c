//! Test vectors of the messages about rights. A vector never changes without a new codec version.

use super::{Vectors, acl, node, path, signed, slice, user};
use crate::{
    JobId, Principal, Rights, SectorPath,
    message::{
        access::{AclReply, AclRequest, AclStatus},
        request::{
            AddToAclRequest, ClearAclRequest, GetAclRequest, GiveToRequest, JobInputsRequest, RemoveFromAclRequest,
            SetAclRequest,
        },
    },
};

#[test]
fn the_words_about_rights_have_their_bytes() {
    let mut vectors = Vectors::of("acl", include_str!("../../../tests/vectors/acl.txt"));
    compare!(vectors, AclRequest {
        "get": AclRequest::Get(_) => AclRequest::Get(GetAclRequest(path())),
        "set": AclRequest::Set(_) => AclRequest::Set(SetAclRequest { path: path(), acl: acl() }),
        "remove": AclRequest::Remove(_) => AclRequest::Remove(RemoveFromAclRequest {
            path: path(),
            principals: vec![Principal::User(user()), Principal::Group("astro".into()), Principal::Everyone],
        }),
        "clear": AclRequest::Clear(_) => AclRequest::Clear(ClearAclRequest(path())),
        "give-to": AclRequest::GiveTo(_) => AclRequest::GiveTo(GiveToRequest { path: path(), owner: user() }),
        "inputs": AclRequest::Inputs(_) =>
            AclRequest::Inputs(JobInputsRequest { job: JobId(6), node: node(), slices: vec![slice()] }),
        "add": AclRequest::Add(_) => AclRequest::Add(AddToAclRequest { path: path(), acl: acl() }),
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
