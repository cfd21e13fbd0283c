//! The session with the master: login, and every request after it (doors 1 and 2). Every path uses it. File data never
//! passes through it.

pub mod browser_login;
pub mod delay;
pub(crate) mod joining;
pub mod lease_wait;
pub(crate) mod profile;
pub(crate) mod profile_names;

pub use browser_login::BrowserLogin;
pub use delay::{Delay, DelayTold};
pub use lease_wait::LeaseWait;
pub use profile::Profile;

use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, Instant},
};

use net::{
    datagram::as_seen_from,
    identity::{HolderKeyPair, TlsIdentity, random},
    messenger::{SessionKeys, SessionRole},
    transfer::{CONNECT_DEADLINE, CachedPeer, Carriers, TcpCarrier},
};
use protocol::{
    HostAddress, LeaseId, SessionId, UserName,
    message::{
        accounts::NewSession,
        client_master::{ClientReply, ClientRequest},
        join::{JoinReply, JoinRequest, KEY_LABEL, Secret},
        request::{AbandonRequest, Call, LogoutRequest, OnceRequest, RequestId},
    },
    status::ErrorClass,
    wire::codec,
};
use tokio::sync::{Mutex, RwLock};

use crate::{
    ClientError, Throttle,
    cloud::connections::Connections,
    cloud::{Cloud, CloudSettings},
    file::local_slice::LocalSockets,
    session::joining::ask_to_join,
};

/// The session of one user with a cloud. Clones share it.
///
/// ```no_run
/// use client::{Client, Profile, PutOptions, SectorPath};
///
/// # async fn example() -> Result<(), client::ClientError> {
/// let profile = Profile::load(&Profile::default_file()?)?;
/// let cloud = Client::connect(&profile).await?;
/// let path = SectorPath::parse("/notes/today.txt")?;
/// let options = PutOptions { parents: true, ..PutOptions::default() };
/// cloud.put(std::io::Cursor::new("measured: 42\n"), &path, &options, &|_bytes| ()).await?;
/// for entry in cloud.list(&SectorPath::parse("/notes")?).await? {
///     println!("{}", entry.path);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
    throttle: Throttle,
    /// How it waits where somebody else writes a file, if it does.
    lease_wait: Option<LeaseWait>,
    /// Whom it tells what it waits for.
    delay_told: Option<DelayTold>,
    /// What a person calls its cloud.
    name: Option<Arc<str>>,
}

struct Inner {
    cloud: Cloud,
    /// The cloud was opened for this session alone, and is closed with it.
    owns_cloud: bool,
    profile: Profile,
    /// The key that our tickets name, in every session.
    holder: Arc<HolderKeyPair>,
    connections: Connections,
    /// Replaced by a new login when the master no longer knows it.
    session: Mutex<SessionId>,
    /// Leases of writes that are under way, given back at logout.
    leases: std::sync::Mutex<BTreeSet<LeaseId>>,
    /// Read-locked while the lease of an abandoned write is being returned.
    lease_return_lock: Arc<RwLock<()>>,
}

impl Cloud {
    /// Begins the session of the user whom the profile names. It has a key of its own, and a limit of its own.
    ///
    /// # Errors
    /// Refused (4) if the profile's token is not valid (any more); `Usage` if the profile is of another cloud.
    pub async fn log_in(&self, profile: &Profile) -> Result<Client, ClientError> {
        Client::begin(self, false, profile).await
    }
}

impl Client {
    /// Logs in to the cloud that the profile names, which is opened for this session alone. Processes with several
    /// users [share](Cloud::log_in) one.
    pub async fn connect(profile: &Profile) -> Result<Self, ClientError> {
        Self::connect_with_peers(profile, Vec::new()).await
    }

    /// The same, with what an earlier client [learned](Self::cached_peers) of the network paths to nodes.
    pub async fn connect_with_peers(profile: &Profile, kept: Vec<CachedPeer>) -> Result<Self, ClientError> {
        let cloud = Cloud::open(CloudSettings::of(profile), kept).await?;
        Self::begin(&cloud, true, profile).await
    }

    async fn begin(cloud: &Cloud, owns_cloud: bool, profile: &Profile) -> Result<Self, ClientError> {
        let settings = cloud.settings();
        if (&settings.address, &settings.authority) != (&profile.address, &profile.authority) {
            let message = format!("the profile of {} is of another cloud than {cloud:?}", profile.user);
            return Err(ClientError::Usage(message));
        }
        let holder = Arc::new(HolderKeyPair::generate());
        let session = open_session(cloud, profile, &holder).await?;
        let connections = Connections::new(cloud, Arc::clone(&holder), profile.over_network);
        let inner = Inner {
            cloud: cloud.clone(),
            owns_cloud,
            profile: profile.clone(),
            holder,
            connections,
            session: Mutex::new(session),
            leases: std::sync::Mutex::default(),
            lease_return_lock: Arc::default(),
        };
        Ok(Self {
            inner: Arc::new(inner),
            throttle: Throttle::default(),
            lease_wait: None,
            delay_told: None,
            name: None,
        })
    }

    /// Ends the session in order and gives back the leases of abandoned writes, so that nobody has to wait until they
    /// expire.
    pub async fn logout(&self) {
        let leases = std::mem::take(&mut *self.own_leases());
        for lease in leases {
            // Best effort: a lease expires by itself too.
            let _ = self.ask(AbandonRequest(lease)).await;
        }
        // The session ends whatever the answer.
        let _ = self.ask(LogoutRequest).await;
        let session = *self.inner.session.lock().await;
        self.cloud().messenger().remove_session(session);
        self.connections().close();
        if self.inner.owns_cloud {
            self.cloud().close().await;
        }
    }

    /// What this session shares with those of other users.
    pub fn cloud(&self) -> &Cloud {
        &self.inner.cloud
    }

    /// The same client, in the same session, with limited transfers.
    pub fn throttled(&self, throttle: Throttle) -> Self {
        Self { throttle, ..self.clone() }
    }

    /// The same client, in the same session, which waits where somebody else writes a file. Else such a call is refused
    /// at once, with [`Reason::LeaseHeld`](protocol::Reason::LeaseHeld).
    pub fn waiting(&self, wait: LeaseWait) -> Self {
        Self { lease_wait: Some(wait), ..self.clone() }
    }

    /// The same client, in the same session. Errors of calls between two clouds call its cloud by this name, and else
    /// by the address of its master.
    pub fn named(&self, name: &str) -> Self {
        Self { name: Some(name.into()), ..self.clone() }
    }

    /// The limit on the transfers of this client.
    pub fn throttle(&self) -> &Throttle {
        &self.throttle
    }

    /// The local sockets of nodes on this machine, if transfers may use them: under a limit, all bytes go where they
    /// are counted.
    pub(crate) fn local_sockets(&self) -> Option<&LocalSockets> {
        self.throttle.rate_bytes_per_second().is_none().then(|| self.connections().local())
    }

    /// What it logged in with. It holds a secret.
    pub fn profile(&self) -> &Profile {
        &self.inner.profile
    }

    /// The logged-in user.
    pub fn user(&self) -> &UserName {
        &self.inner.profile.user
    }

    /// Asks the master and waits for the reply; a refusal is an error. If the session is gone (the master was
    /// restarted), it logs in again, once, and repeats the request if that is allowed. A change that must not be made
    /// twice has a number, by which the master knows it again. Where somebody else writes the file, it waits if it is
    /// [to](Self::waiting).
    pub(crate) async fn ask<C: Call>(&self, call: C) -> Result<C::Reply, ClientError> {
        let request: ClientRequest = call.into();
        match &self.lease_wait {
            None => self.ask_now::<C>(request).await,
            Some(wait) => wait.until_free(|| self.ask_now::<C>(request.clone())).await,
        }
    }

    async fn ask_now<C: Call>(&self, request: ClientRequest) -> Result<C::Reply, ClientError> {
        if request.properties().is_once { self.ask_once::<C>(request).await } else { self.exchange::<C>(request).await }
    }

    /// Asks under a number, whatever the request is: so it is done once, and the answer outlives session and master.
    pub(crate) async fn ask_once<C: Call>(&self, request: impl Into<ClientRequest>) -> Result<C::Reply, ClientError> {
        let id = RequestId(u128::from_be_bytes(random()));
        self.exchange::<C>(OnceRequest { id, request: Box::new(request.into()) }.into()).await
    }

    async fn exchange<C: Call>(&self, request: ClientRequest) -> Result<C::Reply, ClientError> {
        let session = *self.inner.session.lock().await;
        let answer = match self.ask_in(session, &request).await {
            Err(ClientError::Net { source, .. })
                if source.class() == ErrorClass::RetryHere && request.properties().is_repeatable =>
            {
                let session = self.log_in_again(session).await?;
                self.ask_in(session, &request).await
            }
            answer => answer,
        };
        C::reply(answer?).ok_or_else(|| unexpected(&request))
    }

    /// Leases of writes that are under way.
    pub(crate) fn own_leases(&self) -> std::sync::MutexGuard<'_, BTreeSet<LeaseId>> {
        self.inner.leases.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Read-locked while the lease of an abandoned write is being returned.
    pub(crate) fn lease_return_lock(&self) -> &Arc<RwLock<()>> {
        &self.inner.lease_return_lock
    }

    /// How bytes travel to nodes.
    pub(crate) fn carriers(&self) -> &Carriers {
        self.cloud().carriers()
    }

    /// The round trip to the farthest of the master and the nodes, as far as it is known by now. It determines how much
    /// should be under way at once.
    pub fn round_trip(&self) -> Option<Duration> {
        self.cloud().round_trip()
    }

    /// What this client has learned of the network paths to nodes, for the next one to [begin
    /// with](Self::connect_with_peers).
    pub fn cached_peers(&self) -> Vec<CachedPeer> {
        self.cloud().cached_peers()
    }

    /// Whether the two are in one session, and so in one cloud.
    pub(crate) fn is_same_session(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// Whether the two are in one cloud, be it in two sessions.
    pub(crate) fn is_same_cloud(&self, other: &Self) -> bool {
        self.authority().trim() == other.authority().trim()
    }

    /// Adds the name of this client's cloud to the errors of a call in which `other` takes part, if that is in another
    /// session.
    pub(crate) fn in_cloud(&self, other: &Self) -> impl Fn(ClientError) -> ClientError + use<> {
        let name = || self.name.as_ref().map_or_else(|| self.inner.profile.address.to_string(), ToString::to_string);
        let cloud = (!self.is_same_session(other)).then(name);
        move |error| match (&cloud, error) {
            (None, error) | (_, error @ (ClientError::Usage(_) | ClientError::InCloud { .. })) => error,
            (Some(cloud), error) => ClientError::InCloud { cloud: cloud.clone(), error: Box::new(error) },
        }
    }

    /// The certificate of the cloud's authority, PEM.
    pub(crate) fn authority(&self) -> &str {
        &self.inner.profile.authority
    }

    /// The key that our tickets name.
    pub(crate) fn holder(&self) -> &Arc<HolderKeyPair> {
        &self.inner.holder
    }

    /// Kept connections to nodes.
    pub(crate) fn connections(&self) -> &Connections {
        &self.inner.connections
    }

    async fn ask_in(&self, session: SessionId, request: &ClientRequest) -> Result<ClientReply, ClientError> {
        let address = &self.inner.profile.address;
        let deadline = if is_commit(request) { COMMIT_DEADLINE } else { ANSWER_DEADLINE };
        tracing::debug!(%session, request = request.properties().name, "the master is asked");
        let asked = Instant::now();
        let messenger = self.cloud().messenger();
        let answer = messenger.request_as(request.properties().class, session, codec::encode(request), deadline);
        let bytes = self
            .tell_if_slow(|| format!("the master at {address} does not answer"), deadline, answer)
            .await
            .map_err(ClientError::net(format!("the master at {address} does not answer")))?;
        self.cloud().note_answer(asked.elapsed());
        match codec::decode(&bytes) {
            Ok(ClientReply::Refused(refusal)) => Err(refusal.into()),
            Ok(reply) => Ok(reply),
            Err(_) => Err(unexpected(request)),
        }
    }

    async fn log_in_again(&self, old: SessionId) -> Result<SessionId, ClientError> {
        let mut current = self.inner.session.lock().await;
        // Another task may have logged in before.
        if *current == old {
            self.cloud().messenger().remove_session(old);
            let profile = &self.inner.profile;
            let opened = open_session(self.cloud(), profile, &self.inner.holder);
            let whom = || format!("the master at {} does not answer", profile.address);
            *current = self.tell_if_slow(whom, CONNECT_DEADLINE, opened).await?;
        }
        Ok(*current)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // A session that is forgotten without a logout must not stay among those of the cloud.
        self.cloud.messenger().remove_session(*self.session.get_mut());
        self.connections.close();
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Client({:?})", self.inner.profile)
    }
}

/// Where to log in, and what to trust.
#[derive(Clone, Debug)]
pub struct LoginTarget {
    /// Where the master is.
    pub address: HostAddress,
    /// The certificate of the cloud's authority, PEM.
    pub authority: String,
    /// The name of this machine, for people who look at their sessions.
    pub machine: String,
}

/// Begins a login session with a password and gives the profile with its token, which is stored nowhere else. The
/// session expires when it is not used for half a day.
///
/// # Errors
/// Refused (4) for a wrong name or password, without saying which; Unavailable (5) if the master or the security server
/// cannot be reached.
pub async fn login(at: &LoginTarget, user: &UserName, password: String) -> Result<Profile, ClientError> {
    let LoginTarget { address, authority, machine } = at;
    let what = format!("cannot log in at {address}");
    let failed = || ClientError::net(what.clone());
    let identity = TlsIdentity::client(authority).map_err(ClientError::net("cannot use the cloud's authority"))?;
    let secret = Secret::Password(password);
    let request = JoinRequest::Login { user: user.clone(), secret, machine: machine.clone() };
    let asked = ask_to_join(&TcpCarrier::new(identity), address, &request).await;
    let (stream, reply) = asked.map_err(failed())?;
    match reply {
        JoinReply::LoggedIn(NewSession { credential, token, .. }) => {
            stream.close().await;
            Ok(Profile {
                session: Some(credential),
                ..Profile::of(address.clone(), user.clone(), token, authority.clone())
            })
        }
        JoinReply::Refused(refusal) => Err(refusal.into()),
        JoinReply::Accepted { .. } | JoinReply::Admission(_) | JoinReply::Device(_) => {
            Err(ClientError::Unexpected { who: "master", request: "login" })
        }
    }
}

/// The TLS connection with which a session begins.
async fn open_session(cloud: &Cloud, profile: &Profile, holder: &HolderKeyPair) -> Result<SessionId, ClientError> {
    let what = format!("cannot log in at {}", profile.address);
    let failed = || ClientError::net(what.clone());
    let request = profile.join_request(holder.public());
    let (stream, reply) = ask_to_join(cloud.carrier(), &profile.address, &request).await.map_err(failed())?;
    match reply {
        JoinReply::Refused(refusal) => Err(refusal.into()),
        JoinReply::LoggedIn(_) | JoinReply::Admission(_) | JoinReply::Device(_) => {
            Err(ClientError::Unexpected { who: "master", request: "open a session" })
        }
        JoinReply::Accepted { session, ticket_keys: _, reset_token: gone_token } => {
            let key = stream.export_key(KEY_LABEL, &session.0.to_be_bytes()).map_err(failed())?;
            cloud.messenger().add_session(SessionKeys {
                session,
                key,
                role: SessionRole::Initiator,
                peer: Some(as_seen_from(cloud.messenger().local_address(), stream.peer())),
            });
            cloud.messenger().expect_reset_token(session, gone_token);
            stream.close().await;
            Ok(session)
        }
    }
}

fn is_commit(request: &ClientRequest) -> bool {
    match request {
        ClientRequest::Once(OnceRequest { request, .. }) => is_commit(request),
        ClientRequest::Commit(_) => true,
        _ => false,
    }
}

/// The answer belongs to another request.
fn unexpected(request: &ClientRequest) -> ClientError {
    ClientError::Unexpected { who: "master", request: request.properties().name }
}

/// Longest wait for the master's answer to a question.
const ANSWER_DEADLINE: Duration = Duration::from_secs(10);
/// Longest wait for a commit, which waits for copies to be synced on other nodes.
const COMMIT_DEADLINE: Duration = Duration::from_secs(120);
