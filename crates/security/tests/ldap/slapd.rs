//! A real directory: Debian's `slapd` as a child process, on ports of its own, with its own settings, data and
//! certificates. Where it is not installed the tests fail and say what to install; they never pass by not being made.

use std::{
    fs,
    io::{BufRead, BufReader},
    net::{Ipv4Addr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tempfile::TempDir;

/// The directory; it ends with this.
pub(crate) struct Slapd {
    pub(crate) folder: TempDir,
    pub(crate) plain_port: u16,
    pub(crate) tls_port: u16,
    child: Child,
}

impl Slapd {
    /// Starts one that holds `people.ldif` and the certificate of `localhost` by an authority of its own.
    pub(crate) fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        write_certificates(folder.path());
        let config = write_settings(folder.path());
        let people = folder.path().join("people.ldif");
        fs::write(&people, include_str!("people.ldif")).unwrap();
        run(Command::new(program("slapadd")).arg("-f").arg(&config).arg("-l").arg(&people));
        // A port that is free now may be taken by another test before slapd has it: then others are tried.
        for _ in 0..20 {
            let (plain_port, tls_port) = (free_port(), free_port());
            if let Some(child) = serve(&config, plain_port, tls_port) {
                return Self { folder, plain_port, tls_port, child };
            }
        }
        panic!("slapd does not start; run it by hand with -f {}", config.display());
    }

    /// Removes a person, as whoever looks after the directory would.
    pub(crate) fn remove(&self, person: &str) {
        let url = format!("ldap://localhost:{}", self.plain_port);
        let who = ["-x", "-D", "cn=root,dc=example,dc=org", "-w", "root", "-H", &url];
        let dn = format!("uid={person},ou=people,dc=example,dc=org");
        run(Command::new("ldapdelete").args(who).arg(dn));
    }

    /// Ends the directory; its folder stays.
    pub(crate) fn stop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

impl Drop for Slapd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A certificate of an authority of its own, and one of a stranger.
fn write_certificates(folder: &Path) {
    for (authority_file, certificate_file, key_file) in
        [("authority.pem", "certificate.pem", "key.pem"), ("stranger.pem", "unused.pem", "unused.key")]
    {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let authority = params.self_signed(&key).unwrap();
        let issuer = Issuer::new(params, key);
        let key = KeyPair::generate().unwrap();
        let server = CertificateParams::new(["localhost".to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
        fs::write(folder.join(authority_file), authority.pem()).unwrap();
        fs::write(folder.join(certificate_file), server.pem()).unwrap();
        fs::write(folder.join(key_file), key.serialize_pem()).unwrap();
    }
}

fn write_settings(folder: &Path) -> PathBuf {
    fs::create_dir(folder.join("data")).unwrap();
    let file = |name: &str| folder.join(name).display().to_string();
    let settings = format!(
        "include /etc/ldap/schema/core.schema\n\
         include /etc/ldap/schema/cosine.schema\n\
         include /etc/ldap/schema/inetorgperson.schema\n\
         modulepath /usr/lib/ldap\n\
         moduleload back_mdb\n\
         moduleload memberof\n\
         pidfile {}\n\
         TLSCACertificateFile {}\nTLSCertificateFile {}\nTLSCertificateKeyFile {}\n\
         database mdb\nsuffix \"dc=example,dc=org\"\ndirectory {}\nmaxsize 16777216\n\
         rootdn \"cn=root,dc=example,dc=org\"\nrootpw root\n\
         overlay memberof\n\
         access to attrs=userPassword by anonymous auth by * none\n\
         access to * by dn.base=\"cn=sector,dc=example,dc=org\" read by self read by * none\n",
        file("slapd.pid"),
        file("authority.pem"),
        file("certificate.pem"),
        file("key.pem"),
        file("data"),
    );
    let config = folder.join("slapd.conf");
    fs::write(&config, settings).unwrap();
    config
}

/// Serves, if the ports are free.
fn serve(config: &Path, plain_port: u16, tls_port: u16) -> Option<Child> {
    let mut child = Command::new(program("slapd"))
        .args(["-d", "stats", "-h", &format!("ldap://localhost:{plain_port} ldaps://localhost:{tls_port}")])
        .arg("-f")
        .arg(config)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let is_ready = lines.by_ref().map_while(Result::ok).any(|line| line.contains("slapd starting"));
    // It must not stand still because nobody reads what it says.
    std::thread::spawn(move || lines.for_each(drop));
    if is_ready {
        // It says so a moment before it listens. Until then a connection is refused at once.
        for port in [plain_port, tls_port] {
            while TcpStream::connect(("localhost", port)).is_err() && child.try_wait().unwrap().is_none() {
                std::thread::yield_now();
            }
        }
        return Some(child);
    }
    let _ = child.wait();
    None
}

fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port()
}

fn program(name: &str) -> PathBuf {
    let file = PathBuf::from("/usr/sbin").join(name);
    assert!(
        file.exists(),
        "NOT TESTED: logins by LDAP need a real directory, and {} is missing; `cargo xtask test install` installs it \
         (apt-get install slapd ldap-utils)",
        file.display()
    );
    file
}

fn run(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}
