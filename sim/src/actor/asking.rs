//! How every client asks the master, and how long it waits. It never looks at an answer.

use std::time::Duration;

use protocol::{message::client_master::ClientRequest, wire::codec};

use crate::{
    environment::{
        Environment,
        queue::{Event, Participant},
    },
    role::MasterLink,
};

/// Asks the master. Without a session, a timer stands in for a missing answer.
pub(super) fn ask(
    env: &mut Environment,
    master_link: &mut MasterLink,
    request: &ClientRequest,
    tag: u64,
    patience: Duration,
) {
    match master_link.session {
        Some(session) => master_link.messenger.ask(env.now, session, codec::encode(request), tag, patience),
        None => later(env, master_link, WITHOUT_SESSION, tag),
    }
}

/// Has a client called after a while.
pub(super) fn later(env: &mut Environment, master_link: &MasterLink, span: Duration, tag: u64) {
    if let Participant::Client(client) = master_link.who {
        env.after(span, Event::Timer { client, tag });
    }
}

/// How long a client waits for an answer: less than a real one, since there is more to do.
pub(super) const PATIENCE: Duration = Duration::from_secs(6);
/// How long it waits for a commit, which waits for copies.
pub(super) const COMMIT_PATIENCE: Duration = Duration::from_secs(25);
/// How soon a client that has no session tries again.
pub(super) const WITHOUT_SESSION: Duration = Duration::from_millis(300);
