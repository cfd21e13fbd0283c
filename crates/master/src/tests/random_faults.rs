//! Everything at once, from a seed: clients write, rename and remove while nodes and the master die, orders are lost
//! and copies fail. Then all heals, and what was answered must be there.

#![allow(clippy::unwrap_used)]

use protocol::message::request::{ListRequest, RemoveRequest, RenameRequest};

use super::*;

const NODES: [&str; 4] = ["n1", "n2", "n3", "n4"];

/// What clients were told: path -> bytes; `None` where it may be either of two things because no answer came.
#[derive(Default)]
struct Told {
    files: BTreeMap<String, u64>,
    unsure: BTreeSet<String>,
}

fn run_faults(seed: u64) {
    let mut rng = fastrand::Rng::with_seed(seed);
    // In every other cloud replaced content is kept, and must be where it belongs too.
    let versions = seconds(if seed.is_multiple_of(2) { 86_400 } else { 0 });
    let config = MasterConfig { replicate_after: seconds(15), versions, ..config() };
    let mut bench = Bench::new(config, seed);
    for (id, place) in NODES.iter().zip(["a/1", "a/2", "b/1", "b/2"]) {
        bench.add_node(id, place);
    }
    let mut told = Told::default();
    let mut writing = Vec::new();
    for step in 0..300 {
        match rng.u32(..100) {
            0..30 => begin_write(&mut bench, &mut rng, &mut writing, step),
            30..55 => go_on_writing(&mut bench, &mut rng, &mut writing, &mut told),
            55..65 => rename(&mut bench, &mut rng, &mut told),
            65..72 => remove(&mut bench, &mut rng, &mut told),
            72..90 => trouble(&mut bench, &mut rng),
            90..93 => {
                // What was asked and not answered may or may not have happened.
                bench.restart_master();
                writing.clear();
                bench.saves = true;
            }
            _ => bench.advance(Duration::from_millis(rng.u64(..8_000))),
        }
        if rng.u32(..20) == 0 {
            bench.saves = !bench.saves;
        }
    }
    heal(&mut bench);
    check(&mut bench, &told, seed);
}

fn a_path(rng: &mut fastrand::Rng) -> String {
    format!("/f{}", rng.u32(..8))
}

/// An open write: its path, what was created, its bytes, and whether they are with a node.
type Write = (String, Created, u64, bool);

fn begin_write(bench: &mut Bench, rng: &mut fastrand::Rng, writing: &mut Vec<Write>, step: u64) {
    let at = a_path(rng);
    if let ClientReply::Created(created) = bench_ask(bench, ClientRequest::Create(create(&at))) {
        writing.push((at, created, step + 1, false));
    }
}

fn go_on_writing(bench: &mut Bench, rng: &mut fastrand::Rng, writing: &mut Vec<Write>, told: &mut Told) {
    if writing.is_empty() {
        return;
    }
    let (at, created, bytes, is_written) = writing.swap_remove(rng.usize(..writing.len()));
    if !is_written {
        if bench.nodes[&created.target.node].session.is_some() {
            bench.write(&created, bytes);
            writing.push((at, created, bytes, true));
        }
        return;
    }
    let number = bench.commit_later("ann", created.lease, bytes);
    bench.saves = true;
    bench.run();
    bench.advance(seconds(rng.u64(..4)));
    match bench.answer(number) {
        Some(ClientReply::Entry(_)) => {
            told.unsure.remove(&at);
            told.files.insert(at, bytes);
        }
        Some(_) => {}
        None => drop(told.unsure.insert(at)),
    }
}

fn rename(bench: &mut Bench, rng: &mut fastrand::Rng, told: &mut Told) {
    let (from, to) = (a_path(rng), a_path(rng));
    let reply = bench_ask(bench, ClientRequest::Rename(RenameRequest { from: path(&from), to: path(&to) }));
    if reply == ClientReply::Done && from != to {
        match told.files.remove(&from) {
            Some(bytes) => drop(told.files.insert(to.clone(), bytes)),
            None => drop(told.files.remove(&to)),
        }
        // A commit that was not answered may have made what was renamed, and may still come and make it again.
        if told.unsure.contains(&from) {
            told.unsure.insert(to);
        }
    }
}

fn remove(bench: &mut Bench, rng: &mut fastrand::Rng, told: &mut Told) {
    let at = a_path(rng);
    if bench_ask(bench, ClientRequest::Remove(RemoveRequest { path: path(&at), recursive: false, now: true }))
        == ClientReply::Done
    {
        told.files.remove(&at);
        // A commit that was not answered may still come after this.
    }
}

fn trouble(bench: &mut Bench, rng: &mut fastrand::Rng) {
    let id = NODES[rng.usize(..NODES.len())];
    match rng.u32(..6) {
        // At most one at a time, since two may take both synced copies with them until they are back.
        0 if bench.nodes.values().all(|fake| fake.session.is_some()) => bench.crash(id),
        1 | 2 if bench.node(id).session.is_none() => bench.join(id),
        3 => bench.node_mut(id).answers = false,
        4 => bench.resume(id),
        _ => bench.node_mut(id).fails_copies = rng.bool(),
    }
}

/// Asks and has the answer saved: what is not answered is not known.
fn bench_ask(bench: &mut Bench, request: ClientRequest) -> ClientReply {
    bench.saves = true;
    bench.run();
    bench.ask("ann", request)
}

fn heal(bench: &mut Bench) {
    bench.saves = true;
    bench.run();
    for id in NODES {
        bench.node_mut(id).fails_copies = false;
        bench.resume(id);
        bench.join(id);
    }
    bench.advance(seconds(300));
}

fn check(bench: &mut Bench, told: &Told, seed: u64) {
    for (at, bytes) in told.files.iter().filter(|(at, _)| !told.unsure.contains(*at)) {
        let status = bench.stat(at);
        let found = content(&status.entry);
        assert_eq!(found.bytes, *bytes, "seed {seed}: {at}");
        assert_eq!(found.digest, digest(*bytes), "seed {seed}: {at}");
        assert_eq!(bench.locate("ann", at).sources.len(), 2, "seed {seed}: {at}");
    }
    let list = ClientRequest::List(ListRequest { folder: path("/"), recursive: true, after: None, with_nodes: false });
    let ClientReply::Page(page) = bench.ask("ann", list) else { panic!("no page") };
    let mut current: BTreeMap<_, _> =
        page.entries.iter().map(|entry| (content(entry).slice, entry.path.clone())).collect();
    let replaced = (0..8).flat_map(|file| bench.versions("ann", &format!("/f{file}"))).collect::<Vec<_>>();
    for version in replaced {
        current.insert(content(&bench.stat(version.at.as_str()).entry).slice, version.at);
    }
    for entry in &page.entries {
        let at = entry.path.to_string();
        assert!(told.files.contains_key(&at) || told.unsure.contains(&at), "seed {seed}: nobody wrote {at}");
    }
    for (id, fake) in &bench.nodes {
        for (slice, held) in &fake.held {
            let wanted = current.get(slice);
            assert_eq!(wanted, Some(&held.metadata.header.path), "seed {seed}: {id} holds what is nobody's");
            assert_eq!(held.state, HeldState::Placed, "seed {seed}: {id}");
        }
    }
    assert_eq!(bench.health(), Health::default(), "seed {seed}");
}

// Promise 16.
#[test]
fn what_was_answered_survives_any_storm() {
    for seed in 0..60 {
        run_faults(seed);
    }
}
