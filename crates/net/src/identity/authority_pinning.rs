//! How a newcomer without the authority's certificate checks its peer (`node join`, `master join`). The peer shows the
//! authority's certificate behind its own, and the newcomer compares that with the digest in its ticket. The rest is
//! checked as always: this authority issued the peer's certificate, for the expected role, and the peer has its key.
//! Without a digest (an explicit choice of the operator) the newcomer trusts the first authority it meets, and keeps to
//! it. It never trusts an authority in any third way.

use std::sync::Arc;

use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    client::{
        Resumption, WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{CryptoProvider, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime},
    version::TLS13,
};

use super::{certificate_error, fingerprint_of};
use crate::NetError;

/// Checks the peer by the authority that it shows.
#[derive(Debug)]
struct PinnedAuthorityVerifier {
    /// SHA-256 of the only authority to be trusted; `None`: any.
    authority: Option<[u8; 32]>,
    crypto: Arc<CryptoProvider>,
}

/// A configuration that trusts the authority of this digest, or with `None` the one that the other end shows.
pub(super) fn client_config(
    authority: Option<[u8; 32]>,
    crypto: Arc<CryptoProvider>,
) -> Result<Arc<ClientConfig>, NetError> {
    let verifier = Arc::new(PinnedAuthorityVerifier { authority, crypto: Arc::clone(&crypto) });
    let mut config = ClientConfig::builder_with_provider(crypto)
        .with_protocol_versions(&[&TLS13])
        .map_err(|error| certificate_error("set up TLS", error))?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    // A resumed session shows no certificates, and they are what is checked here.
    config.resumption = Resumption::disabled();
    Ok(Arc::new(config))
}

impl ServerCertVerifier for PinnedAuthorityVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let unknown = || Error::InvalidCertificate(CertificateError::UnknownIssuer);
        let shown = intermediates.last().ok_or_else(unknown)?;
        if self.authority.is_some_and(|expected| fingerprint_of(shown) != expected) {
            return Err(unknown());
        }
        let mut roots = RootCertStore::empty();
        roots.add(shown.clone().into_owned()).map_err(|_| unknown())?;
        WebPkiServerVerifier::builder_with_provider(roots.into(), Arc::clone(&self.crypto))
            .build()
            .map_err(|_| unknown())?
            .verify_server_cert(end_entity, &[], server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        // The library never calls this: only TLS 1.3 is spoken.
        Err(Error::General("TLS 1.2 is not spoken here".into()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, dss, &self.crypto.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.crypto.signature_verification_algorithms.supported_schemes()
    }
}
