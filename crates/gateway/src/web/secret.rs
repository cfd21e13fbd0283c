//! Secrets of sessions, links and uploads. It never makes one from anything that can be guessed.

use data_encoding::BASE64URL_NOPAD;
use ring::rand::{SecureRandom, SystemRandom};

/// A new secret: 256 bits as text.
pub(crate) fn new_secret() -> String {
    let mut bytes = [0; 32];
    // Without random numbers there is no security, and the system always has some.
    #[allow(clippy::expect_used)]
    SystemRandom::new().fill(&mut bytes).expect("the system has random numbers");
    BASE64URL_NOPAD.encode(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_long_and_differ() {
        assert_eq!(new_secret().len(), 43);
        assert_ne!(new_secret(), new_secret());
    }
}
