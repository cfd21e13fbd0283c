//! Tests of making a cloud and changing its accounts, on real folders.

#![allow(clippy::unwrap_used)]
use std::{os::unix::fs::PermissionsExt, path::PathBuf, time::Duration};

use net::identity::{NewKey, ProvedKey, Subject};

use super::*;

fn name(text: &str) -> UserName {
    text.parse().unwrap()
}

fn mode(file: PathBuf) -> u32 {
    fs::metadata(file).unwrap().permissions().mode() & 0o777
}

fn machine(cloud: &CloudSetup, name: &str) -> Machine {
    cloud.accounts().machines().get(&name.parse().unwrap()).unwrap().clone()
}

/// The fingerprint of the certificate in a role's folder, after checking that key and authority fit it.
fn credentials(cloud: &CloudSetup, folder: &Path) -> [u8; 32] {
    cloud.usable(&CredentialFiles::in_folder(folder)).expect("credentials that can be used")
}

#[test]
fn a_cloud_created_again_is_the_same_cloud() {
    let root = tempfile::tempdir().unwrap();
    let [security, master, node] = ["security", "master", "node-1"].map(|role| root.path().join(role));
    let id = NodeId::new("node-1").unwrap();
    let create = || {
        let mut cloud = create_cloud(&security, "home").unwrap();
        cloud.ensure_master(&master).unwrap();
        cloud.ensure_node(&id, &node, &["10.0.0.0/8".parse().unwrap()]).unwrap();
        let token = cloud.ensure_admin(&name("root")).unwrap();
        let seen = [&security, &master, &node].map(|folder| credentials(&cloud, folder));
        let machines = ["security", "master", "node-1"].map(|name| machine(&cloud, name));
        assert_eq!(machines.clone().map(|machine| machine.certificate.fingerprint), seen);
        assert_eq!(machines[2].addresses, ["10.0.0.0/8".parse().unwrap()]);
        (cloud.authority_pem().to_owned(), seen, token)
    };
    let (authority, seen, token) = create();
    assert!(token.is_some());
    assert_eq!(create(), (authority, seen, None));
}

#[test]
fn private_keys_are_for_their_owner_only_and_the_authoritys_key_stays() {
    let root = tempfile::tempdir().unwrap();
    let (security, node) = (root.path().join("security"), root.path().join("node"));
    let mut cloud = create_cloud(&security, "home").unwrap();
    cloud.ensure_node(&"node-1".parse().unwrap(), &node, &[]).unwrap();
    for file in [security.join("authority.key"), security.join("key.pem"), node.join("key.pem")] {
        assert_eq!(mode(file), 0o600);
    }
    assert_eq!(mode(security), 0o700);
    assert!(!node.join("authority.key").exists());
    assert!(!fs::read_to_string(node.join("authority.pem")).unwrap().contains("PRIVATE KEY"));
}

#[test]
fn credentials_that_are_lost_damaged_or_someone_elses_are_issued_again() {
    let root = tempfile::tempdir().unwrap();
    let mut cloud = create_cloud(&root.path().join("security"), "home").unwrap();
    let (node, other) = (root.path().join("node"), root.path().join("other"));
    let id = NodeId::new("node-1").unwrap();
    cloud.ensure_node(&id, &node, &[]).unwrap();
    cloud.ensure_node(&"node-2".parse().unwrap(), &other, &[]).unwrap();
    let damages: [&dyn Fn(); 4] = [
        &|| fs::remove_file(node.join("certificate.pem")).unwrap(),
        &|| fs::write(node.join("key.pem"), "rubbish").unwrap(),
        // What a crash between writing the key and the certificate leaves.
        &|| assert!(fs::copy(other.join("key.pem"), node.join("key.pem")).unwrap() > 0),
        &|| {
            for file in ["certificate.pem", "key.pem"] {
                fs::copy(other.join(file), node.join(file)).unwrap();
            }
        },
    ];
    for damage in damages {
        let before = machine(&cloud, "node-1").certificate.fingerprint;
        damage();
        cloud.ensure_node(&id, &node, &[]).unwrap();
        let after = machine(&cloud, "node-1").certificate.fingerprint;
        assert_ne!(after, before);
        assert_eq!(credentials(&cloud, &node), after);
    }
    assert_ne!(credentials(&cloud, &other), credentials(&cloud, &node));
}

#[test]
fn an_old_certificate_is_replaced_in_time() {
    let root = tempfile::tempdir().unwrap();
    let mut cloud = create_cloud(&root.path().join("security"), "home").unwrap();
    let (id, node) = (NodeId::new("node-1").unwrap(), root.path().join("node"));
    cloud.ensure_node(&id, &node, &[]).unwrap();
    // One of the shortest life there can be: two thirds of it are over before anyone can look.
    let key = NewKey::generate().unwrap();
    let proved = ProvedKey::check(&key.request(None).unwrap(), None).unwrap();
    let subject = Subject { name: "node-1", role: "node-1" };
    let certificate_pem = cloud.authority.certify(&subject, &proved, Duration::from_secs(1)).unwrap();
    let old = fingerprint(&certificate_pem).unwrap();
    write_credentials(&CredentialFiles::in_folder(&node), &key.with_certificate(certificate_pem)).unwrap();
    let certificate = Certificate { fingerprint: old, key: None, until_unix_millis: None };
    cloud.commit(machines::set_machine(&id, &Machine::new(MachineKind::Node, certificate)).unwrap()).unwrap();
    while cloud.usable(&CredentialFiles::in_folder(&node)).is_some() {
        std::thread::yield_now();
    }
    cloud.ensure_node(&id, &node, &[]).unwrap();
    assert_ne!(credentials(&cloud, &node), old);
}

#[test]
fn what_an_administrator_decided_of_a_node_stays_when_the_cloud_is_created_again() {
    let root = tempfile::tempdir().unwrap();
    let mut cloud = create_cloud(&root.path().join("security"), "home").unwrap();
    let (id, node) = (NodeId::new("node-1").unwrap(), root.path().join("node"));
    cloud.ensure_node(&id, &node, &[]).unwrap();
    let addresses = vec!["10.0.0.0/8".parse().unwrap()];
    let decided = Machine { addresses, is_revoked: true, ..machine(&cloud, "node-1") };
    cloud.commit(machines::set_machine(&id, &decided).unwrap()).unwrap();
    cloud.ensure_node(&id, &node, &[]).unwrap();
    fs::remove_file(node.join("certificate.pem")).unwrap();
    cloud.ensure_node(&id, &node, &[]).unwrap();
    assert_eq!(machine(&cloud, "node-1"), decided);
    assert!(!node.join("certificate.pem").exists(), "one that was struck off gets nothing new");
}

#[test]
fn a_lost_authority_is_made_anew_only_while_nothing_depends_on_it() {
    let root = tempfile::tempdir().unwrap();
    let security = root.path().join("security");
    drop(create_cloud(&security, "home").unwrap());
    // Cut off in the middle of the creation: no master yet.
    fs::remove_file(security.join("authority.pem")).unwrap();
    let mut cloud = create_cloud(&security, "home").unwrap();
    credentials(&cloud, &security);
    cloud.ensure_master(&root.path().join("master")).unwrap();
    drop(cloud);
    fs::remove_file(security.join("authority.key")).unwrap();
    let error = create_cloud(&security, "home").err().unwrap();
    assert!(error.to_string().contains("authority.key is missing"), "{error}");
}

#[test]
fn a_node_cannot_take_the_name_of_a_role() {
    let root = tempfile::tempdir().unwrap();
    let mut cloud = create_cloud(&root.path().join("security"), "home").unwrap();
    for role in ["master", "security"] {
        let error = cloud.ensure_node(&role.parse().unwrap(), &root.path().join("node"), &[]).unwrap_err();
        assert!(matches!(error, SecurityError::ReservedName(_)), "{error}");
    }
    assert_eq!(cloud.accounts().machines().masters().count(), 0);
}

#[test]
fn tokens_are_all_different_and_the_oldest_makes_room() {
    let root = tempfile::tempdir().unwrap();
    let mut cloud = create_cloud(root.path(), "home").unwrap();
    let admin = name("root");
    let first = cloud.ensure_admin(&admin).unwrap().unwrap();
    let later: Vec<_> = (0..TOKENS_MAX).map(|_| cloud.add_token(&admin).unwrap()).collect();
    let kept = &cloud.accounts().user(&admin).unwrap().tokens;
    let kept: Vec<_> = kept.iter().map(|token| token.hash).collect();
    assert_eq!(kept, later.iter().map(TokenHash::new).collect::<Vec<_>>());
    assert!(!kept.contains(&TokenHash::new(&first)));
}
