//! How many files and connections a role may have open at once.

use rustix::process::{Resource, getrlimit, setrlimit};

/// Uses as many as the system allows this process: each connection takes one, and each transfer and each SPE a few.
/// Before any door is opened, since how many strangers a door takes depends on it.
pub fn raise_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current < limit.maximum || limit.maximum.is_none() {
        limit.current = limit.maximum;
        // What is refused leaves things as they were.
        let _ = setrlimit(Resource::Nofile, limit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn afterwards_the_limit_is_the_highest() {
        raise_limit();
        let limit = getrlimit(Resource::Nofile);
        assert_eq!(limit.current, limit.maximum);
    }
}
