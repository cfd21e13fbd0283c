//! Thousands of strangers that connect to servers from one address. The caller measures what other clients notice of
//! them. A stranger that is disconnected returns a second later, until the flood is dropped. Strangers never present
//! a ticket.

use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use net::{
    identity::TlsIdentity,
    transfer::{Carrier, TcpCarrier},
};
use protocol::{TransferQos, message::transfer::TransferRequest};
use tokio::{
    io::AsyncReadExt,
    net::TcpSocket,
    runtime::{Builder, Runtime},
    time::sleep,
};

/// What strangers do once they are connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FloodKind {
    /// Nothing, not even a TLS handshake.
    Silent,
    /// Each second, a message that needs no ticket.
    Chattering,
}

/// A server to connect to, with the name in its certificate.
#[derive(Clone, Debug)]
pub struct FloodTarget {
    /// Where it is.
    pub address: SocketAddr,
    /// Whose certificate is shown there.
    pub name: String,
}

/// Strangers at work, until this is dropped.
pub struct ConnectionFlood(Option<Runtime>);

impl ConnectionFlood {
    /// `count` strangers at each of `doors`, from the address `from`, in the cloud of this authority.
    ///
    /// # Errors
    /// A sentence, if this machine has no room for them.
    pub fn start(
        doors: &[FloodTarget],
        from: IpAddr,
        count: usize,
        manner: FloodKind,
        authority: &str,
    ) -> Result<Self, String> {
        let text = |error: &dyn std::error::Error| error.to_string();
        let runtime =
            Builder::new_multi_thread().worker_threads(1).enable_all().build().map_err(|error| text(&error))?;
        let identity = TlsIdentity::client(authority).map_err(|error| text(&error))?;
        let carrier = TcpCarrier::new(identity).with_local_address(from);
        for door in doors {
            for number in 0..count {
                let (door, carrier) = (door.clone(), carrier.clone());
                runtime.spawn(async move {
                    // Not all at the same moment: a server's accept queue would overflow and drop other clients too.
                    sleep(PAUSE.mul_f64(number as f64 / count as f64)).await;
                    loop {
                        match manner {
                            FloodKind::Silent => stand_silent(&door, from).await,
                            FloodKind::Chattering => chatter(&door, &carrier).await,
                        }
                        sleep(PAUSE).await;
                    }
                });
            }
        }
        Ok(Self(Some(runtime)))
    }
}

impl Drop for ConnectionFlood {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// Waits silently until the other end closes the connection.
async fn stand_silent(door: &FloodTarget, from: IpAddr) {
    let connected = async {
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::new(from, 0))?;
        let mut socket = socket.connect(door.address).await?;
        socket.read(&mut [0]).await
    };
    // However the connection ends, the stranger comes again.
    let _ = connected.await;
}

async fn chatter(door: &FloodTarget, carrier: &TcpCarrier) {
    let Ok(mut stream) = carrier.connect(door.address, &door.name).await else { return };
    while stream.send(&TransferRequest::Qos(TransferQos::default())).await.is_ok() {
        sleep(PAUSE).await;
    }
}

/// Time between two messages, and before a stranger comes again.
const PAUSE: Duration = Duration::from_secs(1);
