//! Sends frames over one conversation on the loopback, between two runtimes of one thread each, and prints the rate.
//!
//! `cargo run --release -p sector-net --example transfer_throughput -- [tcp|quic] [GIGABYTES] [FRAME_KIB]`

use std::{error::Error, net::SocketAddr, thread, time::Instant};

use net::{
    identity::{Authority, TlsIdentity},
    transfer::{Carrier, Listener, QuicCarrier, QuicSettings, StreamFrame, TcpCarrier, TransferStream},
};
use tokio::runtime::Builder;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> Outcome<()> {
    let mut arguments = std::env::args().skip(1);
    let over_quic = arguments.next().is_some_and(|carrier| carrier == "quic");
    let gigabytes: u64 = arguments.next().map_or(Ok(8), |text| text.parse())?;
    let frame_kib: usize = arguments.next().map_or(Ok(1024), |text| text.parse())?;
    let bytes = gigabytes * 1_000_000_000;

    let authority = Authority::create("throughput")?;
    let node = TlsIdentity::role(authority.certificate_pem(), &authority.issue("node-1")?)?;
    let client = TlsIdentity::client(authority.certificate_pem())?;
    let (address_sender, address_receiver) = std::sync::mpsc::sync_channel(1);

    let receiver = thread::spawn(move || receive(node, &address_sender));
    let started = Instant::now();
    Builder::new_current_thread().enable_all().build()?.block_on(send(
        client,
        address_receiver.recv()?,
        over_quic,
        bytes,
        frame_kib * 1024,
    ))?;
    let received = receiver.join().map_err(|_| "the receiver panicked")??;
    let seconds = started.elapsed().as_secs_f64();
    assert_eq!(received, bytes, "bytes were lost");
    println!("{received} bytes in {seconds:.2} s: {:.0} MB/s", received as f64 / 1e6 / seconds);
    Ok(())
}

fn receive(node: TlsIdentity, address: &std::sync::mpsc::SyncSender<SocketAddr>) -> Outcome<u64> {
    Builder::new_current_thread().enable_all().build()?.block_on(async {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let listener = Listener::bind_both(any, node, QuicSettings::default()).await?;
        address.send(listener.address())?;
        let mut stream = listener.accept().await?.handshake().await?;
        stream.admit();
        let (mut frame, mut bytes) = (StreamFrame::default(), 0);
        while stream.receive_frame(&mut frame).await? {
            bytes += frame.payload.len() as u64;
        }
        stream.send(&bytes).await?;
        stream.close().await;
        Ok(bytes)
    })
}

async fn send(
    client: TlsIdentity,
    address: SocketAddr,
    over_quic: bool,
    bytes: u64,
    frame_bytes: usize,
) -> Outcome<()> {
    let mut stream = connect(client, address, over_quic).await?;
    let payload: Vec<u8> = (0..frame_bytes).map(|at| ((at * 31) >> 3) as u8).collect();
    let mut left = bytes;
    while left > 0 {
        let now = left.min(frame_bytes as u64);
        stream.send_frame(&payload[..now as usize]).await?;
        left -= now;
    }
    stream.end_frames().await?;
    let received: u64 = stream.receive().await?;
    assert_eq!(received, bytes, "the other end counts the same");
    stream.close().await;
    Ok(())
}

async fn connect(client: TlsIdentity, address: SocketAddr, over_quic: bool) -> Outcome<TransferStream> {
    if over_quic {
        return Ok(QuicCarrier::new(client, QuicSettings::default()).connect(address, "node-1").await?);
    }
    Ok(TcpCarrier::new(client).connect(address, "node-1").await?)
}
