//! How long a handshake may take, and why one failed, in words for a person. It never makes a connection.

use std::{io, time::Duration};

use rustls::{AlertDescription, CertificateError};

/// What went wrong with TLS, for a person; `None` when it is not about the identity of the ends.
pub(super) fn identity_error(error: &io::Error) -> Option<&'static str> {
    let error = error.get_ref()?.downcast_ref::<rustls::Error>()?;
    Some(match error {
        rustls::Error::InvalidCertificate(reason) => match reason {
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                "it is another role or node than the one expected there; check the address"
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                "its certificate has expired; issue a new one, and see that the clocks agree"
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                "its certificate is not valid yet; see that the clocks agree"
            }
            _ => "its certificate is not from this cloud's authority; use the profile of that cloud",
        },
        rustls::Error::AlertReceived(
            AlertDescription::UnknownCA
            | AlertDescription::BadCertificate
            | AlertDescription::DecryptError
            | AlertDescription::CertificateUnknown
            | AlertDescription::CertificateExpired
            | AlertDescription::AccessDenied,
        ) => "it does not accept our certificate; is it from the same cloud?",
        rustls::Error::InvalidMessage(_)
        | rustls::Error::PeerIncompatible(_)
        | rustls::Error::AlertReceived(AlertDescription::ProtocolVersion | AlertDescription::HandshakeFailure) => {
            "it does not speak TLS 1.3 as sector does; is that a port of sector?"
        }
        _ => return None,
    })
}

/// How long a TCP connection may take to be established: three tries of the system, and far more than any round trip.
pub const CONNECT_DEADLINE: Duration = Duration::from_secs(10);
/// How long a TLS handshake may take: two round trips and some computing, on a busy machine.
pub const HANDSHAKE_DEADLINE: Duration = Duration::from_secs(10);
