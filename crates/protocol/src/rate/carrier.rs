//! How bulk bytes may travel, in the terms of settings, profiles and people. It never moves a byte: the network
//! implements each choice (`crates/net/src/transfer/`).

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// The carrier of transfers, as an operator or a user chooses it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CarrierChoice {
    /// By distance: TCP within a site, QUIC between sites, and TCP where UDP does not get through.
    #[default]
    Auto,
    /// TCP everywhere.
    Tcp,
    /// QUIC everywhere, and no other carrier where it does not get through.
    Quic,
}

impl CarrierChoice {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Auto, Self::Tcp, Self::Quic];

    /// Its written form.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Tcp => "tcp",
            Self::Quic => "quic",
        }
    }
}

impl fmt::Display for CarrierChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for CarrierChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|choice| choice.name() == text);
        found.ok_or_else(|| format!("`{text}` is no carrier; write auto, tcp or quic"))
    }
}

/// The controller that decides how fast QUIC sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ControllerKind {
    /// This system's own, after UDT: it holds its rate through random loss.
    #[default]
    Udt,
    /// BBR, version 3.
    Bbr,
    /// CUBIC (RFC 9438): the usual one of TCP. It takes each loss for congestion.
    Cubic,
}

impl ControllerKind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Udt, Self::Bbr, Self::Cubic];

    /// Its written form.
    pub fn name(self) -> &'static str {
        match self {
            Self::Udt => "udt",
            Self::Bbr => "bbr",
            Self::Cubic => "cubic",
        }
    }
}

impl fmt::Display for ControllerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for ControllerKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|kind| kind.name() == text);
        found.ok_or_else(|| {
            let names: Vec<_> = Self::ALL.into_iter().map(Self::name).collect();
            format!("`{text}` is no controller; there are: {}", names.join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_choice_reads_back_as_it_is_written_and_anything_else_says_what_there_is() {
        for choice in CarrierChoice::ALL {
            assert_eq!(choice.to_string().parse(), Ok(choice));
        }
        for kind in ControllerKind::ALL {
            assert_eq!(kind.to_string().parse(), Ok(kind));
        }
        assert!("reno".parse::<ControllerKind>().unwrap_err().contains("udt, bbr, cubic"));
        assert!("udp".parse::<CarrierChoice>().unwrap_err().contains("auto, tcp or quic"));
    }
}
