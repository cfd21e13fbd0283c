//! One function for each parser of untrusted input. It takes any bytes, must not panic, and checks the invariants of
//! everything the parser accepts. libFuzzer calls the functions (`fuzz_targets/`), and so does an ordinary test with
//! mutated test vectors (`tests/`). A parser added to another crate gets a function here, a line in [`TARGETS`], and
//! a file in `fuzz_targets/`.

use std::{io::Cursor, net::SocketAddr, time::Duration};

use data_encoding::BASE32_NOPAD;
use fits::{Cutout, ImageFile, PixelBox, Provenance, Selection, sky::SkyPosition};
use master::{JournalLoader, Master, MasterConfig, SignTickets, TABLES};
use net::{
    NetError,
    identity::{ProvedKey, is_signed},
    transfer::{StreamFrame, TransferStream},
};
use protocol::{
    Acl, JoinTicket, Now, SectorPath, SessionId,
    gmp::{Class, Endpoint, EndpointAction, Frames, KeyLimits, Message, MessageKind, OpenMode},
    limits,
    message::{
        accounts,
        admission::{CertificateRequest, Enrolment},
        audit, client_master, join, local, master_security, node_master,
        rebuild::MirrorRow,
        spe, transfer,
    },
    slice::block_count,
    ticket::{SignedTicket, Ticket, TicketKeys},
    ticket_verifier::TicketVerifier,
    wire::{codec, datagram, stream_frame},
};
use serde::{Serialize, de::DeserializeOwned};
use sphere::records::{
    parquet_footer::{TAIL_BYTES, footer_bytes, row_groups},
    record_index::IndexHeader,
};
use store::{SIDECAR_VERSION, Sidecar};
use vo::votable::TextTable;

/// A fuzz target.
pub type Target = fn(&[u8]);

/// Every target by its name.
pub const TARGETS: [(&str, Target); 16] = [
    ("acl", acl),
    ("child_words", child_words),
    ("enrolment", enrolment),
    ("fits_image", fits_image),
    ("kept_rows", kept_rows),
    ("sky_words", sky_words),
    ("words", words),
    ("sector_path", sector_path),
    ("messages", messages),
    ("datagram", datagram),
    ("strangers", strangers),
    ("frame_head", frame_head),
    ("ticket", ticket),
    ("sidecar", sidecar),
    ("record_files", record_files),
    ("votable", votable),
];

/// A text as a list of rights: an accepted list has no entry twice and none without a right, and reads back as
/// itself.
pub fn acl(bytes: &[u8]) {
    let Ok(acl) = String::from_utf8_lossy(bytes).parse::<Acl>() else { return };
    assert_eq!(acl.to_string().parse().as_ref(), Ok(&acl));
    assert!(acl.entries().len() <= limits::ACL_ENTRIES_MAX);
    assert!(acl.entries().windows(2).all(|pair| pair[0].principal < pair[1].principal));
    assert!(acl.entries().iter().all(|entry| !entry.rights.is_empty()));
    decoded::<Acl>(&codec::encode(&acl));
}

/// Bytes as a FITS file: whatever it claims, a cutout of it is a FITS file with those pixels, or an error.
pub fn fits_image(bytes: &[u8]) {
    let Ok(mut file) = ImageFile::open(bytes) else { return };
    let images = file.images().to_vec();
    for image in images.iter().take(4) {
        let part = PixelBox::new(image.shape.iter().map(|length| (1, (*length).min(8))).collect());
        let Ok(part) = part else { continue };
        let cutout = Cutout { parts: vec![(image.hdu, part.clone())] };
        if let Ok(made) = cutout.fits(&mut file, &Provenance::default()) {
            let made = ImageFile::open(made.as_slice()).expect("a cutout is a FITS file");
            assert_eq!(made.images()[0].shape, part.shape());
        }
        for region in ["CIRCLE 10 20 0.1", "RANGE 0 360 -90 90", "AROUND 202.47 47.2 1 1"] {
            let _ = Cutout::find(&mut file, &region.parse().expect("a selection"));
        }
    }
}

/// A text as what to cut out, and as a position: what is accepted reads back as itself.
pub fn sky_words(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(selection) = text.parse::<Selection>() {
        assert_eq!(selection.to_string().parse::<Selection>().expect("its own text"), selection);
    }
    if let Ok(position) = text.parse::<SkyPosition>() {
        assert!((0.0..=360.0).contains(&position.ra_degrees) && (-90.0..=90.0).contains(&position.dec_degrees));
    }
}

/// Bytes as a VOTable: no accepted row has more values than there are columns, and what is held is in proportion.
pub fn votable(bytes: &[u8]) {
    let Ok(table) = TextTable::read(bytes) else { return };
    assert!(table.rows.iter().all(|row| row.len() <= table.fields.len()));
    assert!(table.rows.iter().map(Vec::len).sum::<usize>() <= bytes.len());
}

/// Bytes as the head of an index, and as the footer of a Parquet file: accepted row groups lie in order before it.
pub fn record_files(bytes: &[u8]) {
    if let Ok(header) = IndexHeader::decode(bytes) {
        assert_eq!(IndexHeader::decode(&header.encode()), Ok(header));
    }
    let length = bytes.len() as u64;
    if let Ok(footer) = footer_bytes(&bytes[bytes.len().saturating_sub(TAIL_BYTES)..], length) {
        assert!(footer < length);
    }
    let Ok(groups) = row_groups(bytes, 1 << 40) else { return };
    assert!(groups.len() <= bytes.len());
    assert!(groups.is_sorted_by_key(|group| group.from) && groups.iter().all(|group| group.from <= 1 << 40));
}

/// A text as a path: an accepted path is normal, stays below the root, and reads back as itself.
pub fn sector_path(bytes: &[u8]) {
    let Ok(path) = SectorPath::parse(&String::from_utf8_lossy(bytes)) else { return };
    assert_eq!(SectorPath::parse(path.as_str()).as_ref(), Ok(&path));
    assert!(path.as_str().len() <= limits::PATH_BYTES_MAX);
    assert!(path.components().all(|component| !matches!(component, "" | "." | "..") && !component.contains('\0')));
    assert!(!std::path::Path::new(path.relative()).is_absolute());
    assert!(path.is_within(&SectorPath::root()));
    if let (Some(parent), Some(name)) = (path.parent(), path.name()) {
        assert!(path.is_within(&parent));
        assert_eq!(parent.join(name).as_ref(), Ok(&path));
    }
}

/// The bytes as a message of every door.
pub fn messages(bytes: &[u8]) {
    decoded::<join::JoinRequest>(bytes);
    decoded::<join::JoinReply>(bytes);
    decoded::<master_security::SecurityRequest>(bytes);
    decoded::<master_security::SecurityReply>(bytes);
    decoded::<accounts::AccountsRequest>(bytes);
    decoded::<accounts::AccountsReply>(bytes);
    decoded::<audit::AuditRequest>(bytes);
    decoded::<audit::AuditReply>(bytes);
    decoded::<local::LocalRequest>(bytes);
    decoded::<client_master::ClientRequest>(bytes);
    decoded::<client_master::ClientReply>(bytes);
    decoded::<node_master::Order>(bytes);
    decoded::<node_master::Report>(bytes);
    decoded::<node_master::Ack>(bytes);
    decoded::<transfer::TransferRequest>(bytes);
    decoded::<transfer::TransferReply>(bytes);
    decoded::<spe::SpeRequest>(bytes);
    decoded::<spe::SpeReply>(bytes);
    decoded::<local::LocalRequest>(bytes);
    decoded::<local::LocalReply>(bytes);
}

/// The bytes as they come on a transfer connection, either as messages or as frames. A peer that has not identified
/// itself sends messages, each behind its length. Of the frames, only valid ones are given out.
pub fn words(bytes: &[u8]) {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().build() else { return };
    let stream = || {
        let pipe = tokio::io::join(Cursor::new(bytes.to_vec()), tokio::io::sink());
        TransferStream::in_memory(Box::new(pipe), SocketAddr::from(([127, 0, 0, 1], 1)), None, [0; 32])
    };
    runtime.block_on(async {
        let (mut joining, mut asking, mut sending) = (stream(), stream(), stream());
        while let Ok(Some(_)) = joining.receive_or_end::<join::JoinRequest>().await {}
        while let Ok(Some(_)) = asking.receive_or_end::<transfer::TransferRequest>().await {}
        let (mut frame, mut given_bytes) = (StreamFrame::default(), 0);
        loop {
            match sending.receive_frame(&mut frame).await {
                Ok(true) => {
                    let blocks = frame.payload.chunks(limits::BLOCK_BYTES as usize);
                    assert!(blocks.map(crc32c::crc32c).eq(frame.checksums.iter().copied()));
                    given_bytes += frame.payload.len();
                    assert!(frame.payload.len() <= limits::FRAME_BYTES_MAX && given_bytes <= bytes.len());
                }
                Err(NetError::Corrupt { .. }) => assert!(frame.payload.is_empty()),
                Ok(false) | Err(_) => return,
            }
        }
    });
}

/// The bytes as rows of a node's metadata mirror, for a master that has lost its journal. Unreadable rows are
/// rejected, and a master made from accepted rows goes on working.
pub fn kept_rows(bytes: &[u8]) {
    let Some(rows) = decoded::<Vec<MirrorRow>>(bytes) else { return };
    let mut loader = JournalLoader::new();
    for MirrorRow { table, key, value } in rows {
        let table = TABLES.into_iter().find(|known| *known == table);
        let (Some(table), Some(value)) = (table, value) else { continue };
        if loader.add_row(table, &key, &value).is_err() {
            return;
        }
    }
    let mut now = Now::default();
    let Ok(mut master) = Master::load(now, MasterConfig::default(), 1, Box::new(NoTickets), loader) else { return };
    for _ in 0..MASTER_STEPS {
        while master.poll_action().is_some() {}
        now.monotonic = now.monotonic.max(master.next_timeout());
        master.handle_timeout(now);
    }
}

/// The bytes as a machine's request for a certificate, and as the text of a join ticket. A request is never accepted
/// without the private half of its key. A ticket is tried as it is and behind a valid checksum.
pub fn enrolment(bytes: &[u8]) {
    if let Some(request) = decoded::<CertificateRequest>(bytes) {
        assert!(ProvedKey::check(&request, None).is_err(), "it is forged");
    }
    decoded::<Enrolment>(bytes);
    let summed = [bytes, &crc32c::crc32c(bytes).to_be_bytes()].concat();
    for text in [String::from_utf8_lossy(bytes).into_owned(), BASE32_NOPAD.encode(&summed)] {
        if let Ok(ticket) = text.parse::<JoinTicket>() {
            assert_eq!(ticket.to_string().parse().as_ref(), Ok(&ticket));
        }
    }
}

/// The bytes as what a user's function makes its process say to the node.
pub fn child_words(bytes: &[u8]) {
    ::spe::fuzzing::child_words(bytes);
}

/// The bytes as datagrams, each behind its length, two bytes in network byte order. One endpoint with two sessions
/// takes them as if their seals were valid.
pub fn datagram(mut bytes: &[u8]) {
    let (mut endpoint, mut now) = (Endpoint::new(), Now::default());
    endpoint.add_session(SPEAKER, OpenMode::Active);
    endpoint.add_session(LISTENER, OpenMode::Passive);
    endpoint.set_key_limits(KeyLimits { packets_max: 2, ..KeyLimits::default() });
    while let Some((length, rest)) = bytes.split_first_chunk::<2>() {
        let (datagram, rest) = rest.split_at(rest.len().min(u16::from_be_bytes(*length).into()));
        bytes = rest;
        let Some((head, body)) = datagram::Head::split(datagram) else { continue };
        let body = &body[..body.len() - datagram::SEAL_BYTES];
        now = now.after(Duration::from_millis(head.packet % 500));
        let word = Message { kind: MessageKind::Request(head.packet), body: body.to_vec() };
        // An acknowledgement needs something to acknowledge.
        let class = if body.len() > 1_000 { Class::Bulk } else { Class::Urgent };
        let _ = endpoint.send(now, SPEAKER, class, word);
        endpoint.handle_datagram(now, &head, body);
        endpoint.cancel_request(now, SPEAKER, head.packet / 2);
        endpoint.handle_timeout(now);
        take_actions(&mut endpoint);
    }
    // Nothing answers: the endpoint comes to rest and does not spin.
    for _ in 0..TIMEOUTS_MAX {
        let Some(at) = endpoint.next_timeout() else { return };
        now.monotonic = now.monotonic.max(at);
        endpoint.handle_timeout(now);
        take_actions(&mut endpoint);
    }
    panic!("an endpoint without a peer does not come to rest");
}

/// The bytes as datagrams of strangers to a messenger, each behind its length. They change nothing but counters, and
/// the messenger hears its peers as before.
pub fn strangers(bytes: &[u8]) {
    net::messenger::fuzzing::strangers(bytes);
}

/// The bytes as a bulk-data frame: a head with checksums is valid for its own payload and for no other.
pub fn frame_head(bytes: &[u8]) {
    let Some((first, rest)) = bytes.split_first_chunk::<4>() else { return };
    let Some(payload_bytes) = stream_frame::payload_bytes(*first) else { return };
    assert!(payload_bytes <= limits::FRAME_BYTES_MAX);
    assert!(4 + 4 * stream_frame::checksum_count(payload_bytes) <= stream_frame::HEAD_BYTES_MAX);
    let (checksums, payload) = rest.split_at(rest.len().min(4 * stream_frame::checksum_count(payload_bytes)));
    let payload = &payload[..payload.len().min(payload_bytes)];
    let is_right = stream_frame::first_bad_block(payload, checksums).is_none();
    let mut head = Vec::new();
    stream_frame::write_head(payload, &mut head);
    assert_eq!(stream_frame::first_bad_block(payload, &head[4..]), None);
    assert_eq!(is_right, head[4..] == *checksums);
}

/// The bytes as a ticket, and as a signed one: the inside is read, but verification with the master's key rejects it.
pub fn ticket(bytes: &[u8]) {
    decoded::<Ticket>(bytes);
    if let Some(signed) = decoded::<SignedTicket>(bytes) {
        let inside = decoded::<Ticket>(&signed.ticket);
        if let Some(node) = inside.map(|ticket| ticket.node) {
            let mut verifier = TicketVerifier::new(node, String::new(), is_signed);
            verifier.take_keys(Now::default(), MASTER_KEYS);
            assert!(verifier.verify(Now::default(), &signed).is_err(), "it is forged");
        }
    }
}

/// The bytes as a sidecar: as they are, and between a valid head and checksum, so that the inside is reached too. An
/// accepted sidecar is written as the newest version, which reads back as the same.
pub fn sidecar(bytes: &[u8]) {
    for version in [None, Some(1), Some(SIDECAR_VERSION)] {
        let sealed = match version {
            Some(version) => {
                let mut sealed = [b"SSID", &[version][..], bytes].concat();
                sealed.extend(crc32c::crc32c(&sealed).to_be_bytes());
                sealed
            }
            None => bytes.to_vec(),
        };
        let Ok(sidecar) = Sidecar::decode(&sealed) else { continue };
        assert!(sidecar.metadata.bytes <= limits::SLICE_BYTES_MAX);
        assert_eq!(sidecar.blocks.len() as u64, block_count(sidecar.metadata.bytes));
        assert_eq!(Sidecar::decode(&sidecar.encode()).as_ref(), Ok(&sidecar));
    }
}

/// Whatever decodes also encodes, to bytes that decode to the same value.
fn decoded<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(bytes: &[u8]) -> Option<T> {
    let message = codec::decode::<T>(bytes).ok()?;
    assert_eq!(codec::decode::<T>(&codec::encode(&message)).as_ref(), Ok(&message));
    Some(message)
}

fn take_actions(endpoint: &mut Endpoint) {
    while let Some(action) = endpoint.poll_action() {
        match action {
            EndpointAction::Send(sent) => {
                assert!(sent.bytes.len() + datagram::SEAL_BYTES <= limits::DATAGRAM_BYTES_MAX);
                assert!(Frames::new(&sent.bytes[datagram::HEAD_BYTES..]).all(|frame| frame.is_ok()));
            }
            EndpointAction::Deliver { message, .. } => assert!(message.body.len() <= limits::MESSAGE_BYTES_MAX),
            EndpointAction::SessionLost(_) | EndpointAction::SessionClosed(_) => {}
        }
    }
}

/// A master that only reads signs nothing.
pub struct NoTickets;

impl SignTickets for NoTickets {
    fn sign(&self, _ticket: &Ticket) -> SignedTicket {
        SignedTicket { ticket: Vec::new(), signature: Vec::new(), delegation: None }
    }

    fn public_keys(&self) -> TicketKeys {
        MASTER_KEYS
    }

    fn roll(&mut self) {}
}

/// How many timeouts a master made from mirrored rows handles.
const MASTER_STEPS: usize = 4;
/// The keys of a master that signs nothing here.
const MASTER_KEYS: TicketKeys = TicketKeys { current: MASTER_KEY, next: MASTER_KEY };
/// A public key (of RFC 8032, 7.1, test 1) whose private half signs nothing here.
const MASTER_KEY: [u8; 32] = [
    0xd7, 0x5a, 0x98, 0x01, 0x82, 0xb1, 0x0a, 0xb7, 0xd5, 0x4b, 0xfe, 0xd3, 0xc9, 0x64, 0x07, 0x3a, 0x0e, 0xe1, 0x72,
    0xf3, 0xda, 0xa6, 0x23, 0x25, 0xaf, 0x02, 0x1a, 0x68, 0xf7, 0x07, 0x51, 0x1a,
];
/// The session of [`datagram()`] that may speak at once.
pub const SPEAKER: SessionId = SessionId(1);
/// The session of [`datagram()`] that waits for its peer.
pub const LISTENER: SessionId = SessionId(2);
/// Timeouts after which an endpoint without a peer has given it up, with much to spare.
const TIMEOUTS_MAX: usize = 10_000;
