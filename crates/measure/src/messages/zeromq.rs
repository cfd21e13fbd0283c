//! ZeroMQ: a DEALER sends requests to a ROUTER over TCP, through the system's own `libzmq`, where it is installed.
//! Each end has one thread beside the library's own network thread, as the library is meant to be used. It runs in
//! plain text and sealed by the library (CURVE). GMP has no plain text, so only the second does the same work. The
//! library is loaded at run time; building and shipping this program never need it.

#![allow(unsafe_code)]

use std::{
    collections::VecDeque,
    ffi::{CStr, CString, c_char, c_int, c_void},
    io,
    net::SocketAddr,
    ptr,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use libloading::Library;

use super::{
    latency::{LatencyRecorder, MeasurementWindow},
    system::{Announce, BoxFuture, MeasureError, PAYLOAD_BYTES, Requester, System},
};

pub(super) struct ZeroMq {
    is_sealed: bool,
}

struct ZeroMqRequester(Mutex<Socket>);

impl ZeroMq {
    pub(super) fn plain() -> Self {
        Self { is_sealed: false }
    }

    pub(super) fn sealed() -> Self {
        Self { is_sealed: true }
    }
}

impl System for ZeroMq {
    fn name(&self) -> &'static str {
        if self.is_sealed { "zeromq-curve" } else { "zeromq" }
    }

    fn is_here(&self) -> Result<(), MeasureError> {
        let calls = Calls::load()?;
        if self.is_sealed { calls.public_key().map(drop) } else { Ok(()) }
    }

    fn answer(self: Arc<Self>, announce: Announce) -> BoxFuture<()> {
        Box::pin(blocking(move || {
            let socket = Socket::open(Calls::load()?, ROUTER)?;
            if self.is_sealed {
                socket.seal_as_server()?;
            }
            announce.say(socket.bind()?)?;
            let (mut who, mut body) = ([0; NAME_BYTES_MAX], [0; PAYLOAD_BYTES]);
            loop {
                // A message comes in two parts: its sender, and its content.
                let named = socket.receive(&mut who, true)?.unwrap_or(0);
                let bytes = socket.receive(&mut body, true)?.unwrap_or(0);
                socket.send(&who[..named], SEND_MORE)?;
                socket.send(&body[..bytes], 0)?;
            }
        }))
    }

    fn connect(self: Arc<Self>, peer: SocketAddr) -> BoxFuture<Arc<dyn Requester>> {
        Box::pin(async move {
            let socket = Socket::open(Calls::load()?, DEALER)?;
            if self.is_sealed {
                socket.seal_as_client()?;
            }
            socket.connect(peer)?;
            Ok(Arc::new(ZeroMqRequester(Mutex::new(socket))) as Arc<dyn Requester>)
        })
    }
}

impl Requester for ZeroMqRequester {
    /// One requester and one responder: answers come in the order of the requests.
    fn ask(self: Arc<Self>, course: MeasurementWindow) -> BoxFuture<Vec<Duration>> {
        Box::pin(blocking(move || {
            let socket = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let (mut watch, mut asked) = (LatencyRecorder::new(course), VecDeque::new());
            let mut buffer = [0; PAYLOAD_BYTES];
            for _ in 0..course.in_flight {
                asked.push_back(Instant::now());
                socket.send(&[1; PAYLOAD_BYTES], 0)?;
            }
            while !asked.is_empty() {
                // Everything that has arrived is taken before more is requested.
                let (mut again, mut waits) = (0, true);
                while !asked.is_empty() && socket.receive(&mut buffer, waits)?.is_some() {
                    waits = false;
                    again += asked.pop_front().map_or(0, |begun| usize::from(watch.record_answer(begun)));
                }
                for _ in 0..again {
                    asked.push_back(Instant::now());
                    socket.send(&[1; PAYLOAD_BYTES], 0)?;
                }
            }
            Ok(watch.times())
        }))
    }
}

/// The library's functions, and the library that contains them.
struct Calls {
    context: unsafe extern "C" fn() -> *mut c_void,
    end_context: unsafe extern "C" fn(*mut c_void) -> c_int,
    socket: unsafe extern "C" fn(*mut c_void, c_int) -> *mut c_void,
    close: unsafe extern "C" fn(*mut c_void) -> c_int,
    bind: unsafe extern "C" fn(*mut c_void, *const c_char) -> c_int,
    connect: unsafe extern "C" fn(*mut c_void, *const c_char) -> c_int,
    option: unsafe extern "C" fn(*mut c_void, c_int, *mut c_void, *mut usize) -> c_int,
    set_option: unsafe extern "C" fn(*mut c_void, c_int, *const c_void, usize) -> c_int,
    send: unsafe extern "C" fn(*mut c_void, *const c_void, usize, c_int) -> c_int,
    receive: unsafe extern "C" fn(*mut c_void, *mut c_void, usize, c_int) -> c_int,
    public_of: unsafe extern "C" fn(*mut c_char, *const c_char) -> c_int,
    _library: Library,
}

impl Calls {
    fn load() -> Result<Self, MeasureError> {
        let missing = |_| MeasureError::Missing("ZeroMQ is not measured: install libzmq (package libzmq5)".into());
        // SAFETY: the types of the functions are those of the library's own header, in every version 4. The symbols
        // are copied out, and the library is kept as long as they are.
        unsafe {
            let library = Library::new(LIBRARY).map_err(missing)?;
            Ok(Self {
                context: *library.get(b"zmq_ctx_new\0").map_err(missing)?,
                end_context: *library.get(b"zmq_ctx_term\0").map_err(missing)?,
                socket: *library.get(b"zmq_socket\0").map_err(missing)?,
                close: *library.get(b"zmq_close\0").map_err(missing)?,
                bind: *library.get(b"zmq_bind\0").map_err(missing)?,
                connect: *library.get(b"zmq_connect\0").map_err(missing)?,
                option: *library.get(b"zmq_getsockopt\0").map_err(missing)?,
                set_option: *library.get(b"zmq_setsockopt\0").map_err(missing)?,
                send: *library.get(b"zmq_send\0").map_err(missing)?,
                receive: *library.get(b"zmq_recv\0").map_err(missing)?,
                public_of: *library.get(b"zmq_curve_public\0").map_err(missing)?,
                _library: library,
            })
        }
    }

    /// The public half of [`SECRET`], as text that ends with a zero.
    fn public_key(&self) -> Result<[u8; KEY_TEXT_BYTES], MeasureError> {
        let mut public = [0; KEY_TEXT_BYTES];
        // SAFETY: the library reads a key's text up to its zero, and writes a text of the same length.
        let made = unsafe { (self.public_of)(public.as_mut_ptr().cast(), SECRET.as_ptr()) };
        let without = "sealed ZeroMQ is not measured: this libzmq is built without CURVE";
        if made == 0 { Ok(public) } else { Err(MeasureError::Missing(without.into())) }
    }
}

/// A socket with a context of its own.
struct Socket {
    calls: Calls,
    context: *mut c_void,
    socket: *mut c_void,
}

// SAFETY: the library lets a socket move from one thread to another with a full fence in between. A mutex or the end
// of a task is such a fence. No two threads have the socket at once.
unsafe impl Send for Socket {}

impl Socket {
    fn open(calls: Calls, kind: c_int) -> Result<Self, MeasureError> {
        // SAFETY: the context was just made, and only this socket has it; null is checked below.
        let (context, socket) = unsafe {
            let context = (calls.context)();
            let socket = if context.is_null() { ptr::null_mut() } else { (calls.socket)(context, kind) };
            (context, socket)
        };
        let opened = Self { calls, context, socket };
        if opened.socket.is_null() {
            return Err(failed("opening a socket"));
        }
        opened.set(LINGER, &0_i32.to_ne_bytes())?;
        Ok(opened)
    }

    /// Seals all traffic, with a key of its own for each connection; accepts every client.
    fn seal_as_server(&self) -> Result<(), MeasureError> {
        self.set(CURVE_SERVER, &1_i32.to_ne_bytes())?;
        self.set(CURVE_SECRET_KEY, SECRET.to_bytes_with_nul())
    }

    /// The same, at the other end. Both ends use the same pair of keys, which makes it no cheaper.
    fn seal_as_client(&self) -> Result<(), MeasureError> {
        let public = self.calls.public_key()?;
        self.set(CURVE_SERVER_KEY, &public)?;
        self.set(CURVE_PUBLIC_KEY, &public)?;
        self.set(CURVE_SECRET_KEY, SECRET.to_bytes_with_nul())
    }

    fn set(&self, option: c_int, value: &[u8]) -> Result<(), MeasureError> {
        // SAFETY: the socket is open. The library reads exactly the given number of bytes, and knows how many an
        // option has.
        let set = unsafe { (self.calls.set_option)(self.socket, option, value.as_ptr().cast(), value.len()) };
        if set == 0 { Ok(()) } else { Err(failed("setting an option")) }
    }

    fn bind(&self) -> Result<SocketAddr, MeasureError> {
        let mut name = [0u8; NAME_BYTES_MAX];
        let mut length = name.len();
        // SAFETY: the socket is open; `name` has the given length, and the library ends it with a zero.
        let is_bound = unsafe {
            (self.calls.bind)(self.socket, c"tcp://127.0.0.1:*".as_ptr()) == 0
                && (self.calls.option)(self.socket, LAST_ENDPOINT, name.as_mut_ptr().cast(), &raw mut length) == 0
        };
        let name = CStr::from_bytes_until_nul(&name).ok().and_then(|name| name.to_str().ok());
        let address = name.and_then(|name| name.strip_prefix("tcp://")?.parse().ok()).filter(|_| is_bound);
        address.ok_or_else(|| failed("binding a port"))
    }

    fn connect(&self, peer: SocketAddr) -> Result<(), MeasureError> {
        let name = CString::new(format!("tcp://{peer}")).map_err(|_| failed("naming a peer"))?;
        // SAFETY: the socket is open, the name ends with a zero.
        let connected = unsafe { (self.calls.connect)(self.socket, name.as_ptr()) };
        if connected == 0 { Ok(()) } else { Err(failed("connecting")) }
    }

    fn send(&self, part: &[u8], flags: c_int) -> Result<(), MeasureError> {
        // SAFETY: the socket is open; the library copies the part before it returns.
        let sent = unsafe { (self.calls.send)(self.socket, part.as_ptr().cast(), part.len(), flags) };
        if sent < 0 { Err(failed("sending")) } else { Ok(()) }
    }

    /// The length of the next part; `None` if there is none and the call does not wait.
    fn receive(&self, part: &mut [u8], waits: bool) -> Result<Option<usize>, MeasureError> {
        let flags = if waits { 0 } else { DO_NOT_WAIT };
        // SAFETY: the socket is open; `part` has the given length.
        let received = unsafe { (self.calls.receive)(self.socket, part.as_mut_ptr().cast(), part.len(), flags) };
        match usize::try_from(received) {
            Ok(bytes) => Ok(Some(bytes.min(part.len()))),
            Err(_) if io::Error::last_os_error().kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(_) => Err(failed("receiving")),
        }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // SAFETY: both were made by `open`, and nothing uses them after this.
        unsafe {
            if !self.socket.is_null() {
                (self.calls.close)(self.socket);
            }
            if !self.context.is_null() {
                (self.calls.end_context)(self.context);
            }
        }
    }
}

/// Runs on a thread of its own, since the library blocks its thread.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, MeasureError> + Send + 'static,
) -> Result<T, MeasureError> {
    let stopped = |error: tokio::task::JoinError| MeasureError::System { system: "zeromq", reason: error.to_string() };
    tokio::task::spawn_blocking(work).await.map_err(stopped)?
}

fn failed(what: &str) -> MeasureError {
    MeasureError::System { system: "zeromq", reason: format!("{what}: {}", io::Error::last_os_error()) }
}

const LIBRARY: &str = "libzmq.so.5";
/// Longest name of a socket or of a peer.
const NAME_BYTES_MAX: usize = 256;
/// A key for measuring, in the library's own text encoding (Z85); it protects nothing.
const SECRET: &CStr = c"1111111111222222222233333333334444444444";
/// A key's text with its zero.
const KEY_TEXT_BYTES: usize = 41;
// The numbers of `zmq.h`.
const DEALER: c_int = 5;
const ROUTER: c_int = 6;
const LINGER: c_int = 17;
const LAST_ENDPOINT: c_int = 32;
const CURVE_SERVER: c_int = 47;
const CURVE_PUBLIC_KEY: c_int = 48;
const CURVE_SECRET_KEY: c_int = 49;
const CURVE_SERVER_KEY: c_int = 50;
const DO_NOT_WAIT: c_int = 1;
const SEND_MORE: c_int = 2;
