//! What clients ask of jobs over HTTP (UWS 1.1, 2.2), without a web server: a method, a path below the list of jobs, and
//! parameters. It never sends the bytes of a result: it says which one is meant.

use std::time::Duration;

use http::Method;

use super::{Jobs, Phase, Service, UwsJob, document};
use crate::{DaliParameters, Fault, Timestamp};

/// What a request is answered with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// 303: look there.
    See(String),
    /// A document in XML.
    Xml(Vec<u8>),
    /// A line of text.
    Text(String),
    /// This result of the job.
    Result {
        /// The job.
        job: String,
        /// The result.
        id: String,
        /// Its media type.
        media_type: String,
    },
}

impl<S: Service> Jobs<S> {
    /// Answers a request for `path` below the list of jobs at `url`. `id` is the name of a job that it may make.
    ///
    /// # Errors
    /// What is wrong with it.
    pub async fn answer(
        &self,
        (method, path): (&Method, &str),
        url: &str,
        parameters: DaliParameters,
        (owner, caller): (Option<&str>, S::Caller),
        id: String,
    ) -> Result<Reply, Fault> {
        let is_post = *method == Method::POST;
        let words: Vec<_> = path.split('/').filter(|word| !word.is_empty()).collect();
        let [job, rest @ ..] = &words[..] else {
            if !is_post {
                return self.list(url, &parameters, owner);
            }
            let runs = parameters.one("PHASE")?.map(check_run).transpose()?.is_some();
            let made = self.create(id, owner.map(str::to_owned), parameters).await?.id;
            if runs && let Err(fault) = self.start(&made, owner, caller).await {
                // Its maker does not know its name.
                let _ = self.remove(&made, owner).await;
                return Err(fault);
            }
            return Ok(Reply::See(format!("{url}/{made}")));
        };
        let at = format!("{url}/{job}");
        self.resume(job, owner, caller.clone());
        if *method == Method::DELETE && rest.is_empty() {
            self.remove(job, owner).await?;
            return Ok(Reply::See(url.to_owned()));
        }
        if is_post {
            if rest.is_empty() && parameters.one("ACTION")? == Some("DELETE") {
                self.remove(job, owner).await?;
                return Ok(Reply::See(url.to_owned()));
            }
            self.change_by(job, rest, &parameters, (owner, caller)).await?;
            return Ok(Reply::See(at));
        }
        let record = self.get(job, owner)?;
        match rest {
            [] => self.waited(record, &parameters, owner).await.map(|record| Reply::Xml(document::job(&record, &at))),
            ["results", result] => {
                let known = record.results.into_iter().find(|known| known.id == **result);
                let known = known.ok_or_else(|| Fault::NotFound(format!("the job has no result `{result}`")))?;
                Ok(Reply::Result { job: record.id, id: known.id, media_type: known.media_type })
            }
            [what] => look(&record, what, &at),
            _ => Err(unknown_part()),
        }
    }

    fn list(&self, url: &str, parameters: &DaliParameters, owner: Option<&str>) -> Result<Reply, Fault> {
        let phases: Vec<_> = parameters.all("PHASE").map(Phase::named).collect::<Result<_, _>>()?;
        let after: Option<Timestamp> = parameters.read_one("AFTER")?;
        let last: Option<usize> = parameters.read_one("LAST")?;
        let jobs = self.of_owner(owner).into_iter();
        let jobs = jobs.filter(|job| phases.is_empty() || phases.contains(&Some(job.phase)));
        let jobs = jobs.filter(|job| after.is_none_or(|after| job.created > after));
        let jobs: Vec<_> = jobs.take(last.unwrap_or(usize::MAX)).collect();
        Ok(Reply::Xml(document::list(&jobs, url)))
    }

    async fn change_by(
        &self,
        job: &str,
        rest: &[&str],
        parameters: &DaliParameters,
        (owner, caller): (Option<&str>, S::Caller),
    ) -> Result<(), Fault> {
        let value = |name: &'static str| {
            parameters.one(name)?.ok_or_else(|| Fault::Usage(format!("the parameter {name} is missing")))
        };
        match rest {
            ["phase"] => match value("PHASE")? {
                "ABORT" => self.abort(job, owner).await,
                other => {
                    check_run(other)?;
                    self.start(job, owner, caller).await
                }
            },
            ["destruction"] => self.set_destruction(job, owner, value("DESTRUCTION")?.parse()?).await,
            ["executionduration"] => {
                let text = value("EXECUTIONDURATION")?;
                let wrong = |_| Fault::Usage(format!("`{text}` is no number of seconds"));
                self.set_execution(job, owner, text.parse().map_err(wrong)?).await
            }
            [] | ["parameters"] => self.add_parameters(job, owner, parameters.clone()).await,
            _ => Err(unknown_part()),
        }
    }

    /// The job after what `WAIT` asks for.
    async fn waited(&self, record: UwsJob, parameters: &DaliParameters, owner: Option<&str>) -> Result<UwsJob, Fault> {
        let Some(seconds) = parameters.read_one::<i64>("WAIT")? else { return Ok(record) };
        let while_in = match parameters.one("PHASE")?.map(Phase::named).transpose()? {
            Some(Some(phase)) if phase == record.phase => phase,
            Some(_) => return Ok(record),
            None => record.phase,
        };
        let at_most = u64::try_from(seconds).map_or(WAIT_MAX, |seconds| Duration::from_secs(seconds).min(WAIT_MAX));
        self.wait(&record.id, owner, while_in, at_most).await
    }
}

fn look(record: &UwsJob, what: &str, url: &str) -> Result<Reply, Fault> {
    let text = match what {
        "phase" => record.phase.to_string(),
        "executionduration" => record.execution_seconds.to_string(),
        "destruction" => record.destruction.to_string(),
        "quote" => String::new(),
        "owner" => record.owner.clone().unwrap_or_default(),
        "error" => record.fault.as_ref().map(|fault| fault.message.clone()).unwrap_or_default(),
        "parameters" => return Ok(Reply::Xml(document::parameters(record))),
        "results" => return Ok(Reply::Xml(document::results(record, url))),
        _ => return Err(unknown_part()),
    };
    Ok(Reply::Text(text))
}

fn check_run(phase: &str) -> Result<(), Fault> {
    if phase == "RUN" { Ok(()) } else { Err(Fault::Usage(format!("PHASE is RUN or ABORT, not `{phase}`"))) }
}

fn unknown_part() -> Fault {
    Fault::NotFound("a job has no such part".into())
}

/// How long a client is kept waiting at most; then it asks again.
const WAIT_MAX: Duration = Duration::from_secs(60);
