//! The ticket with which a machine joins a cloud: one string that a person carries from one machine to the other. It
//! serves `node join` and `master join`. It holds all that a newcomer must know before its first message: where to go,
//! whom to trust there, and a secret for one use. A mistyped ticket is refused here, before anything is sent. It never
//! allows bytes to move: that is another kind of ticket ([`ticket`](crate::ticket)).

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
    str::FromStr,
};

use data_encoding::BASE32_NOPAD;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::{HostAddress, host_address::HostName};

/// What a person carries to the machine that is to join (`docs/formats.md`, Join ticket).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinTicket {
    /// The role that the machine is to have.
    pub kind: MachineKind,
    /// Where the machine asks: a master for a node, the security server for a master.
    pub address: HostAddress,
    /// SHA-256 of the certificate of the cloud's authority: a peer that shows another is not told the secret.
    pub authority: [u8; 32],
    /// Proves that an administrator wants the machine.
    pub secret: TicketSecret,
}

/// The role of a machine in the cloud.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum MachineKind {
    /// It keeps slices.
    Node,
    /// It keeps names.
    Master,
    /// It keeps accounts and the authority.
    Security,
}

/// 128 random bits that are good for one use. They are never printed except in their ticket.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TicketSecret(pub [u8; 16]);

/// Why a text is not a ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("this is not a whole join ticket: {0}; copy it again from where it was printed")]
pub struct JoinTicketError(&'static str);

impl JoinTicket {
    /// The ticket's bytes, with the checksum at the end.
    fn bytes(&self) -> Vec<u8> {
        let version = if matches!(self.address, HostAddress::Ip(_)) { 1 } else { VERSION };
        let mut bytes = vec![version, kind_byte(self.kind)];
        match &self.address {
            HostAddress::Ip(SocketAddr::V4(address)) => {
                bytes.push(4);
                bytes.extend(address.ip().octets());
            }
            HostAddress::Ip(SocketAddr::V6(address)) => {
                bytes.push(6);
                bytes.extend(address.ip().octets());
            }
            HostAddress::Name(name, _) => {
                // A name has at most 253 bytes.
                bytes.extend([0, name.as_str().len() as u8]);
                bytes.extend(name.as_str().bytes());
            }
        }
        bytes.extend(self.address.port().to_be_bytes());
        bytes.extend(self.authority);
        bytes.extend(self.secret.0);
        bytes.extend(crc32c::crc32c(&bytes).to_be_bytes());
        bytes
    }
}

impl fmt::Display for JoinTicket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&BASE32_NOPAD.encode(&self.bytes()).to_ascii_lowercase())
    }
}

impl FromStr for JoinTicket {
    type Err = JoinTicketError;

    fn from_str(text: &str) -> Result<Self, JoinTicketError> {
        let text = text.trim();
        if text.len() > TEXT_BYTES_MAX {
            return Err(JoinTicketError("it is too long"));
        }
        let decoded = BASE32_NOPAD.decode(text.to_ascii_uppercase().as_bytes());
        let bytes = decoded.map_err(|_| JoinTicketError("it has letters missing, or that no ticket has"))?;
        let (body, checksum) = bytes.split_last_chunk::<4>().ok_or(JoinTicketError("it is too short"))?;
        // Checked before anything is read from it: a later error is then in the ticket, not in the copying.
        if crc32c::crc32c(body).to_be_bytes() != *checksum {
            return Err(JoinTicketError("its checksum does not fit"));
        }
        let mut reader = Reader(body);
        let [version, kind, family] = reader.take()?;
        if !(1..=VERSION).contains(&version) {
            return Err(JoinTicketError("it was made by a newer version of sector"));
        }
        let kind = [MachineKind::Node, MachineKind::Master].into_iter().find(|known| kind_byte(*known) == kind);
        let kind = kind.ok_or(JoinTicketError("it is for a kind of machine that there is not"))?;
        let host: Host = match family {
            4 => Host::Ip(reader.take::<4>()?.into()),
            6 => Host::Ip(reader.take::<16>()?.into()),
            0 if version >= 2 => Host::Name(reader.name()?),
            _ => return Err(JoinTicketError("its address is of no known kind")),
        };
        let port = u16::from_be_bytes(reader.take()?);
        let address = match host {
            Host::Ip(ip) => SocketAddr::new(ip, port).into(),
            Host::Name(name) => HostAddress::Name(name, port),
        };
        let (authority, secret) = (reader.take()?, TicketSecret(reader.take()?));
        if !reader.0.is_empty() {
            return Err(JoinTicketError("something stands behind it"));
        }
        Ok(Self { kind, address, authority, secret })
    }
}

impl fmt::Debug for TicketSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TicketSecret(…)")
    }
}

impl MachineKind {
    /// Its name, for people and programs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Master => "master",
            Self::Security => "security",
        }
    }
}

impl fmt::Display for MachineKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The host in a ticket.
enum Host {
    Ip(IpAddr),
    Name(HostName),
}

/// The rest of a ticket.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], JoinTicketError> {
        let (taken, rest) = self.0.split_first_chunk::<N>().ok_or(JoinTicketError("it is too short"))?;
        self.0 = rest;
        Ok(*taken)
    }

    /// A name, which follows its length.
    fn name(&mut self) -> Result<HostName, JoinTicketError> {
        let [length] = self.take()?;
        let (name, rest) = self.0.split_at_checked(usize::from(length)).ok_or(JoinTicketError("it is too short"))?;
        self.0 = rest;
        let name = std::str::from_utf8(name).ok().and_then(HostName::new);
        name.ok_or(JoinTicketError("the name in its address is none"))
    }
}

fn kind_byte(kind: MachineKind) -> u8 {
    match kind {
        MachineKind::Node => 1,
        MachineKind::Master => 2,
        // No machine joins as one; the parser accepts no such byte.
        MachineKind::Security => 3,
    }
}

/// Newest version of the tickets that this build writes and reads: 2 has the name of a machine, 1 a number.
const VERSION: u8 = 2;
/// Longest ticket in bytes of text: 311 bytes, eight letters for five.
const TEXT_BYTES_MAX: usize = 500;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn ticket(address: &str) -> JoinTicket {
        JoinTicket {
            kind: MachineKind::Node,
            address: address.parse().unwrap(),
            authority: std::array::from_fn(|at| at as u8),
            secret: TicketSecret([7; 16]),
        }
    }

    #[test]
    fn a_ticket_reads_back_as_written_also_in_capitals_and_with_blanks_around_it() {
        for address in ["192.0.2.7:7400", "[2001:db8::1]:7400", "master.example.org:7400"] {
            for kind in [MachineKind::Node, MachineKind::Master] {
                let ticket = JoinTicket { kind, ..ticket(address) };
                let text = ticket.to_string();
                assert_eq!(text.parse(), Ok(ticket.clone()));
                assert_eq!(format!(" {}\n", text.to_ascii_uppercase()).parse(), Ok(ticket));
            }
        }
    }

    #[test]
    fn the_bytes_of_a_ticket_are_those_of_the_page_on_formats() {
        let expected = concat!(
            "aeaqjqaaaidrz2aaaebagbafaydqqcikbmga2dqpcaireeyucu",
            "lbogazdinryhi6d4dqobyha4dqobyha4dqobyha4d2nm5aqy",
        );
        assert_eq!(ticket("192.0.2.7:7400").to_string(), expected);
        let named = concat!(
            "aiaqaclnfzsxqylnobwgkhhiaaaqeayeaudaocajbifqydiob4",
            "ibceqtcqkrmfyydenbwha5dypqobyha4dqobyha4dqobyha4dqobca5cwq",
        );
        assert_eq!(ticket("m.example:7400").to_string(), named);
        let longest = format!("{}.{}:7400", ["a".repeat(62).as_str(); 3].join("."), "b".repeat(63));
        assert_eq!(ticket(&longest).to_string().parse(), Ok(ticket(&longest)));
    }

    #[test]
    fn any_changed_missing_or_added_letter_is_noticed() {
        let text = ticket("192.0.2.7:7400").to_string();
        for at in 0..text.len() {
            for letter in "abcdefghijklmnopqrstuvwxyz234567018-".chars() {
                let mut changed = text.clone();
                changed.replace_range(at..=at, &letter.to_string());
                assert_eq!(changed.parse::<JoinTicket>().is_ok(), changed == text, "{changed}");
            }
            assert!(text[..at].parse::<JoinTicket>().is_err());
            let (before, behind) = text.split_at(at);
            assert!(format!("{before}a{behind}").parse::<JoinTicket>().is_err());
        }
    }

    #[test]
    fn a_ticket_of_another_version_kind_or_length_is_refused_in_words() {
        let sealed = |mut bytes: Vec<u8>| {
            bytes.extend(crc32c::crc32c(&bytes).to_be_bytes());
            BASE32_NOPAD.encode(&bytes).parse::<JoinTicket>().unwrap_err().to_string()
        };
        let good = ticket("192.0.2.7:7400").bytes();
        let body = &good[..good.len() - 4];
        let with = |at: usize, byte: u8| {
            let mut changed = body.to_vec();
            changed[at] = byte;
            changed
        };
        assert!(sealed(with(0, 3)).contains("newer version"));
        assert!(sealed(with(1, 3)).contains("kind of machine"));
        assert!(sealed(with(2, 5)).contains("address"));
        assert!(sealed(with(2, 0)).contains("address"), "version 1 has no names");
        let named = ticket("m.example:7400").bytes();
        let mut named = named[..named.len() - 4].to_vec();
        named[4] = b'/';
        assert!(sealed(named).contains("name"));
        assert!(sealed(body[..body.len() - 1].to_vec()).contains("too short"));
        assert!(sealed([body, &[0]].concat()).contains("behind it"));
        assert!("a".repeat(1_000).parse::<JoinTicket>().is_err());
    }

    #[test]
    fn the_secret_is_never_printed_beside_the_ticket() {
        assert!(!format!("{:?}", ticket("192.0.2.7:7400")).contains('7'.to_string().repeat(2).as_str()));
    }
}
