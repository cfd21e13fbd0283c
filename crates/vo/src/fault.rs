//! Why a service cannot answer, in the words of DALI (1.1, 4.2) and SODA (1.0, 4.3). The first word of the text says
//! whose fault it is. It never shows more than its sentence.

use http::StatusCode;
use thiserror::Error;

/// Why a service cannot answer.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Fault {
    /// The request makes no sense.
    #[error("UsageError: {0}")]
    Usage(String),
    /// A parameter was given several times that may be given once.
    #[error("MultiValuedParamNotSupported: {0} may be given once")]
    MultiValued(String),
    /// Nobody is logged in, or the login is wrong.
    #[error("AuthenticationError: {0}")]
    NotAuthenticated(String),
    /// The user may not do that.
    #[error("AuthorizationError: {0}")]
    NotAuthorized(String),
    /// There is no such thing.
    #[error("UsageError: {0}")]
    NotFound(String),
    /// What is asked for is more than a limit allows.
    #[error("UsageError: {0}")]
    TooLarge(String),
    /// It may work a little later.
    #[error("ServiceUnavailable: {0}")]
    Unavailable(String),
    /// It does not work.
    #[error("Error: {0}")]
    Failed(String),
}

impl Fault {
    /// As HTTP says it.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Usage(_) | Self::MultiValued(_) => StatusCode::BAD_REQUEST,
            Self::NotAuthenticated(_) => StatusCode::UNAUTHORIZED,
            Self::NotAuthorized(_) => StatusCode::FORBIDDEN,
            Self::NotFound(_) => StatusCode::NOT_FOUND,
            Self::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Unavailable(_) => StatusCode::SERVICE_UNAVAILABLE,
            Self::Failed(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// Whether the same request may succeed later.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Unavailable(_))
    }
}
