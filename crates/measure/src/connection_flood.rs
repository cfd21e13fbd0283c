//! Strangers at a door, by the thousand and from one address: what others notice of them is measured by whoever makes
//! them. They come back a second after they were hung up on, for as long as they are wanted.

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
    /// A word that needs no ticket, each second.
    Chattering,
}

/// A door with the name in its certificate.
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
    /// `count` strangers at each of `doors`, from the address `from`, in a cloud of this authority.
    ///
    /// # Errors
    /// A sentence, where there is no room for them on this machine.
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
                    // Not all in one moment: the system's queue of a door would drop some of anybody's.
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

/// Until the other end hangs up.
async fn stand_silent(door: &FloodTarget, from: IpAddr) {
    let connected = async {
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::new(from, 0))?;
        let mut socket = socket.connect(door.address).await?;
        socket.read(&mut [0]).await
    };
    // Whatever it ends by, it comes again.
    let _ = connected.await;
}

async fn chatter(door: &FloodTarget, carrier: &TcpCarrier) {
    let Ok(mut stream) = carrier.connect(door.address, &door.name).await else { return };
    while stream.send(&TransferRequest::Qos(TransferQos::default())).await.is_ok() {
        sleep(PAUSE).await;
    }
}

/// Between two words, and before a stranger comes again.
const PAUSE: Duration = Duration::from_secs(1);
