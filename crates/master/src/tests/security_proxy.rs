//! Questions that the master passes on to the security server.

use protocol::{
    Reason,
    message::{
        accounts::{AccountsReply, AccountsRequest},
        master_security::{SecurityReply, SecurityRequest},
        request::WhoAmIRequest,
    },
};

use super::*;

const WHO: ClientRequest = ClientRequest::Accounts(AccountsRequest::WhoAmI(WhoAmIRequest));

#[test]
fn a_request_about_accounts_is_forwarded_with_its_asker_and_answered_likewise() {
    let mut bench = Bench::new(MasterConfig::default(), 1);
    let number = bench.ask_later("ann", WHO);
    assert_eq!(bench.answer(number), None);
    let (to, asked) = bench.security_asked.pop().unwrap();
    let SecurityRequest::Accounts { by, request: AccountsRequest::WhoAmI(WhoAmIRequest) } = asked else {
        panic!("{asked:?}")
    };
    assert_eq!((by.rights.user.as_str(), by.rights.admin, by.credential.0), ("ann", false, to.session.0));
    bench.hear_security(to, Ok(SecurityReply::Accounts(AccountsReply::Done)));
    assert_eq!(bench.answer(number), Some(ClientReply::Accounts(AccountsReply::Done)));
}

#[test]
fn where_the_security_server_is_away_or_talks_nonsense_the_client_hears_so() {
    let mut bench = Bench::new(MasterConfig::default(), 1);
    let away = Refusal::new(Reason::Unavailable, "away");
    for (reply, status) in [(Err(away), Status::Unavailable), (Ok(SecurityReply::NodeAllowed), Status::Failed)] {
        let number = bench.ask_later("ann", WHO);
        let (to, _) = bench.security_asked.pop().unwrap();
        bench.hear_security(to, reply);
        let answer = bench.answer(number);
        assert!(matches!(answer, Some(ClientReply::Refused(refusal)) if refusal.status() == status));
    }
}

// Promise 38.
#[test]
fn questions_that_wait_for_the_security_server_are_bounded() {
    let mut bench = Bench::new(MasterConfig::default(), 1);
    for _ in 0..32 {
        bench.ask_later("ann", WHO);
    }
    assert_eq!(bench.status_of("ann", WHO), Status::Unavailable);
    let number = bench.ask_later("bob", WHO);
    assert_eq!(bench.answer(number), None, "another goes on");
    bench.security_asked.pop();
    for _ in 0..2 {
        let (to, _) = bench.security_asked.pop().unwrap();
        bench.hear_security(to, Ok(SecurityReply::Accounts(AccountsReply::Done)));
    }
    let number = bench.ask_later("ann", WHO);
    assert_eq!(bench.answer(number), None, "there is room again");
}
