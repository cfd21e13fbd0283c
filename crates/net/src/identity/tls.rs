//! One end's TLS 1.3 configuration. A connecting end demands the certificate of the role that it wants, issued by the
//! cloud's authority. A listening end shows its own certificate and the authority's (for newcomers:
//! [`authority_pinning`]). It accepts callers with a certificate of the cloud, or with none: clients prove themselves
//! by login or ticket. It never trusts the system's certificates, never speaks an older TLS version, and never lets
//! anyone switch checking off.

use std::sync::{Arc, PoisonError, RwLock};

use rustls::{
    ClientConfig, RootCertStore, ServerConfig,
    client::{Resumption, verify_server_name},
    crypto::{CryptoProvider, ring as provider},
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
    server::{ParsedCertificate, WebPkiClientVerifier},
    version::TLS13,
};

use super::{Credentials, authority_pinning, certificate, certificate_error, role_digest, sha256};
use crate::NetError;

/// One end's TLS 1.3 configuration, which trusts only the cloud's authority.
///
/// All copies of an identity share it and change together when its certificate is renewed ([`TlsIdentity::replace`]).
/// Existing connections are left alone; new ones show the new certificate.
#[derive(Clone)]
pub struct TlsIdentity {
    shared: Arc<RwLock<Configurations>>,
}

struct Configurations {
    connect: Arc<ClientConfig>,
    listen: Option<Arc<ServerConfig>>,
    /// Known to everyone who has the role's key, now and after a restart.
    secret: Option<[u8; 32]>,
}

impl TlsIdentity {
    /// A role with a certificate of its own: it can connect with it and listen. Callers without a certificate are
    /// accepted too; a certificate that is shown must be the cloud's.
    ///
    /// # Errors
    /// [`NetError::Certificate`] when a text does not parse or the key is not the certificate's.
    pub fn role(authority_pem: &str, credentials: &Credentials) -> Result<Self, NetError> {
        Ok(Self::sharing(Configurations::role(authority_pem, credentials)?))
    }

    /// A client: can connect only.
    ///
    /// # Errors
    /// [`NetError::Certificate`] when the text is no certificate.
    pub fn client(authority_pem: &str) -> Result<Self, NetError> {
        let mut connect = client_builder(Arc::new(roots(authority_pem)?))?.with_no_client_auth();
        connect.resumption = Resumption::in_memory_sessions(RESUMABLE_SESSIONS_MAX);
        Ok(Self::sharing(Configurations { connect: Arc::new(connect), listen: None, secret: None }))
    }

    /// A newcomer that can only connect, and knows no more of the authority than the SHA-256 of its certificate. With
    /// `None` it trusts whichever authority the peer shows; [`TransferStream::peer_authority`] then says which that
    /// was.
    ///
    /// # Errors
    /// [`NetError::Certificate`] when TLS cannot be set up.
    ///
    /// [`TransferStream::peer_authority`]: crate::transfer::TransferStream::peer_authority
    pub fn with_pinned_authority(authority: Option<[u8; 32]>) -> Result<Self, NetError> {
        let connect = authority_pinning::client_config(authority, crypto())?;
        Ok(Self::sharing(Configurations { connect, listen: None, secret: None }))
    }

    /// From now on this identity and all its copies are a role with these credentials.
    ///
    /// # Errors
    /// As [`role`](Self::role); the identity then stays as it was.
    pub fn replace(&self, authority_pem: &str, credentials: &Credentials) -> Result<(), NetError> {
        let configurations = Configurations::role(authority_pem, credentials)?;
        // The value is replaced as a whole, so it is whole even if a holder of the lock panicked.
        *self.shared.write().unwrap_or_else(PoisonError::into_inner) = configurations;
        Ok(())
    }

    /// The configuration for connecting.
    pub(crate) fn client_config(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.shared.read().unwrap_or_else(PoisonError::into_inner).connect)
    }

    /// The configuration for listening.
    ///
    /// # Errors
    /// [`NetError::Certificate`] for a client, which has no certificate to show.
    pub(crate) fn server_config(&self) -> Result<Arc<ServerConfig>, NetError> {
        let listen = self.shared.read().unwrap_or_else(PoisonError::into_inner).listen.clone();
        listen.ok_or_else(|| certificate_error("listen", "a client has no certificate to show"))
    }

    /// 32 bytes that only this role knows, the same after a restart; `None` for a client.
    pub(crate) fn secret(&self) -> Option<[u8; 32]> {
        self.shared.read().unwrap_or_else(PoisonError::into_inner).secret
    }

    fn sharing(configurations: Configurations) -> Self {
        Self { shared: Arc::new(RwLock::new(configurations)) }
    }
}

impl Configurations {
    /// See [`TlsIdentity::role`].
    fn role(authority_pem: &str, credentials: &Credentials) -> Result<Self, NetError> {
        let operation = "use the role's certificate";
        let fail = |error: rustls::Error| certificate_error(operation, error);
        let roots = Arc::new(roots(authority_pem)?);
        let chain = chain(&credentials.certificate_pem, operation)?;
        let key = PrivateKeyDer::from_pem_slice(credentials.key_pem.as_bytes())
            .map_err(|error| certificate_error(operation, error))?;
        let mut introducing = chain.clone();
        introducing.push(certificate(authority_pem, operation)?);
        let mut connect =
            client_builder(Arc::clone(&roots))?.with_client_auth_cert(chain, key.clone_key()).map_err(fail)?;
        connect.resumption = Resumption::in_memory_sessions(RESUMABLE_SESSIONS_MAX);
        let callers = WebPkiClientVerifier::builder_with_provider(roots, crypto())
            .allow_unauthenticated()
            .build()
            .map_err(|error| certificate_error(operation, error))?;
        let mut listen = ServerConfig::builder_with_provider(crypto())
            .with_protocol_versions(&[&TLS13])
            .map_err(fail)?
            .with_client_cert_verifier(callers)
            .with_single_cert(introducing, key)
            .map_err(fail)?;
        // A returning caller brings its session along, sealed: we keep no table of sessions.
        listen.ticketer = provider::Ticketer::new().map_err(fail)?;
        let secret = Some(sha256(credentials.key_pem.as_bytes()));
        Ok(Self { connect: Arc::new(connect), listen: Some(Arc::new(listen)), secret })
    }
}

/// The certificate that the peer of a connection showed. Its handshake has proved that it is the cloud's, and that the
/// peer has its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerCertificate(Shown);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Shown {
    Certificate(CertificateDer<'static>),
    /// For a connection in memory: SHA-256 of the role's name.
    Memory([u8; 32]),
}

impl PeerCertificate {
    pub(crate) fn new(certificate: CertificateDer<'static>) -> Self {
        Self(Shown::Certificate(certificate))
    }

    /// For a connection in memory, which has no certificates.
    pub(crate) fn in_memory(role_sha256: [u8; 32]) -> Self {
        Self(Shown::Memory(role_sha256))
    }

    /// Whether this certificate belongs to this role or node. A renewed certificate belongs to the same node as the old
    /// one.
    pub fn is_of(&self, role: &str) -> bool {
        match &self.0 {
            Shown::Memory(digest) => *digest == role_digest(role),
            Shown::Certificate(certificate) => {
                let (Ok(parsed), Ok(name)) = (ParsedCertificate::try_from(certificate), server_name(role)) else {
                    return false;
                };
                verify_server_name(&parsed, &name).is_ok()
            }
        }
    }
}

/// The name that the certificate of `role` must bear, in the form that rustls wants.
pub(crate) fn server_name(role: &str) -> Result<ServerName<'static>, NetError> {
    ServerName::try_from(dns_name(role)).map_err(|error| certificate_error("name the other end", error))
}

/// The DNS name that stands for a role or node: `role.sector`.
///
/// DNS names ignore case, and their labels have at most 63 bytes: two nodes `A` and `a` could pose as each other. So a
/// name that is not a plain lower-case label is replaced by its digest, and so is one that looks like a digest.
pub(super) fn dns_name(role: &str) -> String {
    let plain = !role.is_empty()
        && role.len() <= LABEL_BYTES_MAX
        && role.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
        && !role.starts_with('-')
        && !role.ends_with('-')
        && !role.starts_with(DIGEST_PREFIX);
    if plain {
        return format!("{role}.sector");
    }
    let digest = sha256(role.as_bytes());
    // 28 bytes of SHA-256 are all that fit a label behind the prefix; nobody finds two names with the same 224 bits.
    let hex: String = digest.iter().take(28).map(|byte| format!("{byte:02x}")).collect();
    format!("{DIGEST_PREFIX}{hex}.sector")
}

/// ring, with AES-128 before AES-256: 128 bits are beyond any search, and a node moves more bytes per core with them.
fn crypto() -> Arc<CryptoProvider> {
    let suites = vec![
        provider::cipher_suite::TLS13_AES_128_GCM_SHA256,
        provider::cipher_suite::TLS13_AES_256_GCM_SHA384,
        provider::cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
    ];
    Arc::new(CryptoProvider { cipher_suites: suites, ..provider::default_provider() })
}

/// The only certificate anyone trusts.
fn roots(authority_pem: &str) -> Result<RootCertStore, NetError> {
    let operation = "read the authority's certificate";
    let mut roots = RootCertStore::empty();
    roots.add(certificate(authority_pem, operation)?).map_err(|error| certificate_error(operation, error))?;
    Ok(roots)
}

/// All certificates of a PEM text, at least one.
fn chain(pem: &str, operation: &'static str) -> Result<Vec<CertificateDer<'static>>, NetError> {
    let chain: Vec<_> = CertificateDer::pem_slice_iter(pem.as_bytes())
        .collect::<Result<_, _>>()
        .map_err(|error| certificate_error(operation, error))?;
    if chain.is_empty() { Err(certificate_error(operation, "the text holds no certificate")) } else { Ok(chain) }
}

/// The part that both kinds of connecting ends share.
fn client_builder(
    roots: Arc<RootCertStore>,
) -> Result<rustls::ConfigBuilder<ClientConfig, rustls::client::WantsClientCert>, NetError> {
    Ok(ClientConfig::builder_with_provider(crypto())
        .with_protocol_versions(&[&TLS13])
        .map_err(|error| certificate_error("set up TLS", error))?
        .with_root_certificates(roots))
}

/// Servers whose sessions one end remembers for resumption: the nodes of a large cloud.
const RESUMABLE_SESSIONS_MAX: usize = 1024;
/// Longest label of a DNS name in bytes (RFC 1035, 2.3.4).
const LABEL_BYTES_MAX: usize = 63;
/// Prefix of a role's name that is written as a digest.
const DIGEST_PREFIX: &str = "sha256-";

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeSet;

    use super::*;
    use crate::identity::Authority;

    #[test]
    fn ordinary_roles_stand_in_their_certificate_by_name() {
        assert_eq!(dns_name("master"), "master.sector");
        assert_eq!(dns_name("node-1"), "node-1.sector");
    }

    #[test]
    fn names_that_dns_would_confuse_or_refuse_get_different_valid_names() {
        let (long, longer) = ("x".repeat(63), "x".repeat(64));
        let posing = dns_name("A").trim_end_matches(".sector").to_owned();
        let roles = ["a", "A", "a.b", "a..b", "a_b", "a-", "node.sector", &long, &longer, &posing];
        let names: BTreeSet<_> = roles.iter().map(|role| dns_name(role).to_ascii_lowercase()).collect();
        assert_eq!(names.len(), roles.len());
        for role in roles {
            server_name(role).unwrap();
        }
    }

    #[test]
    fn a_key_that_is_not_the_certificates_is_refused() {
        let authority = Authority::create("cloud").unwrap();
        let (one, other) = (authority.issue("node-1").unwrap(), authority.issue("node-1").unwrap());
        let mixed = Credentials { certificate_pem: one.certificate_pem, key_pem: other.key_pem };
        assert!(TlsIdentity::role(authority.certificate_pem(), &mixed).is_err());
    }

    #[test]
    fn a_broken_profile_is_refused_in_words() {
        let error = TlsIdentity::client("no certificate").err().unwrap();
        assert!(error.to_string().starts_with("cannot read the authority's certificate: "), "{error}");
        let authority = Authority::create("cloud").unwrap();
        let credentials = authority.issue("node-1").unwrap();
        let empty = Credentials { certificate_pem: String::new(), ..credentials };
        assert!(TlsIdentity::role(authority.certificate_pem(), &empty).is_err());
    }

    #[test]
    fn a_certificate_is_of_the_role_in_its_name_and_of_no_other() {
        let authority = Authority::create("cloud").unwrap();
        for (role, other) in [("node-1", "node-2"), ("A", "a"), ("master", "security")] {
            let pem = authority.issue(role).unwrap().certificate_pem;
            let shown = PeerCertificate::new(certificate(&pem, "read").unwrap());
            assert!(shown.is_of(role) && !shown.is_of(other), "{role}");
        }
    }

    #[test]
    fn a_client_cannot_listen() {
        let authority = Authority::create("cloud").unwrap();
        assert!(TlsIdentity::client(authority.certificate_pem()).unwrap().server_config().is_err());
    }
}
