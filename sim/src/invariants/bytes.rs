//! Acknowledged bytes are never lost, and never mixed: what is read is, whole, what some write put there that may have
//! been the current one between question and answer. (`docs/semantics.md`: upload, reading, verified reads.)

use std::time::Duration;

use protocol::{Digest, SectorPath};

use crate::{
    Kind,
    environment::Environment,
    model::{ContentId, digest_of},
};

/// The master says what stands at a path (`None`: no file), in answer to a question asked at `since`. Whether it may.
pub(crate) fn check_seen(env: &mut Environment, path: &SectorPath, digest: Option<Digest>, since: Duration) -> bool {
    let content = match digest {
        None => None,
        Some(digest) => match env.book.contents.find(digest) {
            Some(content) => Some(content),
            None => {
                env.violate(Kind::Safety, format!("{path} is said to have a digest that nobody wrote: {digest}"));
                return false;
            }
        },
    };
    let is_possible = may_be(env, path, content, since);
    if !is_possible {
        let what = if content.is_some() { "a content that cannot be the current one" } else { "no file" };
        env.violate(Kind::Safety, format!("{path} is said to have {what}: {content:?} (asked at {since:?})"));
    }
    is_possible
}

/// Bytes that a node gave for a file of this digest.
pub(crate) fn check_read(env: &mut Environment, path: &SectorPath, read: &[u8], digest: Digest) {
    if digest_of(read) != digest {
        env.violate(Kind::Safety, format!("bytes of {path} were read that are not those of {digest}"));
    }
}

/// At the end: a file that must be there could not be read from any copy.
pub(crate) fn report_unreadable(env: &mut Environment, path: &SectorPath, why: &str) {
    env.violate(Kind::Safety, format!("acknowledged bytes of {path} cannot be read after all is healed: {why}"));
}

/// Whether all that is written at a path is in the book.
fn is_known(env: &Environment, path: &SectorPath) -> bool {
    env.book.registers.iter().any(|register| register.path == *path)
        || env.book.outputs.iter().any(|(output, _)| output == path)
        || env.book.regions.iter().any(|region| path.is_within(&region.root))
}

fn may_be(env: &Environment, path: &SectorPath, content: Option<ContentId>, since: Duration) -> bool {
    let until = env.now.monotonic;
    if let (Some(recovered), true) = (&env.book.recovered, is_known(env, path)) {
        return recovered.could_be(path, content);
    }
    if let Some(register) = env.book.registers.iter().find(|register| register.path == *path) {
        return register.could_be(content, since, until);
    }
    if let Some(region) = env.book.regions.iter().find(|region| path.is_within(&region.root)) {
        return region.could_be(path, content, since, until);
    }
    match env.book.outputs.iter().find(|(output, _)| output == path) {
        Some((_, expected)) => content == Some(*expected),
        // Nobody knows anything of other paths.
        None => true,
    }
}
