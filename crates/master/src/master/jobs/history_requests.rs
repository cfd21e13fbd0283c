//! Requests about what became of jobs: a driver reports how their attempts ended and what their functions printed, and a
//! user reads it. Serves `job --segments` and `job --logs`. A mark never keeps a node from a job that has no other.

use protocol::{
    JobId, Now, Reason, Refusal, limits,
    message::{
        client_master::{ClientReply, JobState},
        history::{HistoryRequest, JobHistory},
        master_security::UserRights,
        request::{AddLogsRequest, GetHistoryRequest, GetLogsRequest, SubmitHistoryRequest},
    },
};

use crate::{
    Master, actions::SessionCaller, catalog::rights::acts_for, jobs::job_histories::HISTORIES_MAX,
    log::journal_writes::Effect,
};

impl Master {
    /// Stores the history or a part of the log of a job, or returns one.
    pub(crate) fn handle_history(
        &mut self,
        now: Now,
        caller: SessionCaller,
        by: &UserRights,
        request: HistoryRequest,
    ) -> Result<Option<ClientReply>, Refusal> {
        let (HistoryRequest::Get(GetHistoryRequest(job))
        | HistoryRequest::Submit(SubmitHistoryRequest { job, .. })
        | HistoryRequest::GetLogs(GetLogsRequest(job))
        | HistoryRequest::AddLogs(AddLogsRequest { job, .. })) = request;
        let owner = self.jobs.table.owner(job)?;
        if !acts_for(by, owner) {
            let message =
                format!("the job {job} belongs to {owner}: what became of its segments is not for {}", by.user);
            return Err(Refusal::new(Reason::NoRight, message));
        }
        match request {
            HistoryRequest::Get(_) => self.history(job).map(Some),
            HistoryRequest::Submit(SubmitHistoryRequest { history, .. }) => {
                self.submit_history(now, caller, by, job, history)
            }
            HistoryRequest::GetLogs(_) => Ok(Some(ClientReply::Logs(self.jobs.logs.of(job)))),
            HistoryRequest::AddLogs(AddLogsRequest { logs, .. }) => {
                let changes = self.jobs.logs.add(now, job, logs, &self.jobs.table);
                if changes.is_empty() {
                    // It was sent twice.
                    return Ok(Some(ClientReply::Done));
                }
                self.save(now, changes, vec![Effect::Reply(caller, ClientReply::Done)]);
                Ok(None)
            }
        }
    }

    fn submit_history(
        &mut self,
        now: Now,
        caller: SessionCaller,
        by: &UserRights,
        job: JobId,
        history: JobHistory,
    ) -> Result<Option<ClientReply>, Refusal> {
        // The first report counts: it may have been sent twice, and marks must not count twice.
        if self.jobs.histories.by_job.contains_key(&job) {
            return Ok(Some(ClientReply::Done));
        }
        let bytes: usize = history.attempts.iter().map(|attempt| attempt.slice.as_str().len()).sum();
        let most = limits::HISTORY_ATTEMPTS_MAX;
        if history.attempts.len() > most || history.marks.len() > most || bytes > limits::HISTORY_BYTES_MAX {
            let message = format!("the history of the job {job} is longer than {most} attempts");
            return Err(Refusal::new(Reason::Invalid, message));
        }
        for (node, marks) in &history.marks {
            if let Some(key) = self.fleet.nodes.of_id(node) {
                self.fleet.nodes.get_mut(key).marks.note(now, by.user.clone(), *marks);
            }
        }
        let changes = self.jobs.histories.keep(now, job, history, &self.jobs.table);
        self.save(now, changes, vec![Effect::Reply(caller, ClientReply::Done)]);
        Ok(None)
    }

    fn history(&self, job: JobId) -> Result<ClientReply, Refusal> {
        if let Some(row) = self.jobs.histories.by_job.get(&job) {
            return Ok(ClientReply::History(row.history.clone()));
        }
        let why = match self.jobs.table.get(job)?.record.state {
            JobState::Running => "it runs still, and they are told when it ends".to_owned(),
            JobState::Cancelled => "it was cancelled, and its driver has not told them; it does so within moments, \
                                    unless it is gone too"
                .into(),
            JobState::Lost => "its driver was lost, and they with it".into(),
            JobState::Done | JobState::Failed => {
                format!("its driver did not tell them, or those of {HISTORIES_MAX} later jobs took their place")
            }
        };
        Err(Refusal::new(Reason::NotFound, format!("the segments of job {job} are not known: {why}")))
    }
}
