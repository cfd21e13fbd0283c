//! What happened in a cloud, one event after the other (path *events*). Each is given as JSON, which Python reads. It
//! never decides when to ask again: the client does.

use std::sync::Arc;

use client::{
    EventKind, EventsFrom,
    events::{EventStream, EventsWanted},
    views::EventView,
};
use pyo3::{Bound, PyAny, PyResult, Python, exceptions::PyValueError, pyclass, pyfunction, pymethods};
use tokio::sync::Mutex;

use crate::{failure::Failure, runtime::carry_out, session::Session};

/// A stream of events.
#[pyclass(frozen, module = "sector._native")]
pub(crate) struct Events {
    stream: Arc<Mutex<EventStream>>,
}

/// Events after a number, or not older than a time in milliseconds, or all that are kept. One that follows and is told no
/// place begins now.
#[pyfunction]
pub(crate) fn events<'py>(
    py: Python<'py>,
    session: &Session,
    place: (Option<u64>, Option<u64>),
    kinds: Vec<String>,
    path: Option<String>,
    follow: bool,
    awaited: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let kinds = kinds.iter().map(|kind| kind.parse::<EventKind>()).collect::<Result<Vec<_>, _>>();
    let kinds = kinds.map_err(PyValueError::new_err)?;
    let from = match place {
        (Some(number), _) => EventsFrom::After(number),
        (None, Some(millis)) => EventsFrom::Since(millis),
        (None, None) if follow => EventsFrom::Now,
        (None, None) => EventsFrom::Since(0),
    };
    session.call(py, awaited, async move |cloud: client::Client| {
        let mut stream = cloud.events(EventsWanted { from, kinds, path, follow })?;
        if from == EventsFrom::Now {
            // So what happens after this call comes, however late the first event is asked for.
            stream.begin().await?;
        }
        Ok(Events { stream: Arc::new(Mutex::new(stream)) })
    })
}

#[pymethods]
impl Events {
    /// The next event as JSON; `None` where there is none.
    fn next<'py>(&self, py: Python<'py>, awaited: bool) -> PyResult<Bound<'py, PyAny>> {
        let stream = Arc::clone(&self.stream);
        carry_out(py, awaited, async move {
            let item = stream.lock().await.next().await.map_err(Failure::from)?;
            Ok(item.map(|item| serde_json::to_string(&EventView::from(&item)).unwrap_or_default()))
        })
    }
}
