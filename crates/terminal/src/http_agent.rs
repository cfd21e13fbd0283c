//! A client for HTTP, with the certificates that the system trusts. It uses no proxy and follows no redirect: what is sent
//! may be secret, and never goes further than to who was named.

use std::{sync::Arc, time::Duration};

use ureq::{
    Agent,
    tls::{Certificate, RootCerts, TlsConfig, TlsProvider},
};

/// An agent with connections of its own, whose requests take so long at most. Answers of any status are answers.
pub fn http_agent(patience: Duration) -> Agent {
    let trusted = rustls_native_certs::load_native_certs().certs;
    let trusted = trusted.iter().map(|der| Certificate::from_der(der).to_owned()).collect();
    let tls = TlsConfig::builder()
        .provider(TlsProvider::Rustls)
        .root_certs(RootCerts::Specific(Arc::new(trusted)))
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .build();
    let config = Agent::config_builder()
        .tls_config(tls)
        .proxy(None)
        .max_redirects(0)
        .http_status_as_error(false)
        .timeout_global(Some(patience))
        .build();
    config.into()
}
