//! Words and frames over a pipe in memory, whose bytes the tests can see and spoil.
#![allow(clippy::unwrap_used)]

use protocol::wire::codec::{CodecError, VERSION};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

use super::*;

const BLOCK: usize = BLOCK_BYTES as usize;

fn address() -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 1], 7000))
}

fn stream_over(pipe: DuplexStream) -> TransferStream {
    TransferStream::in_memory(Box::new(pipe), address(), None, [0; 32])
}

/// A stream and the other end of its pipe, as raw bytes.
fn stream_and_raw() -> (TransferStream, DuplexStream) {
    let (ours, raw) = duplex(4 << 20);
    (stream_over(ours), raw)
}

/// Ends the data and gives all that the stream has put on the wire.
async fn wire_bytes(mut stream: TransferStream, mut raw: DuplexStream) -> Vec<u8> {
    stream.end_frames().await.unwrap();
    drop(stream);
    let mut bytes = Vec::new();
    raw.read_to_end(&mut bytes).await.unwrap();
    bytes
}

/// A stream to read from, in which `bytes` have arrived and after which the peer hung up.
async fn arrived(bytes: &[u8]) -> TransferStream {
    let (stream, mut raw) = stream_and_raw();
    raw.write_all(bytes).await.unwrap();
    stream
}

fn noise(bytes: usize, seed: u64) -> Vec<u8> {
    let mut rng = fastrand::Rng::with_seed(seed);
    std::iter::repeat_with(|| rng.u8(..)).take(bytes).collect()
}

#[tokio::test]
async fn a_word_stands_on_the_wire_as_documented() {
    let (mut stream, raw) = stream_and_raw();
    stream.send(&7u32).await.unwrap();
    assert_eq!(wire_bytes(stream, raw).await, [0, 0, 0, 2, VERSION, 7, 0, 0, 0, 0]);
}

#[tokio::test]
async fn a_frame_stands_on_the_wire_as_documented() {
    let (mut stream, raw) = stream_and_raw();
    // RFC 3720, B.4: the CRC32C of 32 zero bytes is aa 36 91 8a, least significant byte first.
    stream.send_frame(&[0; 32]).await.unwrap();
    let expected = [&[0, 0, 0, 32, 0x8a, 0x91, 0x36, 0xaa][..], &[0; 32], &[0; 4]].concat();
    assert_eq!(wire_bytes(stream, raw).await, expected);
}

#[tokio::test]
async fn words_and_frames_arrive_as_sent_in_order() {
    let (ours, theirs) = duplex(64 * 1024);
    let (mut ours, mut theirs) = (stream_over(ours), stream_over(theirs));
    let lengths = [1, 2, BLOCK - 1, BLOCK, BLOCK + 1, FRAME_BYTES_MAX - 1, FRAME_BYTES_MAX, 5];
    let sending = async {
        ours.send(&"before".to_owned()).await.unwrap();
        for (seed, length) in (0..).zip(lengths) {
            ours.send_frame(&noise(length, seed)).await.unwrap();
        }
        ours.end_frames().await.unwrap();
        ours.send(&noise(3 << 20, 99)).await.unwrap();
        ours.close().await;
    };
    let receiving = async {
        assert_eq!(theirs.receive::<String>().await.unwrap(), "before");
        let mut frame = StreamFrame::default();
        for (seed, length) in (0..).zip(lengths) {
            assert!(theirs.receive_frame(&mut frame).await.unwrap());
            assert!(frame.payload == noise(length, seed), "frame of {length} bytes");
            assert_eq!(frame.checksums, stream_frame::checksums(&frame.payload).collect::<Vec<_>>());
        }
        assert!(!theirs.receive_frame(&mut frame).await.unwrap());
        assert!(frame.payload.is_empty() && frame.checksums.is_empty());
        assert!(theirs.receive::<Vec<u8>>().await.unwrap() == noise(3 << 20, 99));
        assert_eq!(theirs.receive_or_end::<u8>().await.unwrap(), None);
    };
    tokio::join!(sending, receiving);
}

#[tokio::test]
async fn an_empty_frame_is_not_sent_since_it_would_end_the_data() {
    let (mut stream, raw) = stream_and_raw();
    stream.send_frame(&[]).await.unwrap();
    assert_eq!(wire_bytes(stream, raw).await, [0; 4]);
}

#[tokio::test]
async fn data_without_any_bytes_is_just_its_end() {
    let mut stream = arrived(&[0; 4]).await;
    assert!(!stream.receive_frame(&mut StreamFrame::default()).await.unwrap());
}

#[tokio::test]
async fn a_damaged_block_is_named_and_the_next_frame_can_still_be_read() {
    let (mut stream, raw) = stream_and_raw();
    stream.send_frame(&noise(3 * BLOCK, 1)).await.unwrap();
    stream.send_frame(b"whole").await.unwrap();
    let mut bytes = wire_bytes(stream, raw).await;
    // The head has 4 + 3 * 4 bytes: this is in the second block.
    bytes[16 + BLOCK + 100] ^= 0x10;
    let mut stream = arrived(&bytes).await;
    let mut frame = StreamFrame::default();
    let error = stream.receive_frame(&mut frame).await.unwrap_err();
    assert!(matches!(error, NetError::Corrupt { block: 1, .. }), "{error}");
    assert!(frame.payload.is_empty(), "damaged bytes are given to nobody");
    assert!(stream.receive_frame(&mut frame).await.unwrap());
    assert_eq!(frame.payload, b"whole");
}

#[tokio::test]
async fn a_damaged_checksum_is_found_like_damaged_bytes() {
    let (mut stream, raw) = stream_and_raw();
    stream.send_frame(b"bytes").await.unwrap();
    let mut bytes = wire_bytes(stream, raw).await;
    bytes[7] ^= 1;
    let error = arrived(&bytes).await.receive_frame(&mut StreamFrame::default()).await.unwrap_err();
    assert!(matches!(error, NetError::Corrupt { block: 0, .. }), "{error}");
}

#[tokio::test]
async fn checksums_from_elsewhere_travel_as_given() {
    let payload = noise(BLOCK + 1, 3);
    let checksums: Vec<u32> = stream_frame::checksums(&payload).collect();
    let (mut computed, raw_computed) = stream_and_raw();
    computed.send_frame(&payload).await.unwrap();
    let (mut given, raw_given) = stream_and_raw();
    given.send_checked_frame(&payload, &checksums).await.unwrap();
    assert!(wire_bytes(given, raw_given).await == wire_bytes(computed, raw_computed).await);

    // Bytes that went bad after their checksum was computed are the receiver's to find.
    let (mut stream, raw) = stream_and_raw();
    stream.send_checked_frame(&noise(BLOCK + 1, 4), &checksums).await.unwrap();
    let bytes = wire_bytes(stream, raw).await;
    let error = arrived(&bytes).await.receive_frame(&mut StreamFrame::default()).await.unwrap_err();
    assert!(matches!(error, NetError::Corrupt { block: 0, .. }), "{error}");

    let (mut stream, raw) = stream_and_raw();
    assert!(stream.send_checked_frame(&payload, &checksums[..1]).await.is_err());
    assert_eq!(wire_bytes(stream, raw).await, [0; 4]);
}

#[tokio::test]
async fn a_frame_or_word_that_is_too_long_is_not_sent() {
    let (mut stream, raw) = stream_and_raw();
    let error = stream.send_frame(&vec![0; FRAME_BYTES_MAX + 1]).await.unwrap_err();
    assert_eq!(error.to_string(), "a frame of 1048577 bytes is longer than the 1048576 bytes allowed");
    let error = stream.send(&vec![0u8; TRANSFER_MESSAGE_BYTES_MAX]).await.unwrap_err();
    assert!(matches!(error, NetError::TooLong { .. }), "{error}");
    assert_eq!(wire_bytes(stream, raw).await, [0; 4]);
}

#[tokio::test]
async fn a_frame_that_claims_too_much_is_refused_by_its_length_alone() {
    // The pipe stays open: a receiver that believed the length would wait for ever.
    let (mut stream, mut raw) = stream_and_raw();
    raw.write_all(&(FRAME_BYTES_MAX as u32 + 1).to_be_bytes()).await.unwrap();
    let mut frame = StreamFrame::default();
    let error = stream.receive_frame(&mut frame).await.unwrap_err();
    assert!(matches!(error, NetError::TooLong { .. }), "{error}");
    assert_eq!(frame.payload.capacity(), 0);
}

#[tokio::test]
async fn a_word_that_claims_too_much_is_refused_by_its_length_alone() {
    for length in [TRANSFER_MESSAGE_BYTES_MAX as u32 + 1, u32::MAX] {
        let (mut stream, mut raw) = stream_and_raw();
        raw.write_all(&length.to_be_bytes()).await.unwrap();
        let error = stream.receive::<Vec<u8>>().await.unwrap_err();
        assert!(matches!(error, NetError::TooLong { .. }), "{error}");
    }
}

#[tokio::test]
async fn bytes_that_are_no_message_are_malformed() {
    for (body, reason) in [
        (&[VERSION, 0xff][..], CodecError::Malformed),
        (&[], CodecError::Empty),
        (&[9, 7], CodecError::Version(9)),
        (&[VERSION, 7, 7], CodecError::TrailingBytes(1)),
    ] {
        let mut stream = arrived(&[&(body.len() as u32).to_be_bytes()[..], body].concat()).await;
        let error = stream.receive::<u32>().await.unwrap_err();
        assert!(matches!(error, NetError::Malformed { source, .. } if source == reason), "{error}");
    }
}

#[tokio::test]
async fn a_peer_that_hangs_up_anywhere_inside_is_noticed() {
    let (mut stream, raw) = stream_and_raw();
    stream.send_frame(b"frame").await.unwrap();
    let frame = wire_bytes(stream, raw).await;
    let frame = &frame[..frame.len() - 4];
    // Without the empty frame even a whole one is not the end of the data.
    for cut in 0..=frame.len() {
        let mut stream = arrived(&frame[..cut]).await;
        let mut received = StreamFrame::default();
        let mut end = stream.receive_frame(&mut received).await;
        if cut == frame.len() {
            assert!(end.unwrap());
            end = stream.receive_frame(&mut received).await;
        }
        let error = end.unwrap_err();
        assert!(matches!(error, NetError::Closed { operation: "receiving a frame", .. }), "{cut}: {error}");
    }
    let word = [0, 0, 0, 2, 1, 7];
    assert_eq!(arrived(&[]).await.receive_or_end::<u32>().await.unwrap(), None);
    assert!(matches!(arrived(&[]).await.receive::<u32>().await, Err(NetError::Closed { .. })));
    for cut in 1..word.len() {
        let error = arrived(&word[..cut]).await.receive_or_end::<u32>().await.unwrap_err();
        assert!(matches!(error, NetError::Closed { operation: "receiving a message", .. }), "{cut}: {error}");
    }
}

#[tokio::test]
async fn small_frames_that_wait_are_sent_before_an_answer_is_waited_for() {
    let (ours, theirs) = duplex(64 * 1024);
    let (mut ours, mut theirs) = (stream_over(ours), stream_over(theirs));
    let asking = async {
        ours.send_frame(b"small").await.unwrap();
        assert_eq!(ours.receive::<u32>().await.unwrap(), 5);
    };
    let answering = async {
        let mut frame = StreamFrame::default();
        assert!(theirs.receive_frame(&mut frame).await.unwrap());
        theirs.send(&(frame.payload.len() as u32)).await.unwrap();
    };
    tokio::join!(asking, answering);
}

#[tokio::test]
async fn keys_exported_in_memory_agree_when_secret_label_and_context_do() {
    let end = |secret| TransferStream::in_memory(Box::new(duplex(1).0), address(), Some("node-1"), secret);
    let key = end([1; 32]).export_key(b"label", b"context").unwrap();
    assert_eq!(end([1; 32]).export_key(b"label", b"context").unwrap(), key);
    for (secret, label, context) in
        [([2; 32], &b"label"[..], &b"context"[..]), ([1; 32], b"labelc", b"ontext"), ([1; 32], b"label", b"")]
    {
        assert_ne!(end(secret).export_key(label, context).unwrap(), key);
    }
    assert!(end([1; 32]).peer_certificate().is_some_and(|shown| shown.is_of("node-1")));
}
