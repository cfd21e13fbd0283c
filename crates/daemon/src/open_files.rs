//! How many files and connections a role may have open at once. It never asks for more than the system allows the
//! process.

use rustix::process::{Resource, getrlimit, setrlimit};

/// Raises the limit as far as the system allows this process: each connection takes one file, and each transfer and
/// each SPE a few. Call it before the first port is opened, since the number of strangers that a port accepts depends
/// on it.
pub fn raise_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current < limit.maximum || limit.maximum.is_none() {
        limit.current = limit.maximum;
        // If this is refused, the limit stays as it was.
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
