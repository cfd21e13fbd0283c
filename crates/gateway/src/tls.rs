//! TLS for browsers: the certificate of the settings, HTTP/2 and HTTP/1.1. The cloud's own authority is not used here,
//! since no browser knows it. It never asks a browser for a certificate.

use std::{path::Path, sync::Arc};

use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use tokio_rustls::TlsAcceptor;

use crate::GatewayError;

/// Reads certificate and key.
pub(crate) fn acceptor(certificate: &Path, key: &Path) -> Result<TlsAcceptor, GatewayError> {
    let read = |what, file: &Path| {
        std::fs::read(file).map_err(|source| GatewayError::File { what, file: file.to_owned(), source })
    };
    let wrong = |why: String| GatewayError::Certificate { file: certificate.to_owned(), why };
    let chain = CertificateDer::pem_slice_iter(&read("certificate", certificate)?)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| wrong(error.to_string()))?;
    let key = PrivateKeyDer::from_pem_slice(&read("private key", key)?)
        .map_err(|error| wrong(format!("its key: {error}")))?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong(error.to_string()))?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(|error| wrong(error.to_string()))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
