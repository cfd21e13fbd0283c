//! Acknowledged bytes are never lost, and never mixed. A read returns the whole content of one write that may have been
//! current between question and answer. (`docs/semantics.md`: upload, reading.) A check never changes anything in the
//! cloud.

// Promise 9.

use std::time::Duration;

use protocol::{Digest, SectorPath};

use crate::{
    ViolationKind,
    environment::Environment,
    model::{ContentId, Region, digest_of},
};

/// The master says what is at a path (`None`: no file), in answer to a question asked at `since`. Returns whether that
/// is possible.
pub(crate) fn check_seen(env: &mut Environment, path: &SectorPath, digest: Option<Digest>, since: Duration) -> bool {
    let content = match digest {
        None => None,
        Some(digest) => match env.model.contents.find(digest) {
            Some(content) => Some(content),
            None => {
                env.violate(
                    ViolationKind::Safety,
                    format!("{path} is said to have a digest that nobody wrote: {digest}"),
                );
                return false;
            }
        },
    };
    let is_possible = may_be(env, path, content, since);
    if !is_possible {
        let what = match content {
            None => "no file",
            Some(_) if is_known(env, path) => "a content that cannot be the current one",
            Some(_) => "a file that nobody wrote there",
        };
        env.violate(ViolationKind::Safety, format!("{path} is said to have {what}: {content:?} (asked at {since:?})"));
    }
    is_possible
}

/// Bytes that a node gave for a file of this digest.
pub(crate) fn check_read(env: &mut Environment, path: &SectorPath, read: &[u8], digest: Digest) {
    if digest_of(read) != digest {
        env.violate(ViolationKind::Safety, format!("bytes of {path} were read that are not those of {digest}"));
    }
}

/// At the end: a file that must be there could not be read from any copy.
pub(crate) fn report_unreadable(env: &mut Environment, path: &SectorPath, why: &str) {
    env.violate(
        ViolationKind::Safety,
        format!("acknowledged bytes of {path} cannot be read after all is healed: {why}"),
    );
}

/// Whether the model knows everything written at a path.
fn is_known(env: &Environment, path: &SectorPath) -> bool {
    env.model.registers.iter().any(|register| register.path == *path)
        || env.model.outputs.iter().any(|(output, _)| output == path)
        || env.model.regions.iter().any(|region| path.is_within(&region.root))
}

fn may_be(env: &Environment, path: &SectorPath, content: Option<ContentId>, since: Duration) -> bool {
    let until = env.now.monotonic;
    if let (Some(recovered), true) = (&env.model.recovered, is_known(env, path)) {
        return recovered.could_be(path, content);
    }
    if let Some(register) = env.model.registers.iter().find(|register| register.path == *path) {
        return register.could_be(content, since, until);
    }
    if let Some(region) = env.model.regions.iter().find(|region| path.is_within(&region.root)) {
        return region.could_be(path, content, since, until);
    }
    match env.model.outputs.iter().find(|(output, _)| output == path) {
        Some((_, expected)) => content == Some(*expected),
        None => content.is_none_or(|content| was_written(env, path, content)),
    }
}

/// Whether anybody ever began to write this there, or it was removed or replaced where it may have been.
fn was_written(env: &Environment, path: &SectorPath, content: ContentId) -> bool {
    was_begun(env, path, content) || origin_of(path).is_some_and(|origin| may_have_been(env, &origin, content))
}

/// Whether a path may ever have had this content.
pub(crate) fn may_have_been(env: &Environment, path: &SectorPath, content: ContentId) -> bool {
    let recovered = env.model.recovered.as_ref();
    let mut seen = env.model.regions.iter().flat_map(Region::ever_seen);
    was_begun(env, path, content)
        || recovered.is_some_and(|recovered| recovered.could_be(path, Some(content)))
        || seen.any(|(at, what)| at == path && what == content)
}

fn was_begun(env: &Environment, path: &SectorPath, content: ContentId) -> bool {
    env.model.attempted.iter().any(|(at, what)| at == path && *what == content)
}

/// Former path of an entry in the trash: the part after its owner and the time.
pub(crate) fn origin_of(path: &SectorPath) -> Option<SectorPath> {
    let (_, below) = path.as_str().strip_prefix(TRASH)?.split_once('/')?;
    let (_, origin) = below.split_once('/')?;
    SectorPath::parse(&format!("/{origin}")).ok()
}

pub(crate) fn is_in_trash(path: &SectorPath) -> bool {
    path.as_str().starts_with(TRASH)
}

/// Entries in the trash lie below it.
const TRASH: &str = "/.trash/";
