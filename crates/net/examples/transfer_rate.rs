//! What a transfer connection costs a processor: frames through TLS over the loopback, beside what they are made of.
//! Run it with `cargo run --release -p sector-net --example transfer_rate`; it prints seconds and seconds of processor
//! time for each GB, for both ends together.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    time::{Duration, Instant},
};

use net::{
    identity::{Authority, TlsIdentity},
    transfer::{Carrier, Frame, Listener, TcpCarrier},
};
use protocol::limits::FRAME_BYTES_MAX;
use ring::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let gigabytes: u64 = std::env::args().nth(1).map_or(Ok(4), |text| text.parse())?;
    let frames = gigabytes * 1_000_000_000 / FRAME_BYTES_MAX as u64;
    let frame: Vec<u8> = (0..FRAME_BYTES_MAX).map(|at| (at * 31 >> 3) as u8).collect();
    measure("CRC32C of blocks, once", gigabytes, || {
        let sums =
            (0..frames).map(|_| protocol::wire::frame::checksums(std::hint::black_box(&frame)).fold(0, |a, b| a ^ b));
        std::hint::black_box(sums.fold(0, |a, b| a ^ b));
        Ok(())
    })?;
    measure("AES-128-GCM of records, sealed once", gigabytes, || {
        let key = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &[7; 16]).map_err(|_| "no key")?);
        let mut records = frame.clone();
        for _ in 0..frames {
            for record in records.chunks_mut(16_384) {
                let nonce = Nonce::assume_unique_for_key([0; 12]);
                let tag = key.seal_in_place_separate_tag(nonce, Aad::empty(), record).map_err(|_| "not sealed")?;
                std::hint::black_box(tag);
            }
        }
        Ok(())
    })?;
    measure("TCP over the loopback, both ends", gigabytes, || plain(&frame, frames))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    measure("frames through TLS, both ends", gigabytes, || runtime.block_on(frames_through_tls(&frame, frames)))
}

/// The same number of bytes without TLS, in pieces of 256 KiB.
fn plain(frame: &[u8], frames: u64) -> Result<(), Box<dyn std::error::Error>> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    std::thread::scope(|scope| {
        let receiving = scope.spawn(move || -> std::io::Result<()> {
            let (mut socket, _) = listener.accept()?;
            let mut buffer = vec![0; 256 * 1024];
            while socket.read(&mut buffer)? > 0 {}
            Ok(())
        });
        let mut socket = TcpStream::connect(address)?;
        for _ in 0..frames {
            for piece in frame.chunks(256 * 1024) {
                socket.write_all(piece)?;
            }
        }
        drop(socket);
        Ok(receiving.join().map_err(|_| "the receiver failed")??)
    })
}

/// One connection, one direction; checksums are computed by the sender and compared by the receiver.
async fn frames_through_tls(frame: &[u8], frames: u64) -> Result<(), Box<dyn std::error::Error>> {
    let authority = Authority::create("example")?;
    let identity = TlsIdentity::role(authority.certificate_pem(), &authority.issue("node")?)?;
    let listener = Listener::bind(([127, 0, 0, 1], 0).into(), identity.clone()).await?;
    let address = listener.address();
    let receiving = tokio::spawn(async move {
        let mut stream = listener.accept().await?.handshake().await?;
        let mut frame = Frame::default();
        while stream.receive_frame(&mut frame).await? {}
        Ok::<_, net::NetError>(())
    });
    let mut stream = TcpCarrier::new(identity).connect(address, "node").await?;
    let checksums: Vec<u32> = protocol::wire::frame::checksums(frame).collect();
    let frame = frame.to_vec();
    let sending = tokio::spawn(async move {
        for _ in 0..frames {
            stream.send_checked_frame(&frame, &checksums).await?;
        }
        stream.end_frames().await?;
        Ok::<_, net::NetError>(stream)
    });
    let _stream = sending.await??;
    Ok(receiving.await??)
}

fn measure(
    what: &str,
    gigabytes: u64,
    work: impl FnOnce() -> Result<(), Box<dyn std::error::Error>>,
) -> Result<(), Box<dyn std::error::Error>> {
    let (begun, processor) = (Instant::now(), processor_time()?);
    work()?;
    let per_gb = |time: Duration| time.as_secs_f64() / gigabytes as f64;
    let (time, processor) = (per_gb(begun.elapsed()), per_gb(processor_time()?.saturating_sub(processor)));
    println!("{what:40} {time:.3} s, {processor:.3} s of processor time");
    Ok(())
}

/// Processor time of this process so far: fields 14 and 15 of Linux's `stat`, in hundredths of a second.
fn processor_time() -> Result<Duration, Box<dyn std::error::Error>> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields).split(' ');
    let ticks: u64 = fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Ok(Duration::from_millis(ticks * 10))
}
