//! A real directory: Debian's `slapd` as a child process, on ports of its own, with its own settings, data and
//! certificates. Where it is not installed the tests fail and say what to install; they never pass by not being made.

use std::{
    fs,
    io::{BufRead, BufReader},
    net::{Ipv4Addr, TcpListener},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tempfile::TempDir;

/// Who may change everything in the directory. Each directory has a password of its own.
const ROOT: &str = "cn=root,dc=example,dc=org";

/// The directory; it ends with this.
pub(crate) struct Slapd {
    pub(crate) folder: TempDir,
    pub(crate) plain_port: u16,
    pub(crate) tls_port: u16,
    root_password: String,
    child: Child,
}

impl Slapd {
    /// Starts one that holds `people.ldif` and the certificate of `localhost` by an authority of its own.
    pub(crate) fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        write_certificates(folder.path());
        let root_password = folder.path().display().to_string();
        let config = write_settings(folder.path(), &root_password);
        let people = folder.path().join("people.ldif");
        fs::write(&people, include_str!("people.ldif")).unwrap();
        run(Command::new(program("slapadd")).arg("-f").arg(&config).arg("-l").arg(&people));
        // A port that is free now may be taken by another test before slapd has it: then others are tried.
        for _ in 0..20 {
            let (plain_port, tls_port) = (free_port(), free_port());
            if let Some(child) = serve(&config, &root_password, plain_port, tls_port) {
                return Self { folder, plain_port, tls_port, root_password, child };
            }
        }
        panic!("slapd does not start; run it by hand with -f {}", config.display());
    }

    /// Removes a person, as whoever looks after the directory would.
    pub(crate) fn remove(&self, person: &str) {
        let url = format!("ldap://localhost:{}", self.plain_port);
        let who = ["-x", "-D", ROOT, "-w", &self.root_password, "-H", &url];
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

fn write_settings(folder: &Path, root_password: &str) -> PathBuf {
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
         rootdn \"{ROOT}\"\nrootpw \"{root_password}\"\n\
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
fn serve(config: &Path, root_password: &str, plain_port: u16, tls_port: u16) -> Option<Child> {
    let mut child = Command::new(program("slapd"))
        .args(["-d", "stats", "-h", &format!("ldap://localhost:{plain_port} ldaps://localhost:{tls_port}")])
        .arg("-f")
        .arg(config)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let is_starting = lines.by_ref().map_while(Result::ok).any(|line| line.contains("slapd starting"));
    // It must not stand still because nobody reads what it says, and where a test fails its words tell why.
    std::thread::spawn(move || lines.map_while(Result::ok).for_each(|line| eprintln!("slapd: {line}")));
    // It says so a moment before it listens, and in that moment another may take a port of it.
    for _ in 0..200 {
        if !is_starting || child.try_wait().unwrap().is_some() {
            break;
        }
        let urls = [format!("ldaps://localhost:{tls_port}"), format!("ldap://localhost:{plain_port}")];
        if urls.iter().all(|url| answers(url, root_password)) {
            return Some(child);
        }
    }
    let _ = child.kill();
    let _ = child.wait();
    None
}

/// Whether this very directory answers, and not that of another test: only it knows the password.
fn answers(url: &str, root_password: &str) -> bool {
    let asked = Command::new("ldapwhoami")
        .args(["-x", "-D", ROOT, "-w", root_password, "-H", url])
        .env("LDAPTLS_REQCERT", "never")
        .output();
    asked.unwrap().status.success()
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
