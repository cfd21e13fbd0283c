//! A client for HTTP, to collectors, providers, webhooks and our own pages. It takes no proxy of the environment and follows
//! no redirection. What is sent may be secret, and never goes further than to who was named.

use std::{sync::Arc, time::Duration};

use rustls::pki_types::CertificateDer;
use ureq::{
    Agent,
    config::ConfigBuilder,
    tls::{Certificate, RootCerts, TlsConfig, TlsProvider},
    typestate::AgentScope,
};

/// An agent that trusts these authorities, in DER, and whose requests take so long at most. Answers of any status are
/// answers. What it takes besides can be narrowed before it is built.
pub fn http_agent(trusted: &[CertificateDer<'static>], patience: Duration) -> ConfigBuilder<AgentScope> {
    let trusted = trusted.iter().map(|der| Certificate::from_der(der).to_owned()).collect();
    let tls = TlsConfig::builder()
        .provider(TlsProvider::Rustls)
        .root_certs(RootCerts::Specific(Arc::new(trusted)))
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .build();
    Agent::config_builder()
        .tls_config(tls)
        .proxy(None)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .http_status_as_error(false)
        .timeout_global(Some(patience))
        .max_idle_connections(CONNECTIONS_KEPT)
        .user_agent("sector")
}

/// The authorities that the system trusts. Certificates of it that cannot be read are left out.
pub fn system_certificates() -> Vec<CertificateDer<'static>> {
    rustls_native_certs::load_native_certs().certs
}

/// Connections kept for the next request.
const CONNECTIONS_KEPT: usize = 2;
