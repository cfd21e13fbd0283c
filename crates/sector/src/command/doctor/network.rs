//! What in this machine's network will hurt. Buffers may be too small for a long fat pipe, and paths may be narrower
//! than their ends believe. It never changes a setting; it reads what the system tells, and asks for socket buffers.

use std::fs;

use net::{
    datagram::{SOCKET_BUFFER_BYTES as MESSAGE_BUFFER_BYTES, SocketBuffers, granted_buffers},
    transfer::QUIC_SOCKET_BUFFER_BYTES,
};
use terminal::show;

use super::Finding;

/// All network findings.
pub(super) fn findings() -> Vec<Finding> {
    vec![
        udp_buffer("rmem_max", "received", number(&read("/proc/sys/net/core/rmem_max"))),
        udp_buffer("wmem_max", "sent", number(&read("/proc/sys/net/core/wmem_max"))),
        messages(granted_buffers().ok()),
        tcp_window("tcp_rmem", "received", largest(&read("/proc/sys/net/ipv4/tcp_rmem"))),
        tcp_window("tcp_wmem", "sent", largest(&read("/proc/sys/net/ipv4/tcp_wmem"))),
        tcp_mtu_probing(number(&read("/proc/sys/net/ipv4/tcp_mtu_probing"))),
    ]
}

/// The largest buffer that a UDP socket may request; QUIC's socket requests the most.
fn udp_buffer(check: &'static str, what: &str, bytes: Option<u64>) -> Finding {
    let Some(bytes) = bytes else { return Finding::unknown(check, "this system does not say") };
    let found = format!("at most {} are kept of what is {what} over UDP", show::size(bytes));
    if bytes >= QUIC_SOCKET_BUFFER_BYTES as u64 {
        return Finding::ok(check, found);
    }
    Finding::warning(check, found, setting(&format!("net.core.{check}={QUIC_SOCKET_BUFFER_BYTES}")))
}

/// What buffers the socket for messages was given, compared with what it requests.
fn messages(granted: Option<SocketBuffers>) -> Finding {
    let Some(granted) = granted else { return Finding::unknown("messages", "no UDP socket could be opened") };
    let sizes = (show::size(granted.receive_bytes as u64), show::size(granted.send_bytes as u64));
    let found = format!("their socket keeps {} of what comes, {} of what leaves", sizes.0, sizes.1);
    if !granted.is_reduced() {
        return Finding::ok("messages", found);
    }
    let wanted = show::size(MESSAGE_BUFFER_BYTES as u64);
    let advice = format!(
        "it asks for {wanted} each: raise net.core.rmem_max and net.core.wmem_max, or a busy master loses messages and sends them again"
    );
    Finding::warning("messages", found, advice)
}

/// How far a TCP window may grow by itself. Between sites, TCP is used where UDP does not get through.
fn tcp_window(check: &'static str, what: &str, bytes: Option<u64>) -> Finding {
    let Some(bytes) = bytes else { return Finding::unknown(check, "this system does not say") };
    let found = format!("at most {} of what is {what} are under way on a TCP connection", show::size(bytes));
    if bytes >= TCP_WINDOW_BYTES {
        return Finding::ok(check, found);
    }
    let rest = if check == "tcp_rmem" { "4096 131072" } else { "4096 16384" };
    Finding::warning(check, found, setting(&format!("net.ipv4.{check}='{rest} {TCP_WINDOW_BYTES}'")))
}

/// Whether TCP finds out by itself that a path is narrower than its ends believe.
fn tcp_mtu_probing(setting_of_it: Option<u64>) -> Finding {
    match setting_of_it {
        Some(0) => Finding::warning(
            "tcp_mtu_probing",
            "TCP stands still where a router drops long packets without a word".into(),
            setting("net.ipv4.tcp_mtu_probing=1"),
        ),
        Some(_) => Finding::ok("tcp_mtu_probing", "TCP finds out how long packets may be".into()),
        None => Finding::unknown("tcp_mtu_probing", "this system does not say"),
    }
}

fn setting(text: &str) -> String {
    format!("sysctl -w {text}, and the same in /etc/sysctl.d/sector.conf")
}

fn read(file: &str) -> String {
    fs::read_to_string(file).unwrap_or_default()
}

fn number(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

/// The last of three sizes: minimum, default and maximum.
fn largest(text: &str) -> Option<u64> {
    number(text.split_whitespace().nth(2)?)
}

/// What a TCP connection must have in flight to fill 1 Gbit/s over 100 ms. It is doubled, since the system takes half
/// of a buffer for its own bookkeeping.
const TCP_WINDOW_BYTES: u64 = 32 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_will_hurt_comes_with_what_to_do_and_what_is_well_does_not() {
        let socket = |receive_bytes| SocketBuffers { receive_bytes, send_bytes: MESSAGE_BUFFER_BYTES };
        let pairs = [
            (udp_buffer("rmem_max", "received", Some(212_992)), udp_buffer("rmem_max", "received", Some(64 << 20))),
            (messages(Some(socket(212_992))), messages(Some(socket(MESSAGE_BUFFER_BYTES)))),
            (tcp_window("tcp_rmem", "received", Some(6 << 20)), tcp_window("tcp_rmem", "received", Some(32 << 20))),
            (tcp_mtu_probing(Some(0)), tcp_mtu_probing(Some(1))),
        ];
        for (bad, good) in pairs {
            assert_eq!((bad.state, good.state), ("warning", "ok"), "{bad:?} {good:?}");
            assert!(bad.advice.starts_with("sysctl -w net.") || bad.check == "messages", "{bad:?}");
            assert!(good.advice.is_empty());
        }
        assert!(udp_buffer("rmem_max", "received", Some(1)).advice.contains("net.core.rmem_max=33554432,"));
    }

    #[test]
    fn what_a_machine_does_not_say_is_unknown_and_no_warning() {
        for finding in [
            udp_buffer("wmem_max", "sent", number("")),
            messages(None),
            tcp_window("tcp_wmem", "sent", largest("4096 16384")),
            tcp_mtu_probing(None),
        ] {
            assert_eq!(finding.state, "unknown", "{finding:?}");
        }
        assert_eq!(largest("4096\t131072\t6291456\n"), Some(6 << 20));
    }
}
