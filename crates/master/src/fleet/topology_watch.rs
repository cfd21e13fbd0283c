//! The task that reads the topology file: on request, and when it has changed. Serves every reload. It never decides
//! whether the result is used, and the rules never wait for it.

use std::time::Duration;

use daemon::{DaemonError, topology::TopologyFile};
use protocol::{Refusal, Topology};
use tokio::{
    sync::mpsc,
    task::{AbortHandle, spawn_blocking},
    time::{MissedTickBehavior, interval},
};

use crate::actions::SessionCaller;

/// The result of a reading, and the caller who asked for it.
type Read = (Option<SessionCaller>, Result<Topology, Refusal>);

/// The task; it ends with this.
pub(crate) struct TopologyWatch {
    requests: mpsc::Sender<SessionCaller>,
    read: mpsc::Receiver<Read>,
    task: Option<AbortHandle>,
}

impl TopologyWatch {
    /// Watches a file; without one it never reports anything.
    pub(crate) fn start(file: Option<TopologyFile>) -> Self {
        let (wishes, wished) = mpsc::channel(REQUESTS_MAX);
        let (told, read) = mpsc::channel(1);
        let task = file.map(|file| tokio::spawn(watch(file, wished, told)).abort_handle());
        Self { requests: wishes, read, task }
    }

    /// Has the file read for a caller. If too many others wait already, the caller gets no answer, and asks again.
    pub(crate) fn ask(&self, to: SessionCaller) {
        if self.requests.try_send(to).is_err() {
            tracing::warn!("too many want the topology to be read; one of them is not answered");
        }
    }

    /// The next result. Can be cancelled without loss.
    pub(crate) async fn read(&mut self) -> Read {
        match self.read.recv().await {
            Some(read) => read,
            // There is no file.
            None => std::future::pending().await,
        }
    }
}

impl Drop for TopologyWatch {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

async fn watch(mut file: TopologyFile, mut wished: mpsc::Receiver<SessionCaller>, told: mpsc::Sender<Read>) {
    let mut looks = interval(LOOK_AFTER);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let to = tokio::select! {
            desired = wished.recv() => match desired {
                Some(to) => Some(to),
                None => return,
            },
            _ = looks.tick() => None,
        };
        let reading = spawn_blocking(move || {
            let read = if to.is_some() { Some(file.read()) } else { file.read_if_changed() };
            (file, read)
        });
        let Ok((back, read)) = reading.await else { return };
        file = back;
        if let Some(read) = read {
            let read = read.map_err(|error: DaemonError| error.refusal());
            if told.send((to, read)).await.is_err() {
                return;
            }
        }
    }
}

/// How often the file's time is checked.
const LOOK_AFTER: Duration = Duration::from_secs(2);
/// Most callers that may wait for a reading.
const REQUESTS_MAX: usize = 64;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use protocol::{SessionId, Status};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_file_is_read_for_who_asks_and_by_itself_when_it_has_changed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sites.toml");
        std::fs::write(&path, "[nodes]\nn1 = \"a/1\"\n").unwrap();
        let mut file = TopologyFile::new(path.clone());
        let first = file.read().unwrap();
        let mut watch = TopologyWatch::start(Some(file));
        let caller = SessionCaller { session: SessionId(1), request: Some(2) };
        watch.ask(caller);
        assert_eq!(watch.read().await, (Some(caller), Ok(first.clone())), "although it is the same");
        std::fs::write(&path, "[nodes]\nn1 = \"a/22\"\n").unwrap();
        let (to, changed) = watch.read().await;
        assert!(to.is_none() && changed.is_ok_and(|topology| topology != first));
        std::fs::write(&path, "[nodes]\nn1 = 333333\n").unwrap();
        let (to, wrong) = watch.read().await;
        assert!(to.is_none() && wrong.is_err_and(|refusal| refusal.status() == Status::Usage));
    }
}
