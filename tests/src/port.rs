//! Ports for roles that a test starts on the loopback.

use std::{
    net::{TcpListener, UdpSocket},
    process,
    sync::atomic::{AtomicU16, Ordering},
};

/// A port that is free for TCP and UDP: roles take the same number for both. It is not an ephemeral port, since a
/// client of another test might get such a port before the role has it.
pub fn free_port() -> u16 {
    static TAKEN: AtomicU16 = AtomicU16::new(0);
    // Another run of tests beside this one begins elsewhere.
    let first = (process::id() % u32::from(PORTS)) as u16;
    for _ in 0..PORTS {
        let port = PORTS_FROM + (first.wrapping_add(TAKEN.fetch_add(1, Ordering::Relaxed))) % PORTS;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() && UdpSocket::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
    panic!("no port is free from {PORTS_FROM} on");
}

/// Where ports for roles begin, and how many there are: below those that Linux gives out (32768 and up).
const PORTS_FROM: u16 = 20_000;
const PORTS: u16 = 12_000;
