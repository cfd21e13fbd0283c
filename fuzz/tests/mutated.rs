//! Every fuzz target over some thousand inputs, made from test vectors by seeded mutations: what runs everywhere, also
//! where there is no fuzzer. The fuzzer begins with the same vectors: `FUZZ_CORPUS=folder` has them written there.

use std::{env, fs, path::Path};

use data_encoding::HEXLOWER;
use fastrand::Rng;
use fuzz::{LISTENER, NoTickets, SPEAKER, TARGETS};
use master::{JournalLoader, Master, MasterAction, MasterConfig};
use protocol::{
    Now,
    gmp::{Class, Endpoint, EndpointAction, Message, MessageKind, OpenMode},
    limits,
    message::rebuild::MirrorRow,
    wire::{
        codec,
        datagram::{HEAD_BYTES, Head, SEAL_BYTES},
        stream_frame,
    },
};
use store::RowChange;

const INPUTS_OF_EACH_SEED: usize = 120;
const INPUTS_OF_NOISE: usize = 2_000;

#[test]
fn no_mutated_input_breaks_a_parser() {
    let seeds = seeds();
    assert!(seeds.len() > 80, "the vectors were found");
    let mut rng = Rng::with_seed(0x5ec7);
    for (name, target) in TARGETS {
        for seed in &seeds {
            // Shown only when it fails: the input is then known by its number.
            println!("{name}: a seed of {} bytes", seed.len());
            target(seed);
            for _ in 0..INPUTS_OF_EACH_SEED {
                let other = rng.choice(&seeds).expect("there are seeds");
                target(&mutated(&mut rng, seed, other));
            }
        }
        for _ in 0..INPUTS_OF_NOISE {
            let length = rng.usize(0..300);
            let noise: Vec<u8> = std::iter::repeat_with(|| rng.u8(..)).take(length).collect();
            target(&noise);
        }
    }
}

#[test]
fn every_target_is_known_to_the_fuzzer_and_begins_with_the_vectors() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let manifest = fs::read_to_string(folder.join("Cargo.toml")).expect("the manifest");
    let files = fs::read_dir(folder.join("fuzz_targets")).expect("the targets").count();
    assert_eq!(files, TARGETS.len());
    for (name, _) in TARGETS {
        assert!(manifest.contains(&format!("path = \"fuzz_targets/{name}.rs\"")), "{name}");
        let text = fs::read_to_string(folder.join(format!("fuzz_targets/{name}.rs"))).expect("a target");
        assert!(text.contains(&format!("fuzz::{name}(bytes)")), "{name}");
    }
    let Some(corpus) = env::var_os("FUZZ_CORPUS") else { return };
    for (name, _) in TARGETS {
        let folder = folder.join(&corpus).join(name);
        fs::create_dir_all(&folder).expect("a folder for inputs");
        for (number, seed) in seeds().into_iter().enumerate() {
            fs::write(folder.join(format!("vector-{number}")), seed).expect("an input is written");
        }
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let of_the_cloud = [messages(), words(), datagrams(), paths(), acls(), frames(), sidecars(), kept_rows()];
    [of_the_cloud.concat(), images(), selections(), votables()].concat()
}

/// A few changes of the kinds that parsers stumble over.
fn mutated(rng: &mut Rng, seed: &[u8], other: &[u8]) -> Vec<u8> {
    let mut input = seed.to_vec();
    for _ in 0..rng.usize(1..5) {
        let at = rng.usize(0..=input.len());
        let until = (at + rng.usize(0..12)).min(input.len());
        match rng.u8(0..8) {
            0 if at < input.len() => input[at] ^= 1 << rng.u8(0..8),
            1 if at < input.len() => input[at] = *rng.choice(&[0, 1, 0x7f, 0x80, 0xff]).expect("it is not empty"),
            2 => input.truncate(at),
            3 => drop(input.drain(at..until)),
            4 => input.splice(at..at, seed[at.min(seed.len())..until.min(seed.len())].to_vec()).for_each(drop),
            5 => input[at..until].fill(0xff),
            6 => input.insert(at, rng.u8(..)),
            _ => input.splice(at.., other[at.min(other.len())..].to_vec()).for_each(drop),
        }
    }
    input
}

/// The test vectors of all messages.
fn messages() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/protocol/tests/vectors");
    let mut files: Vec<_> =
        fs::read_dir(folder).expect("the vectors").map(|file| file.expect("a file").path()).collect();
    // A folder lists its files in any order; the mutations are drawn in this one.
    files.sort();
    let texts: Vec<_> = files.iter().map(|file| fs::read_to_string(file).expect("a file of vectors")).collect();
    let lines = texts.iter().flat_map(|text| text.lines()).filter(|line| !line.starts_with('#'));
    lines.map(|line| HEXLOWER.decode(line.rsplit(' ').next().unwrap_or(line).as_bytes()).expect("hex")).collect()
}

/// Small images, plain and compressed in tiles.
fn images() -> Vec<Vec<u8>> {
    let centre = fits::sky::SkyPosition { ra_degrees: 202.47, dec_degrees: 47.2 };
    let made = |is_rice| fits::MadeImage { width: 12, height: 9, seed: 1, centre, is_rice }.fits().expect("an image");
    [false, true].map(made).into()
}

fn selections() -> Vec<Vec<u8>> {
    let texts =
        ["[SCI,1][1:5,*]", "CIRCLE 10 -20 0.1", "[2] POLYGON 1 2 3 4 5 6", "RANGE -Inf 20 0 90", "AROUND 1 2 3 4"];
    texts.into_iter().chain(["PIXELS 1.5 2 3 4", "13:30:00,-00:15:00"]).map(Vec::from).collect()
}

/// The same three columns as elements, and as bytes with a mask: a row of `M51`, 202.5, and nothing.
fn votables() -> Vec<Vec<u8>> {
    let head = "<VOTABLE><RESOURCE><TABLE><FIELD name='name' datatype='char' arraysize='*'/><FIELD name='ra' \
                datatype='double'/><FIELD name='n' datatype='int'><VALUES null='-9'/></FIELD><DATA>";
    let elements = "<TABLEDATA><TR><TD>M&#32;51</TD><TD>202.5</TD><TD>-9</TD></TR><TR/></TABLEDATA>";
    let bytes = "<BINARY2><STREAM encoding='base64'>IAAAAANNNTFAaVAAAAAAAP////c=</STREAM></BINARY2>";
    [elements, bytes].map(|data| format!("{head}{data}</DATA></TABLE></RESOURCE></VOTABLE>").into_bytes()).into()
}

fn acls() -> Vec<Vec<u8>> {
    let texts = ["none", "everyone:r", "user:alice:rw,group:astro:rx,everyone:r", "user:a:rwxa,user:b:x,group:a:w"];
    texts.into_iter().map(Vec::from).collect()
}

/// The same, each behind its length.
fn words() -> Vec<Vec<u8>> {
    let framed = |message: Vec<u8>| {
        let length = u32::try_from(message.len()).expect("a message");
        [&length.to_be_bytes()[..], &message].concat()
    };
    messages().into_iter().map(framed).collect()
}

/// The rows of a new cloud, and of one with a folder and one in it.
fn kept_rows() -> Vec<Vec<u8>> {
    let (now, mut rows) = (Now::default(), Vec::new());
    let new = Master::load(now, MasterConfig::default(), 1, Box::new(NoTickets), JournalLoader::new());
    let mut master = new.expect("a master of no rows");
    while let Some(action) = master.poll_action() {
        let MasterAction::Save { changes, .. } = action else { continue };
        for change in changes {
            let RowChange::Set { table, key, value } = change else { continue };
            rows.push(MirrorRow { table: table.into(), key, value: Some(value) });
        }
    }
    let mut inputs = vec![codec::encode(&rows)];
    let root = rows.iter().find(|row| row.table == "names").and_then(|row| row.value.clone()).expect("the root's row");
    for (id, parent) in [(2_u64, 1_u64), (3, 2)] {
        // As the master writes a folder: parent, name, owner, the first kind of entry, when it was changed.
        let row = codec::encode(&(parent, "folder", "ann", 0_u32, 5_u64));
        let value = [&root[..1], &row[1..]].concat();
        rows.push(MirrorRow { table: "names".into(), key: id.to_be_bytes().to_vec(), value: Some(value) });
        inputs.push(codec::encode(&rows));
    }
    inputs
}

/// What two endpoints say to each other, as the target takes it: the length, then the datagram.
fn datagrams() -> Vec<Vec<u8>> {
    let mut inputs = Vec::new();
    for (session, bytes) in [(SPEAKER, 20), (LISTENER, 20), (SPEAKER, 5_000), (LISTENER, 5_000), (LISTENER, 60_000)] {
        let (mut a, mut b) = (Endpoint::new(), Endpoint::new());
        a.add_session(session, OpenMode::Active);
        b.add_session(session, OpenMode::Passive);
        let mut input = Vec::new();
        for kind in [MessageKind::Notice, MessageKind::Request(1), MessageKind::Reply(2)] {
            a.send(Now::default(), session, Class::Ordinary, Message { kind, body: vec![5; bytes] })
                .expect("there is room");
            b.send(Now::default(), session, Class::Bulk, Message { kind, body: vec![6; 2 * bytes] })
                .expect("there is room");
        }
        a.cancel_request(Now::default(), session, 1);
        // What each says goes to the other and into the input, for the one in the target to hear.
        while say(&mut a, &mut b, &mut input) + say(&mut b, &mut a, &mut input) > 0 {}
        inputs.push(input);
    }
    inputs
}

fn say(from: &mut Endpoint, to: &mut Endpoint, input: &mut Vec<u8>) -> usize {
    let mut said = 0;
    while let Some(action) = from.poll_action() {
        let EndpointAction::Send(mut sent) = action else { continue };
        let body = sent.bytes[HEAD_BYTES..].to_vec();
        sent.bytes.extend([0; SEAL_BYTES]);
        let (head, _) = Head::split(&sent.bytes).expect("it is ours");
        to.handle_datagram(Now::default(), &head, &body);
        input.extend(u16::try_from(sent.bytes.len()).expect("a datagram").to_be_bytes());
        input.extend(sent.bytes);
        said += 1;
    }
    said
}

fn paths() -> Vec<Vec<u8>> {
    let deep = "/x".repeat(limits::PATH_COMPONENTS_MAX);
    ["/", "/a/b", "/a/../b", "/.x.sector", "/ü/…/\u{202e}", "//", "/a/", deep.as_str()].map(|text| text.into()).to_vec()
}

fn frames() -> Vec<Vec<u8>> {
    let lengths = [0, 1, 1_000, limits::BLOCK_BYTES as usize + 1];
    let framed = lengths.map(|length| {
        let (payload, mut bytes) = (vec![3; length], Vec::new());
        stream_frame::write_head(&payload, &mut bytes);
        [bytes, payload].concat()
    });
    framed.to_vec()
}

/// Sidecars of both versions, whole and as the target wraps them: without head and checksum.
fn sidecars() -> Vec<Vec<u8>> {
    let old = concat!(
        "5353494401000000000000010200",
        "00003aab01042f612f62ac0205616c69636501030201016b0176818004",
        "0707070707070707070707070707070707070707070707070707070707070707",
        "00000001fffefdfc9b05a547",
    );
    let old = HEXLOWER.decode(old.as_bytes()).expect("hex");
    let new = store::Sidecar::decode(&old).expect("a sidecar").encode();
    let inside = |whole: &[u8]| whole[5..whole.len() - 4].to_vec();
    vec![inside(&old), inside(&new), old, new]
}
