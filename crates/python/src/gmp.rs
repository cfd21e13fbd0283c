//! GMP for services in Python: an instance, and what arrives at it. A handler runs in the thread that receives, never in
//! a worker of the runtime. It never retries.

use std::{
    future::Future,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use gmp::{Group, HostAddress, Inbox, Instance, NetError, Received};
use pyo3::{
    Bound, IntoPyObjectExt, Py, PyAny, PyErr, PyResult, Python,
    exceptions::{PyTimeoutError, PyValueError},
    pyclass, pyfunction, pymethods,
    types::PyBytes,
};
use tokio::time::timeout;

use crate::{
    failure::Failure,
    runtime::{runtime, wait},
};

/// Makes a group's key in a new file.
#[pyfunction]
pub(crate) fn make_group(file: PathBuf, name: &str) -> PyResult<()> {
    Ok(Group::create(name).and_then(|group| group.save(&file)).map_err(Failure::from)?)
}

/// One end of GMP.
#[pyclass(frozen, module = "sector._native")]
pub(crate) struct GmpInstance {
    address: String,
    /// `None` once it is closed.
    instance: Mutex<Option<Instance>>,
    inbox: Arc<tokio::sync::Mutex<Inbox>>,
}

#[pymethods]
impl GmpInstance {
    #[new]
    fn new(py: Python<'_>, group_file: PathBuf, address: &str) -> PyResult<Self> {
        let address = address.parse().map_err(|_| {
            PyValueError::new_err(format!("`{address}` is no address; give IP:PORT, such as `0.0.0.0:9000`"))
        })?;
        let bound = async move { Instance::bind(&Group::load(&group_file)?, address).await };
        let (instance, inbox) = wait(py, bound)?.map_err(Failure::from)?;
        let address = instance.address().to_string();
        Ok(Self { address, instance: Mutex::new(Some(instance)), inbox: Arc::new(tokio::sync::Mutex::new(inbox)) })
    }

    /// Where it listens.
    #[getter]
    fn address(&self) -> &str {
        &self.address
    }

    fn request<'py>(&self, py: Python<'py>, to: &str, body: &[u8], seconds: f64) -> PyResult<Bound<'py, PyBytes>> {
        let (instance, to, deadline) = (self.open()?, host(to)?, deadline(seconds)?);
        let reply = call(py, async move { instance.request(&to, body.to_vec(), deadline).await })?;
        Ok(PyBytes::new(py, &reply))
    }

    /// The bytes or the error of each.
    fn request_each(
        &self,
        py: Python<'_>,
        to: Vec<String>,
        body: &[u8],
        seconds: f64,
    ) -> PyResult<Vec<(String, Py<PyAny>)>> {
        let (instance, deadline) = (self.open()?, deadline(seconds)?);
        let hosts = to.iter().map(|to| host(to)).collect::<PyResult<Vec<_>>>()?;
        let replies = wait(py, async move { instance.request_each(&hosts, body.to_vec(), deadline).await })?;
        let replied = |(host, reply): (HostAddress, Result<Vec<u8>, NetError>)| {
            let reply = match reply {
                Ok(bytes) => PyBytes::new(py, &bytes).into_py_any(py)?,
                Err(error) => error_of(error).into_py_any(py)?,
            };
            Ok((host.to_string(), reply))
        };
        replies.into_iter().map(replied).collect()
    }

    fn notify(&self, py: Python<'_>, to: &str, body: &[u8], seconds: f64) -> PyResult<()> {
        let (instance, to, deadline) = (self.open()?, host(to)?, deadline(seconds)?);
        call(py, async move { instance.notify(&to, body.to_vec(), deadline).await })
    }

    /// The next message; `None` once it is closed. Without `seconds` it waits as long as it takes.
    fn receive(&self, py: Python<'_>, seconds: Option<f64>) -> PyResult<Option<GmpMessage>> {
        self.open()?;
        let inbox = Arc::clone(&self.inbox);
        let next = async move { inbox.lock().await.next().await };
        let received = match seconds.map(deadline).transpose()? {
            None => wait(py, next)?,
            // A timer is made within the runtime.
            Some(deadline) => wait(py, async move { timeout(deadline, next).await })?
                .map_err(|_| PyTimeoutError::new_err("no message came in time"))?,
        };
        Ok(received.map(|received| GmpMessage {
            sender: received.from().to_string(),
            is_request: received.is_request(),
            received: Mutex::new(Some(received)),
        }))
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let instance = self.instance.lock().unwrap_or_else(PoisonError::into_inner).take();
        match instance {
            Some(instance) => wait(py, instance.close()),
            None => Ok(()),
        }
    }
}

impl GmpInstance {
    fn open(&self) -> PyResult<Instance> {
        let instance = self.instance.lock().unwrap_or_else(PoisonError::into_inner).clone();
        instance.ok_or_else(|| PyValueError::new_err("this instance is closed"))
    }
}

/// What another instance sent.
#[pyclass(frozen, module = "sector._native")]
pub(crate) struct GmpMessage {
    /// Where its sender listens.
    #[pyo3(get)]
    sender: String,
    /// Whether its sender waits for a reply.
    #[pyo3(get)]
    is_request: bool,
    /// `None` once it is answered.
    received: Mutex<Option<Received>>,
}

#[pymethods]
impl GmpMessage {
    /// Its bytes.
    #[getter]
    fn body<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let received = self.received.lock().unwrap_or_else(PoisonError::into_inner);
        let received = received.as_ref().ok_or_else(answered)?;
        Ok(PyBytes::new(py, received.body()))
    }

    fn reply(&self, body: &[u8]) -> PyResult<()> {
        let received = self.received.lock().unwrap_or_else(PoisonError::into_inner).take().ok_or_else(answered)?;
        // It may send the reply itself, and needs the runtime for that.
        let _entered = runtime()?.enter();
        received.reply(body.to_vec()).map_err(error_of)
    }
}

fn call<T: Send>(py: Python<'_>, call: impl Future<Output = Result<T, NetError>> + Send) -> PyResult<T> {
    wait(py, call)?.map_err(error_of)
}

fn error_of(error: NetError) -> PyErr {
    match error {
        NetError::Deadline { .. } => PyTimeoutError::new_err(error.to_string()),
        error => Failure::from(error).into(),
    }
}

fn answered() -> PyErr {
    PyValueError::new_err("this message was answered already")
}

fn host(address: &str) -> PyResult<HostAddress> {
    address.parse().map_err(|error| PyValueError::new_err(format!("{error}")))
}

fn deadline(seconds: f64) -> PyResult<Duration> {
    let deadline = Duration::try_from_secs_f64(seconds).ok().filter(|deadline| *deadline <= DEADLINE_MAX);
    deadline.ok_or_else(|| PyValueError::new_err("a timeout has 0 to 86,400 seconds"))
}

/// A day: who waits longer polls.
const DEADLINE_MAX: Duration = Duration::from_secs(86_400);
