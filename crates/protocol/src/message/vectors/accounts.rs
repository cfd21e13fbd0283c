//! Test vectors of what is said about accounts.

use super::{Vectors, known_user, user};
use crate::message::accounts::{AccountsReply, AccountsRequest, NewUser, Password, UserStatus};

#[test]
fn the_words_about_accounts_have_their_bytes() {
    let mut vectors = Vectors::of("accounts", include_str!("../../../tests/vectors/accounts.txt"));
    let addresses = vec!["10.0.0.0/8".parse().unwrap()];
    let new = NewUser {
        user: user(),
        password: Some(Password("correct horse".into())),
        groups: vec!["astro".into()],
        admin: true,
        addresses: addresses.clone(),
    };
    compare!(vectors, AccountsRequest {
        "who-am-i": AccountsRequest::WhoAmI => AccountsRequest::WhoAmI,
        "users": AccountsRequest::Users { .. } => AccountsRequest::Users { after: Some(user()) },
        "add-user": AccountsRequest::AddUser(_) => AccountsRequest::AddUser(new),
        "remove-user": AccountsRequest::RemoveUser(_) => AccountsRequest::RemoveUser(user()),
    });
    let status = UserStatus { user: user(), groups: vec![], admin: false, addresses, has_password: true, tokens: 2 };
    compare!(vectors, AccountsReply {
        "done": AccountsReply::Done => AccountsReply::Done,
        "you": AccountsReply::You(_) => AccountsReply::You(known_user()),
        "users": AccountsReply::Users { .. } => AccountsReply::Users { users: vec![status], more: true },
    });
    vectors.finish();
}
