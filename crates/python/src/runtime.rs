//! How a Python call waits for the client: here, with the interpreter released and Ctrl-C checked, or in an event
//! loop of `asyncio`. There is one runtime per process. Its threads do not survive in a child made by `fork`, so the
//! child makes its own and never touches the parent's. Locks are taken only while holding the interpreter, and for a
//! moment. A fork's caller holds the interpreter too, so the child never inherits a taken lock.

use std::{
    future::Future,
    pin::{Pin, pin},
    process,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use pyo3::{
    Bound, IntoPyObject, IntoPyObjectExt, Py, PyAny, PyErr, PyResult, Python, exceptions::PyOSError,
    prelude::PyAnyMethods, pyclass, pyfunction, pymethods, types::PyCFunction, wrap_pyfunction,
};
use tokio::{
    runtime::{Builder, Runtime},
    task::AbortHandle,
    time::timeout,
};

use crate::failure::Failure;

/// What a call returns to Python.
pub(crate) trait CallResult: for<'py> IntoPyObject<'py> + Send + 'static {}

impl<T: for<'py> IntoPyObject<'py> + Send + 'static> CallResult for T {}

/// Carries out a call. With `awaited` false, it waits here with the interpreter released. With `awaited` true, it
/// returns a future of the running event loop at once.
pub(crate) fn carry_out<T: CallResult>(
    py: Python<'_>,
    awaited: bool,
    call: impl Future<Output = Result<T, Failure>> + Send + 'static,
) -> PyResult<Bound<'_, PyAny>> {
    match awaited {
        true => start(py, call),
        false => wait(py, call)??.into_bound_py_any(py),
    }
}

/// Waits for a call with the interpreter released. Ctrl-C ends it: what was under way is dropped.
///
/// # Errors
/// What a signal's handler raised.
pub(crate) fn wait<T: Send>(py: Python<'_>, call: impl Future<Output = T> + Send) -> PyResult<T> {
    // What is dropped half way cleans up in tasks of its own.
    let _entered = runtime()?.enter();
    let mut call = pin!(call);
    loop {
        if let Some(answer) = wait_a_while(py, call.as_mut())? {
            return Ok(answer);
        }
        py.check_signals()?;
    }
}

/// Waits a moment for a call, with the interpreter released; `None` if it goes on.
pub(crate) fn wait_a_while<T: Send>(
    py: Python<'_>,
    call: Pin<&mut (impl Future<Output = T> + Send)>,
) -> PyResult<Option<T>> {
    let runtime = runtime()?;
    Ok(py.detach(|| runtime.block_on(async { timeout(SIGNAL_PERIOD, call).await.ok() })))
}

/// Starts a call for the event loop that runs in this thread. Cancelling the future ends the call.
fn start<T: CallResult>(
    py: Python<'_>,
    call: impl Future<Output = Result<T, Failure>> + Send + 'static,
) -> PyResult<Bound<'_, PyAny>> {
    let event_loop = py.import("asyncio")?.call_method0("get_running_loop")?;
    let future = event_loop.call_method0("create_future")?;
    let settle = wrap_pyfunction!(settle, py)?.unbind();
    let (told, event_loop) = (future.clone().unbind(), event_loop.unbind());
    let task = runtime()?.spawn(async move {
        let answer = call.await;
        // A worker must not wait for the interpreter.
        tokio::task::spawn_blocking(move || {
            Python::try_attach(|py| tell(py, &event_loop, &settle, told, answer));
        });
    });
    future.call_method1("add_done_callback", (Canceller { task: task.abort_handle() },))?;
    Ok(future)
}

/// Lets an event loop settle a future with an answer.
fn tell<T: CallResult>(
    py: Python<'_>,
    event_loop: &Py<PyAny>,
    settle: &Py<PyCFunction>,
    future: Py<PyAny>,
    answer: Result<T, Failure>,
) {
    let answer = answer.map_err(PyErr::from).and_then(|answer| answer.into_py_any(py));
    let (value, error) = match answer {
        Ok(value) => (value, None),
        Err(error) => (py.None(), Some(error)),
    };
    // Fails if the loop was closed meanwhile: then nothing waits for the answer any more.
    let _ = event_loop.call_method1(py, "call_soon_threadsafe", (settle, future, value, error));
}

/// Gives a future its value or its error, unless it was cancelled meanwhile. Called by its loop.
#[pyfunction]
fn settle(future: Bound<'_, PyAny>, value: Py<PyAny>, error: Option<Py<PyAny>>) -> PyResult<()> {
    if future.call_method0("done")?.extract()? {
        return Ok(());
    }
    match error {
        Some(error) => future.call_method1("set_exception", (error,))?,
        None => future.call_method1("set_result", (value,))?,
    };
    Ok(())
}

/// Ends a call whose future was cancelled.
#[pyclass(frozen)]
struct Canceller {
    task: AbortHandle,
}

#[pymethods]
impl Canceller {
    fn __call__(&self, future: Bound<'_, PyAny>) -> PyResult<()> {
        if future.call_method0("cancelled")?.extract()? {
            self.task.abort();
        }
        Ok(())
    }
}

/// This process's runtime.
pub(crate) fn runtime() -> PyResult<&'static Runtime> {
    let mut slot = RUNTIME.lock().unwrap_or_else(PoisonError::into_inner);
    match *slot {
        Some((process, runtime)) if process == process::id() => Ok(runtime),
        _ => {
            let made = Builder::new_multi_thread().thread_name("sector").enable_all().build();
            let made = made.map_err(|error| PyOSError::new_err(format!("cannot start threads for Sector: {error}")))?;
            // It lives as long as the process. A parent's runtime has no threads in this process that could be ended.
            let runtime: &'static Runtime = Box::leak(Box::new(made));
            *slot = Some((process::id(), runtime));
            Ok(runtime)
        }
    }
}

/// The runtime, and the process that it belongs to.
static RUNTIME: Mutex<Option<(u32, &'static Runtime)>> = Mutex::new(None);
/// Time between two checks for Ctrl-C while a call waits. It is short for a person, and twenty wake-ups a second cost
/// nothing.
const SIGNAL_PERIOD: Duration = Duration::from_millis(50);
