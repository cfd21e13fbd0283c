//! Quantities as people write them: rates of links such as `1gbit`, shares of packets such as `0.1%`. Pure code: it
//! never reads anything but the text it is given.

use std::{fmt, str::FromStr};

use protocol::rate;
use serde::{Deserialize, Serialize};

/// Bits a second, with the headers of IPv4 and above.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Rate(pub u64);

/// A share of all packets, from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Share(pub f64);

impl Share {
    /// None at all.
    pub const NONE: Self = Self(0.0);
}

impl FromStr for Rate {
    type Err = String;

    /// Reads `1gbit`, `200mbit`, `1.5 Gbit/s`, `64kbit` or plain `1000000`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bits = rate::parse_bits(text)
            .map_err(|_| format!("`{text}` is no rate; write one such as `200mbit` or `1gbit`"))?;
        if !(RATE_BITS_MIN..=RATE_BITS_MAX).contains(&bits) {
            return Err(format!("a link of {text} cannot be made; give from {} to {}", RATE_MIN, RATE_MAX));
        }
        Ok(Self(bits))
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(1_000_000_000, "gbit"), (1_000_000, "mbit"), (1_000, "kbit")];
        match units.into_iter().find(|(factor, _)| self.0 >= *factor) {
            Some((factor, unit)) => write!(f, "{}{unit}", self.0 as f64 / factor as f64),
            None => write!(f, "{}bit", self.0),
        }
    }
}

impl FromStr for Share {
    type Err = String;

    /// Reads `0.1%`, `1%` or a plain `0.001`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || format!("`{text}` is no share of packets; write one such as `0.1%`");
        let (number, factor) = text.strip_suffix('%').map_or((text, 1.0), |number| (number, 0.01));
        let share = number.trim().parse::<f64>().map_err(|_| wrong())? * factor;
        if (0.0..=1.0).contains(&share) { Ok(Self(share)) } else { Err(wrong()) }
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Rounded, since a share such as 0.001 has no exact binary form.
        write!(f, "{}%", (self.0 * 1e8).round() / 1e6)
    }
}

const RATE_BITS_MIN: u64 = 8_000;
const RATE_BITS_MAX: u64 = 100_000_000_000;
const RATE_MIN: Rate = Rate(RATE_BITS_MIN);
const RATE_MAX: Rate = Rate(RATE_BITS_MAX);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_as_people_write_them() {
        for (text, bits) in [("1gbit", 1_000_000_000), ("200Mbit", 200_000_000), ("1.5 gbit", 0), ("64kbit", 64_000)] {
            let read = text.parse::<Rate>();
            if bits == 0 {
                assert_eq!(read.map(|rate| rate.0), Ok(1_500_000_000));
            } else {
                assert_eq!(read.map(|rate| rate.0), Ok(bits));
            }
        }
        for text in ["", "fast", "1gb", "-1gbit", "1..5mbit", "0", "1bit", "1000gbit", "NaNgbit"] {
            assert!(text.parse::<Rate>().is_err(), "{text}");
        }
    }

    #[test]
    fn shares_are_read_as_people_write_them() {
        for (text, share) in [("0.1%", 0.001), ("1%", 0.01), ("0.25", 0.25), ("0", 0.0), ("100%", 1.0)] {
            assert_eq!(text.parse(), Ok(Share(share)), "{text}");
        }
        for text in ["", "%", "101%", "-1%", "1.1", "NaN", "often"] {
            assert!(text.parse::<Share>().is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_shown_can_be_read_again() {
        for rate in [Rate(1_000_000_000), Rate(200_000_000), Rate(1_500_000_000), Rate(9_999)] {
            assert_eq!(rate.to_string().parse(), Ok(rate));
        }
        assert_eq!([Share(0.001).to_string(), Share(0.07).to_string()], ["0.1%", "7%"]);
    }
}
