//! Times as DALI writes them (1.1, 3.3.3): `2026-11-26T08:15:30.125Z`, in UTC. It never knows a time zone.

use std::{
    fmt,
    str::FromStr,
    time::{Duration, SystemTime},
};

use serde::{Deserialize, Serialize};

use crate::Fault;

/// A time, in milliseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Timestamp(i64);

impl Timestamp {
    /// Now.
    pub fn now() -> Self {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }

    /// Later by this.
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(time) => write!(f, "{time:.3}"),
            Err(_) => f.write_str("9999-12-31T23:59:59.000Z"),
        }
    }
}

impl FromStr for Timestamp {
    type Err = Fault;

    /// A zone may be left out, as DALI has it.
    fn from_str(text: &str) -> Result<Self, Fault> {
        let zoned = if text.ends_with(['Z', 'z']) { text.to_owned() } else { format!("{text}Z") };
        let midnight = || format!("{text}T00:00:00Z");
        let time = zoned.parse::<jiff::Timestamp>().or_else(|_| midnight().parse());
        let time = time.map_err(|_| Fault::Usage(format!("`{text}` is no time: write it as 2026-11-26T08:15:30Z")))?;
        Ok(Self(time.as_millisecond()))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn times_are_written_and_read_as_dali_has_them() {
        for (text, as_written) in [
            ("2026-11-26T08:15:30.125Z", "2026-11-26T08:15:30.125Z"),
            ("2026-11-26T08:15:30", "2026-11-26T08:15:30.000Z"),
            ("2026-11-26", "2026-11-26T00:00:00.000Z"),
        ] {
            assert_eq!(text.parse::<Timestamp>().unwrap().to_string(), as_written);
        }
        for text in ["", "yesterday", "2026-13-01T00:00:00Z", "12"] {
            assert!(text.parse::<Timestamp>().is_err(), "{text}");
        }
        assert_eq!(Timestamp(0).after(Duration::from_secs(1)).to_string(), "1970-01-01T00:00:01.000Z");
    }
}
