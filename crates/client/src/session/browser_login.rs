//! Logging in with a browser at an identity provider (device flow, RFC 8628; doors 1 and 2). Serves `sector login
//! --oidc` and programs like it. It speaks with the master only; the provider's own codes and tokens never come here.

use std::time::{Duration, Instant};

use net::{identity::TlsIdentity, transfer::TcpCarrier};
use protocol::{
    Reason, Refusal, Status,
    message::{
        accounts::NewSession,
        join::{JoinReply, JoinRequest},
        login::{DeviceLogin, DeviceReply, DeviceRequest},
    },
};
use tokio::time::sleep;

use crate::{ClientError, LoginTarget, Profile, session::joining::ask_to_join};

/// A login that has begun, and that a person finishes in a browser.
pub struct BrowserLogin {
    endpoint: LoginEndpoint,
    login: DeviceLogin,
    user_code: String,
    url: String,
    complete_url: Option<String>,
    interval: Duration,
    ends: Instant,
}

/// The master's, before there is a session.
struct LoginEndpoint {
    at: LoginTarget,
    carrier: TcpCarrier,
}

impl BrowserLogin {
    /// Begins a login with a cloud at this identity provider; without a name at the only one.
    ///
    /// # Errors
    /// Where the cloud cannot be reached, or has no such provider.
    pub async fn begin(at: LoginTarget, provider: Option<&str>) -> Result<Self, ClientError> {
        let identity = TlsIdentity::client(&at.authority);
        let identity = identity.map_err(ClientError::net("cannot use the cloud's authority"))?;
        let request = DeviceRequest::Begin { provider: provider.map(ToOwned::to_owned), machine: at.machine.clone() };
        let door = LoginEndpoint { at, carrier: TcpCarrier::new(identity) };
        match door.ask(request).await? {
            DeviceReply::Begun {
                login,
                user_code,
                verification_url,
                complete_url,
                interval_seconds,
                lives_seconds,
            } => Ok(Self {
                endpoint: door,
                login,
                user_code,
                url: verification_url,
                complete_url,
                interval: Duration::from_secs(interval_seconds.into()),
                ends: Instant::now() + Duration::from_secs(lives_seconds.into()),
            }),
            _ => Err(unexpected()),
        }
    }

    /// The code that the person enters.
    pub fn user_code(&self) -> &str {
        &self.user_code
    }

    /// The page where it is entered.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The page with the code entered already, where the provider has one.
    pub fn complete_url(&self) -> Option<&str> {
        self.complete_url.as_deref()
    }

    /// Waits until the person has finished, and gives the profile with the new login session's token, which is kept
    /// nowhere else.
    ///
    /// # Errors
    /// Where the login was denied, took too long, or gave a user who may not come in.
    pub async fn finish(mut self) -> Result<Profile, ClientError> {
        loop {
            sleep(self.interval).await;
            match self.endpoint.ask(DeviceRequest::Poll { login: self.login }).await {
                Ok(DeviceReply::Done { user, session: NewSession { credential, token, .. } }) => {
                    let LoginTarget { address, authority, .. } = self.endpoint.at;
                    let session = Some(credential);
                    return Ok(Profile { session, ..Profile::of(address, user, token, authority) });
                }
                Ok(DeviceReply::Pending { interval_seconds }) => {
                    self.interval = Duration::from_secs(interval_seconds.max(1).into());
                }
                // A master that is away for a moment must not cost a person the login.
                Err(error) if error.status() == Status::Unavailable => tracing::debug!(%error, "asked in vain"),
                Err(error) => return Err(error),
                Ok(DeviceReply::Begun { .. }) => return Err(unexpected()),
            }
            if Instant::now() >= self.ends {
                let message = "the login was not finished in the browser in time; log in again";
                return Err(Refusal::new(Reason::NotAuthenticated, message).into());
            }
        }
    }
}

impl LoginEndpoint {
    /// One question on a connection of its own: between two of them people read mail and look for their telephone.
    async fn ask(&self, request: DeviceRequest) -> Result<DeviceReply, ClientError> {
        let failed = || ClientError::net(format!("cannot log in at {}", self.at.address));
        let request = JoinRequest::Device(request);
        let (stream, reply) = ask_to_join(&self.carrier, &self.at.address, &request).await.map_err(failed())?;
        stream.close().await;
        match reply {
            JoinReply::Device(reply) => Ok(reply),
            JoinReply::Refused(refusal) => Err(refusal.into()),
            JoinReply::Accepted { .. } | JoinReply::LoggedIn(_) | JoinReply::Admission(_) => Err(unexpected()),
        }
    }
}

impl std::fmt::Debug for BrowserLogin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "BrowserLogin({} at {})", self.user_code, self.url)
    }
}

fn unexpected() -> ClientError {
    ClientError::Unexpected { who: "master", request: "login" }
}
