//! A real OpenID Connect provider (`tests/oidc`) as a child process on a port of its own, over HTTPS with an authority
//! of the test's own. A program that follows the provider's pages stands for a person and makes the clicks. Where they
//! are not installed, the tests fail and say what to install; they are never skipped silently.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use tempfile::TempDir;

/// The provider; it ends when this is dropped.
pub(crate) struct Op {
    pub(crate) folder: TempDir,
    port: u16,
    child: Child,
}

impl Op {
    pub(crate) fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name);
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "an authority of the tests");
        let key = KeyPair::generate().unwrap();
        fs::write(file("authority.pem"), params.self_signed(&key).unwrap().pem()).unwrap();
        let issuer = Issuer::new(params, key);
        let key = KeyPair::generate().unwrap();
        let server = CertificateParams::new(["localhost".to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
        fs::write(file("certificate.pem"), server.pem()).unwrap();
        fs::write(file("key.pem"), key.serialize_pem()).unwrap();
        let mut command = node("provider.mjs");
        command.args([file("certificate.pem"), file("key.pem")]).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut port = String::new();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        said.read_line(&mut port).unwrap();
        // It writes more, and would end if nobody read it.
        std::thread::spawn(move || said.lines().map_while(Result::ok).for_each(drop));
        Self { folder, port: port.trim().parse().unwrap(), child }
    }

    pub(crate) fn issuer(&self) -> String {
        format!("https://localhost:{}", self.port)
    }

    /// Lets a person go through the pages.
    pub(crate) fn person(&self, url: &str, arguments: &[&str]) {
        let mut command = node("person.mjs");
        command.env("NODE_EXTRA_CA_CERTS", self.folder.path().join("authority.pem"));
        let output = command.arg(url).args(arguments).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

impl Drop for Op {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn node(script: &str) -> Command {
    // This file serves the tests of two crates.
    let mut folders = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|folder| folder.join("tests/oidc"));
    let folder: PathBuf = folders.find(|folder| folder.join("package.json").exists()).unwrap();
    assert!(
        folder.join("node_modules").exists(),
        "NOT TESTED: logins with a browser need a real provider, and it is missing; `cargo xtask test install` installs \
         it (`npm ci` in tests/oidc, with Node.js)"
    );
    let mut command = Command::new("node");
    command.arg(folder.join(script));
    command
}
