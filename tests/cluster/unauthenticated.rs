//! Whoever connects and proves nothing, from one address, to every door of a cloud: those of another address notice
//! nothing. Real processes.

use std::{
    io::Write,
    net::{SocketAddr, TcpStream},
};

use cluster::Roles;
use socket2::{Domain, Socket, Type};

use crate::accounts::{cloud_of, with_input};

// Promise 27.
#[test]
fn the_strangers_of_one_address_keep_nobody_of_another_from_get_put_and_login() {
    let mut roles = Roles::start(1, 1);
    let added = with_input(roles.command(&["user", "add", "ann", "--password-stdin"]), "correct horse\n");
    assert_eq!(added.code, 0, "{}", added.errors);
    // Room for four who have proved something.
    roles.kill("node-1");
    roles.change("node-1", "transfers_max", "1");
    roles.run_role("node-1");
    roles.until_up(1);
    let mut strangers: Vec<TcpStream> = Vec::new();
    for role in ["security", "master", "node-1"] {
        let door = roles.address(role);
        strangers.extend((0..STRANGERS).map(|_| connect_from_elsewhere(door)));
    }
    // Some say what means nothing; the others keep silent.
    for stranger in strangers.iter_mut().step_by(2) {
        let _ = stranger.write_all(b"GET / HTTP/1.1\r\n");
    }
    let bytes = roles.random_file("bytes", 3_000_000);
    roles.ok(&["put", bytes.to_str().unwrap(), "/bytes"]);
    let back = roles.folder().join("back");
    roles.ok(&["get", "/bytes", back.to_str().unwrap()]);
    assert!(std::fs::read(&back).unwrap() == std::fs::read(&bytes).unwrap());
    let (master, _) = cloud_of(&roles);
    let authority = roles.role_folder("master").join("authority.pem");
    let (profile, authority) = (roles.folder().join("ann.toml"), authority.to_str().unwrap().to_owned());
    let profile = profile.to_str().unwrap();
    let login =
        ["login", "ann", "--password-stdin", "--master", &master, "--authority", &authority, "--profile", profile];
    let entered = with_input(roles.command(&login), "correct horse\n");
    assert_eq!(entered.code, 0, "{}", entered.errors);
    drop(strangers);
}

/// A connection from an address of this machine at which nobody else calls.
fn connect_from_elsewhere(door: SocketAddr) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from(([127, 0, 0, 2], 0)).into()).unwrap();
    socket.connect(&door.into()).unwrap();
    socket.into()
}

/// Strangers at each door: more than any door let in before it knew anything, times what a client waits.
const STRANGERS: usize = 600;
