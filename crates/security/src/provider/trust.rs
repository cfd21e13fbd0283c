//! Which certificates a provider may show: those of the authorities in a file, or of the system's. They are read once,
//! at the start of the security server. A provider with any other certificate is never trusted.

use std::{io, path::Path, sync::Arc};

use rustls::{
    ClientConfig, RootCertStore,
    crypto::{CryptoProvider, ring},
    pki_types::{CertificateDer, pem::PemObject},
};

use crate::SecurityError;

/// The certificates of the authorities that are trusted.
#[derive(Clone)]
pub(super) struct TrustRoots(Vec<CertificateDer<'static>>);

impl TrustRoots {
    /// The authorities in this file, PEM; without one, the system's.
    pub(super) fn read(file: Option<&Path>) -> Result<Self, SecurityError> {
        let Some(file) = file else {
            // System certificates that cannot be read are not trusted; the rest are.
            return Ok(Self(daemon::system_certificates()));
        };
        let failed =
            |source| SecurityError::File { operation: "read the authorities in", file: file.to_owned(), source };
        let pem = std::fs::read(file).map_err(failed)?;
        let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
        match found {
            Ok(certificates) if !certificates.is_empty() => Ok(Self(certificates)),
            _ => Err(failed(io::Error::new(io::ErrorKind::InvalidData, "it holds no certificates"))),
        }
    }

    /// The certificates, DER.
    pub(super) fn certificates(&self) -> &[CertificateDer<'static>] {
        &self.0
    }

    /// TLS, 1.2 at least, to a server whose certificate these authorities vouch for.
    pub(super) fn tls(&self) -> Result<Arc<ClientConfig>, SecurityError> {
        let mut roots = RootCertStore::empty();
        // Certificates that cannot be parsed are skipped: the system's may include some.
        roots.add_parsable_certificates(self.0.iter().cloned());
        let config = ClientConfig::builder_with_provider(cryptography())
            .with_safe_default_protocol_versions()
            .map_err(|_| SecurityError::Panicked("prepared TLS"))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Arc::new(config))
    }
}

/// The only cryptography provider of this program.
pub(super) fn cryptography() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn authorities_are_read_from_a_file_and_a_file_without_any_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("authority.pem");
        let authority = rcgen::generate_simple_self_signed(["ldap.example.org".to_owned()]).unwrap();
        std::fs::write(&file, authority.cert.pem()).unwrap();
        let trust = TrustRoots::read(Some(&file)).unwrap();
        assert_eq!(trust.0.len(), 1);
        trust.tls().unwrap();
        std::fs::write(&file, "nothing").unwrap();
        assert!(TrustRoots::read(Some(&file)).is_err());
    }
}
