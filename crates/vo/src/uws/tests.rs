//! Jobs of a service that does what its parameters say, in memory.

#![allow(clippy::unwrap_used)]

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use http::Method;
use tokio::sync::Notify;

use super::{JobResult, Jobs, JobsLimits, Phase, Reply, ResultSink, Service, UwsJob};
use crate::{DaliParameters, Fault, Timestamp};

const URL: &str = "http://a/jobs";
const LIMITS: JobsLimits = JobsLimits {
    running: 2,
    kept: 10,
    parameter_bytes: 1_000,
    active_of_owner: 3,
    life: (Duration::from_secs(100), Duration::from_secs(1_000)),
    execution: (Duration::from_secs(50), Duration::from_secs(500)),
};

/// What outlives a process.
type Disk = Arc<Mutex<BTreeMap<String, UwsJob>>>;

#[derive(Clone, Default)]
struct Steps {
    disk: Disk,
    go_on: Arc<Notify>,
}

impl Service for Steps {
    type Caller = &'static str;

    fn check(&self, parameters: &DaliParameters) -> Result<(), Fault> {
        parameters.read::<u32>("STEPS").map(drop)
    }

    /// A result for each step, of which each waits to be let go; `FAIL` fails instead.
    async fn run(&self, caller: &'static str, job: UwsJob, results: ResultSink<Self>) -> Result<(), Fault> {
        let asked: DaliParameters = job.parameters.into_iter().collect();
        let steps: u32 = asked.read_one("STEPS")?.unwrap_or(0);
        for step in job.results.len() as u32..steps {
            self.go_on.notified().await;
            let id = format!("{step}-{caller}");
            results.add(JobResult { id, media_type: "text/plain".into(), bytes: 1 }).await?;
        }
        match asked.one("FAIL")? {
            Some(why) => Err(Fault::Failed(why.into())),
            None => Ok(()),
        }
    }

    async fn save(&self, job: &UwsJob) -> Result<(), Fault> {
        self.disk.lock().unwrap().insert(job.id.clone(), job.clone());
        Ok(())
    }

    async fn remove(&self, id: &str) -> Result<(), Fault> {
        self.disk.lock().unwrap().remove(id);
        Ok(())
    }
}

struct Bench {
    steps: Steps,
    jobs: Jobs<Steps>,
    made: u32,
}

impl Bench {
    fn new() -> Self {
        let steps = Steps::default();
        Self { jobs: Jobs::new(steps.clone(), LIMITS, Vec::new()), steps, made: 0 }
    }

    /// Another process, which has what this one kept.
    fn restart(&mut self) {
        let kept = self.steps.disk.lock().unwrap().values().cloned().collect();
        self.steps.go_on = Arc::default();
        self.jobs = Jobs::new(self.steps.clone(), LIMITS, kept);
    }

    async fn ask(
        &mut self,
        method: &Method,
        path: &str,
        form: &str,
        owner: Option<&'static str>,
    ) -> Result<Reply, Fault> {
        self.made += 1;
        let id = format!("j{}", self.made);
        let who = (owner, owner.unwrap_or("visitor"));
        self.jobs.answer((method, path), URL, DaliParameters::parse(form), who, id).await
    }

    async fn post(&mut self, path: &str, form: &str) -> Result<Reply, Fault> {
        self.ask(&Method::POST, path, form, Some("ann")).await
    }

    async fn get(&mut self, path: &str, query: &str) -> String {
        match self.ask(&Method::GET, path, query, Some("ann")).await {
            Ok(Reply::Text(text)) => text,
            Ok(Reply::Xml(document)) => String::from_utf8(document).unwrap(),
            other => format!("{other:?}"),
        }
    }

    async fn create(&mut self, form: &str) -> String {
        let Ok(Reply::See(url)) = self.post("", form).await else { panic!() };
        url.rsplit_once('/').unwrap().1.to_owned()
    }

    /// The job once it has this phase.
    async fn until(&mut self, id: &str, phase: Phase) -> UwsJob {
        let mut record = self.jobs.get(id, Some("ann")).unwrap();
        while record.phase != phase {
            record = self.jobs.wait(id, Some("ann"), record.phase, Duration::from_secs(60)).await.unwrap();
        }
        record
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_is_made_started_and_done_and_each_change_is_kept_first() {
    let mut bench = Bench::new();
    let id = bench.create("STEPS=2&RUNID=mine").await;
    assert_eq!(bench.get(&format!("{id}/phase"), "").await, "PENDING");
    assert_eq!(bench.post(&format!("{id}/phase"), "PHASE=RUN").await, Ok(Reply::See(format!("{URL}/{id}"))));
    bench.steps.go_on.notify_one();
    bench.until(&id, Phase::Executing).await;
    bench.steps.go_on.notify_one();
    tokio::task::yield_now().await;
    bench.steps.go_on.notify_one();
    let done = bench.until(&id, Phase::Completed).await;
    assert_eq!(done.results.iter().map(|result| result.id.as_str()).collect::<Vec<_>>(), ["0-ann", "1-ann"]);
    assert_eq!(*bench.steps.disk.lock().unwrap()[&id].results, *done.results);
    let document = bench.get(&id, "").await;
    for part in [
        "<uws:phase>COMPLETED</uws:phase>",
        "version=\"1.1\"",
        "<uws:runId>mine</uws:runId>",
        "<uws:parameter id=\"STEPS\">2</uws:parameter>",
        "xlink:href=\"http://a/jobs/j1/results/1-ann\"",
    ] {
        assert!(document.contains(part), "{part} is not in {document}");
    }
    let result = bench.ask(&Method::GET, &format!("{id}/results/1-ann"), "", Some("ann")).await;
    assert_eq!(result, Ok(Reply::Result { job: id.clone(), id: "1-ann".into(), media_type: "text/plain".into() }));
    assert_eq!(bench.post(&format!("{id}/phase"), "PHASE=RUN").await.unwrap_err().status(), 403, "it has ended");
}

#[tokio::test(start_paused = true)]
async fn what_was_done_before_a_restart_is_not_done_again_and_the_owner_lets_it_go_on() {
    let mut bench = Bench::new();
    let id = bench.create("STEPS=2&PHASE=RUN").await;
    bench.until(&id, Phase::Executing).await;
    bench.steps.go_on.notify_one();
    while bench.jobs.get(&id, Some("ann")).unwrap().results.is_empty() {
        tokio::task::yield_now().await;
    }
    bench.restart();
    assert_eq!(bench.ask(&Method::GET, &id, "", None).await.unwrap_err().status(), 403);
    bench.steps.go_on.notify_one();
    // To be asked for it is what it waits for.
    bench.get(&format!("{id}/phase"), "").await;
    let done = bench.until(&id, Phase::Completed).await;
    assert_eq!(done.results.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_job_ends_by_a_fault_by_its_owner_or_by_its_time() {
    let mut bench = Bench::new();
    let failed = bench.create("STEPS=0&FAIL=broken&PHASE=RUN").await;
    let record = bench.until(&failed, Phase::Error).await;
    assert_eq!(record.fault.unwrap().message, "Error: broken");
    assert_eq!(bench.get(&format!("{failed}/error"), "").await, "Error: broken");
    let aborted = bench.create("STEPS=1&PHASE=RUN").await;
    bench.until(&aborted, Phase::Executing).await;
    bench.post(&format!("{aborted}/phase"), "PHASE=ABORT").await.unwrap();
    assert_eq!(bench.until(&aborted, Phase::Aborted).await.results, []);
    let slow = bench.create("STEPS=1").await;
    bench.post(&format!("{slow}/executionduration"), "EXECUTIONDURATION=7").await.unwrap();
    bench.post(&format!("{slow}/phase"), "PHASE=RUN").await.unwrap();
    let record = bench.until(&slow, Phase::Error).await;
    assert!(record.fault.unwrap().message.contains("7 s"));
    let refused = bench.post(&format!("{slow}/executionduration"), "EXECUTIONDURATION=9").await;
    assert_eq!(refused.unwrap_err().status(), 403);
}

#[tokio::test(start_paused = true)]
async fn a_client_waits_for_a_change_and_no_longer() {
    let mut bench = Bench::new();
    let id = bench.create("STEPS=1&PHASE=RUN").await;
    bench.until(&id, Phase::Executing).await;
    let before = tokio::time::Instant::now();
    assert!(bench.get(&id, "WAIT=5").await.contains("EXECUTING"));
    assert_eq!(before.elapsed(), Duration::from_secs(5));
    assert!(bench.get(&id, "WAIT=5&PHASE=QUEUED").await.contains("EXECUTING"), "it is in another phase already");
    assert_eq!(before.elapsed(), Duration::from_secs(5));
    let go_on = Arc::clone(&bench.steps.go_on);
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(3)).await;
        go_on.notify_one();
    });
    assert!(bench.get(&id, "WAIT=-1").await.contains("COMPLETED"));
    assert_eq!(before.elapsed(), Duration::from_secs(8));
    assert!(bench.get(&id, "WAIT=9").await.contains("COMPLETED"), "nothing changes any more");
    assert_eq!(before.elapsed(), Duration::from_secs(8));
}

#[tokio::test(start_paused = true)]
async fn the_list_shows_an_owner_what_was_asked_for() {
    let mut bench = Bench::new();
    let (one, two) = (bench.create("STEPS=0&PHASE=RUN").await, bench.create("STEPS=1").await);
    bench.until(&one, Phase::Completed).await;
    let Ok(Reply::See(of_visitor)) = bench.ask(&Method::POST, "", "STEPS=1", None).await else { panic!() };
    let list = bench.get("", "").await;
    assert!(list.contains(&format!("id=\"{one}\"")) && list.contains(&format!("id=\"{two}\"")), "{list}");
    assert!(!list.contains(of_visitor.rsplit_once('/').unwrap().1), "a visitor's job is known by its name alone");
    let pending = bench.get("", "PHASE=PENDING&PHASE=HELD").await;
    assert!(!pending.contains(&format!("id=\"{one}\"")) && pending.contains(&format!("id=\"{two}\"")), "{pending}");
    assert!(!bench.get("", "AFTER=2999-01-01T00:00:00Z").await.contains("jobref"));
    assert_eq!(bench.get("", "LAST=1").await.matches("<uws:jobref").count(), 1);
    assert_eq!(bench.ask(&Method::GET, "", "PHASE=NONE", Some("ann")).await.unwrap_err().status(), 400);
    let Ok(Reply::Xml(of_nobody)) = bench.ask(&Method::GET, "", "", None).await else { panic!() };
    assert!(!String::from_utf8(of_nobody).unwrap().contains("jobref"));
    let by_name = of_visitor.strip_prefix(URL).unwrap();
    assert!(bench.ask(&Method::GET, by_name, "", None).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn jobs_go_when_they_are_removed_and_when_their_time_has_come() {
    let mut bench = Bench::new();
    let (one, two, three) = (bench.create("STEPS=1&PHASE=RUN").await, bench.create("").await, bench.create("").await);
    let more = [bench.create("STEPS=1&PHASE=RUN").await, bench.create("STEPS=1&PHASE=RUN").await];
    assert_eq!(bench.post("", "PHASE=RUN").await.unwrap_err().status(), 503, "three that run are enough for an owner");
    assert_eq!(bench.get("", "").await.matches("<uws:jobref").count(), 5, "the refused one is not left over");
    for other in more {
        bench.ask(&Method::DELETE, &other, "", Some("ann")).await.unwrap();
    }
    assert_eq!(bench.ask(&Method::DELETE, &one, "", Some("ann")).await, Ok(Reply::See(URL.into())));
    assert_eq!(bench.post(&two, "ACTION=DELETE").await, Ok(Reply::See(URL.into())));
    assert_eq!(bench.ask(&Method::GET, &one, "", Some("ann")).await.unwrap_err().status(), 404);
    bench.post(&format!("{three}/destruction"), "DESTRUCTION=2999-01-01").await.unwrap();
    let latest = Timestamp::now().after(LIMITS.life.1);
    assert!(bench.jobs.get(&three, Some("ann")).unwrap().destruction <= latest, "not later than the limit");
    bench.jobs.sweep(Timestamp::now()).await;
    assert!(bench.jobs.get(&three, Some("ann")).is_ok());
    bench.jobs.sweep(latest).await;
    assert!(bench.steps.disk.lock().unwrap().is_empty());
    assert_eq!(bench.ask(&Method::GET, &three, "", Some("ann")).await.unwrap_err().status(), 404);
}

#[tokio::test(start_paused = true)]
async fn nobody_runs_a_visitors_job_with_rights_of_its_own() {
    let mut bench = Bench::new();
    let of_visitor = bench.jobs.create("v".into(), None, DaliParameters::parse("STEPS=1")).await.unwrap().id;
    let at = format!("/{of_visitor}");
    assert!(bench.ask(&Method::GET, &at, "", Some("ann")).await.is_ok());
    assert_eq!(bench.post(&format!("{at}/phase"), "PHASE=RUN").await.unwrap_err().status(), 403);
    assert_eq!(bench.jobs.get("v", None).unwrap().phase, Phase::Pending);
}

#[tokio::test(start_paused = true)]
async fn nobody_fills_the_room_of_others() {
    let mut bench = Bench::new();
    let id = bench.create(&format!("STEPS=1&TABLE={}", "x".repeat(150))).await;
    let more = format!("MORE={}", "x".repeat(150));
    assert_eq!(bench.post(&format!("{id}/parameters"), &more).await.unwrap_err().status(), 503);
    let other = DaliParameters::parse(&more);
    assert!(bench.jobs.create("other".into(), Some("ben".into()), other).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn what_makes_no_sense_is_refused_before_it_is_a_job() {
    let mut bench = Bench::new();
    for (path, form, status) in [("", "STEPS=x", 400), ("", "PHASE=GO", 400), ("none/phase", "PHASE=RUN", 404)] {
        assert_eq!(bench.post(path, form).await.unwrap_err().status(), status, "{path} {form}");
    }
    let long = format!("STEPS=1&TABLE={}", "x".repeat(1_000));
    assert_eq!(bench.post("", &long).await.unwrap_err().status(), 503, "all that is asked is kept in memory");
    let id = bench.create("STEPS=1").await;
    for (path, form, status) in [
        ("phase", "", 400),
        ("phase", "PHASE=COMPLETED", 400),
        ("destruction", "DESTRUCTION=soon", 400),
        ("executionduration", "EXECUTIONDURATION=-1", 400),
        ("parameters", "STEPS=y", 400),
        ("nothing", "A=1", 404),
    ] {
        assert_eq!(bench.post(&format!("{id}/{path}"), form).await.unwrap_err().status(), status, "{path} {form}");
    }
    bench.post(&format!("{id}/parameters"), "MORE=1").await.unwrap();
    assert!(bench.get(&format!("{id}/parameters"), "").await.contains("<uws:parameter id=\"MORE\">1"));
}
