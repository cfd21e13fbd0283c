//! The exchange with which a machine or a person joins: one request to the master, and its answer. It serves login,
//! sessions and enrolment. A master with many strangers hangs up on some before it reads their requests; they try
//! again. It never decides who is let in: the master does.

use std::time::Duration;

use net::{
    NetError,
    transfer::{TcpCarrier, TransferStream, connect_to_host},
};
use protocol::{
    HostAddress,
    message::join::{JoinReply, JoinRequest},
};

/// Asks the master at `address`; gives the answer, and the connection on which it came. Asking twice is the same as
/// asking once: what was begun for a lost answer is not used, and ends by itself.
///
/// # Errors
/// Those of the connection, after a few tries if the master hung up.
pub(crate) async fn ask_to_join(
    carrier: &TcpCarrier,
    address: &HostAddress,
    request: &JoinRequest,
) -> Result<(TransferStream, JoinReply), NetError> {
    retry_on_hang_up(|| async {
        let mut stream = connect_to_host(carrier, address, "master").await?;
        stream.send(request).await?;
        let reply = stream.receive().await?;
        Ok((stream, reply))
    })
    .await
}

/// Tries again if the other end hung up.
async fn retry_on_hang_up<T, F: Future<Output = Result<T, NetError>>>(
    mut once: impl FnMut() -> F,
) -> Result<T, NetError> {
    let mut pauses = RETRY_PAUSES.into_iter();
    loop {
        match once().await {
            Err(error @ (NetError::Closed { .. } | NetError::Broken { .. })) => {
                let Some(pause) = pauses.next() else { return Err(error) };
                tracing::debug!(%error, "knocks again");
                tokio::time::sleep(pause).await;
            }
            done => return done,
        }
    }
}

/// How long to wait between two tries. A silent stranger loses its place after [`net::strangers::PATIENCE`], and
/// together these pauses are longer.
const RETRY_PAUSES: [Duration; 3] = [Duration::from_millis(250), Duration::from_secs(1), Duration::from_secs(2)];

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::cell::Cell;

    use super::*;

    fn hung_up() -> NetError {
        NetError::Closed { peer: ([127, 0, 0, 1], 7000).into(), operation: "the handshake" }
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_hung_up_on_knocks_again_for_longer_than_anyone_stands_still_at_the_door() {
        assert!(RETRY_PAUSES.iter().sum::<Duration>() > net::unauthenticated::EVICTION_GRACE);
        let knocks = Cell::new(0);
        let third = retry_on_hang_up(async || {
            knocks.set(knocks.get() + 1);
            if knocks.get() < 3 { Err(hung_up()) } else { Ok(knocks.get()) }
        });
        assert_eq!(third.await.unwrap(), 3);
        knocks.set(0);
        let never = retry_on_hang_up(async || {
            knocks.set(knocks.get() + 1);
            Err::<(), _>(hung_up())
        });
        assert!(matches!(never.await, Err(NetError::Closed { .. })));
        assert_eq!(knocks.get(), RETRY_PAUSES.len() + 1);
    }

    #[tokio::test(start_paused = true)]
    async fn where_nobody_listens_nobody_knocks_twice() {
        let knocks = Cell::new(0);
        let refused = retry_on_hang_up(async || {
            knocks.set(knocks.get() + 1);
            let address = ([127, 0, 0, 1], 7000).into();
            let source = std::io::ErrorKind::ConnectionRefused.into();
            Err::<(), _>(NetError::Connect { server: "master".into(), address, source })
        });
        assert!(refused.await.is_err());
        assert_eq!(knocks.get(), 1);
    }
}
