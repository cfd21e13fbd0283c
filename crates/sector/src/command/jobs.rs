//! `run`, `jobs` and `job`: Sphere through the command line. The client library is the driver; this file never
//! schedules a task.

use std::time::Duration;

use client::{
    Client, Entry, JobRecord, JobState, SectorPath,
    job::{
        ErrorLine, JobOutcome, JobOutput, JobSpec, PythonEnvironment, alike, distribute, give_modules, job_title,
        read_modules, stages,
    },
    views::{JobView, StageView},
};
use protocol::Reason;
use terminal::{drive, failure::Failure, sanitize, say, show};

use super::{logs, segments, udf};
use crate::arguments::{Global, JobArguments, JobsArguments, Run};

/// `sector run`.
pub(crate) async fn run(cloud: &Client, run: Run, global: &Global) -> Result<(), Failure> {
    let functions = std::iter::once(&run.udf).chain(&run.then).map(|udf| udf::function(udf));
    let mut functions = functions.collect::<Result<Vec<_>, _>>()?;
    distribute(&run.param, &mut functions)?;
    give_modules(&mut functions, &read_modules(&run.py_modules)?)?;
    let environment = environment(&run)?;
    let output = SectorPath::parse(&run.output)?;
    cloud.check_job_output(&output).await?;
    let mut streams = Vec::new();
    for patterns in &run.inputs.0 {
        streams.push(expand_all(cloud, patterns).await?);
    }
    let mut streams = streams.into_iter();
    let (inputs, beside) = (streams.next().unwrap_or_default(), streams.collect());
    let buckets = match run.buckets {
        Some(buckets) => buckets,
        None => cloud.default_buckets().await?,
    };
    let stages = stages(functions, &run.result_records, run.buckets, buckets, &run.side)?;
    let names: Vec<_> = std::iter::once(&run.udf).chain(&run.then).map(String::as_str).collect();
    let mut spec = JobSpec {
        title: job_title(&names, &run.inputs.0),
        inputs,
        zipped_inputs: beside,
        stages,
        output: JobOutput::Folder(output.clone()),
        records: run.records,
        segment_bytes: run.segment_bytes,
        errors_max: run.max_errors,
        copies: None,
        sync_copies: None,
    };
    if let Some(environment) = environment {
        environment.give_to(cloud, &mut spec).await?;
    }
    if run.detach {
        // Boxed, like every call that stores files: its frames would all lie on one stack.
        let job = Box::pin(cloud.detach_job(spec)).await?;
        if global.json {
            return show::json(&JobView::from(&cloud.job(job).await?));
        }
        show::line(job.to_string());
        return Ok(());
    }
    let outcome = drive(cloud, spec, "run", global).await?;
    show_outcome(&outcome, &output, global)
}

/// The Python packages that go along.
fn environment(run: &Run) -> Result<Option<PythonEnvironment>, Failure> {
    let Some(file) = &run.requirements else { return Ok(None) };
    let Some(wheels) = &run.wheels else {
        return Err(Failure::usage(
            "nodes have no index of packages to ask: fetch the wheels with `pip download --only-binary :all: -r FILE -d \
             DIR`, and name their folder with --wheels DIR",
        ));
    };
    let text = std::fs::read_to_string(file).map_err(|error| Failure::local("read", file, &error))?;
    Ok(Some(PythonEnvironment::read(text, wheels)?))
}

/// Shows what a job has left, and once for each reason what is missing.
fn show_outcome(outcome: &JobOutcome, output: &SectorPath, global: &Global) -> Result<(), Failure> {
    if global.json {
        return show::json(&JobView::from(&outcome.record));
    }
    if global.quiet {
        return Ok(());
    }
    let bytes: u64 = outcome.record.stages.last().map_or(0, |stage| stage.bytes_out);
    let left_out = match (&outcome.record.error_slice, outcome.skipped_segments.len()) {
        (Some(slice), 1) => format!(", with 1 error, see {slice}"),
        (Some(slice), count) => format!(", with {count} errors, see {slice}"),
        (None, _) => String::new(),
    };
    let (files, job) = (show::count(outcome.outputs.len(), "file"), outcome.record.job);
    show::line(format!("{files}, {} in {output}{left_out}; job {job}", show::size(bytes)));
    for error in &outcome.record.errors {
        say!("sector: {}", sanitize(error));
    }
    Ok(())
}

/// The files that these paths and globs name, in their order.
pub(crate) async fn expand_all(cloud: &Client, patterns: &[String]) -> Result<Vec<Entry>, Failure> {
    let mut entries = Vec::new();
    for pattern in patterns {
        entries.extend(cloud.expand(pattern).await?);
    }
    Ok(entries)
}

/// `sector jobs`.
pub(crate) async fn jobs(cloud: &Client, wanted: JobsArguments, global: &Global) -> Result<(), Failure> {
    let JobsArguments { user, state, limit } = wanted;
    let jobs = match (user, state) {
        (None, None) => cloud.jobs().await?,
        (user, state) => cloud.find_jobs(user, state).await?,
    };
    let views: Vec<_> = jobs
        .iter()
        .take(limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX)))
        .map(JobView::from)
        .collect();
    if global.json {
        return show::json(&views);
    }
    let rows: Vec<_> = views
        .into_iter()
        .map(|view| {
            vec![
                view.id,
                view.state.to_owned(),
                view.user,
                view.started.map(|at| show::time_of(&at)).unwrap_or_default(),
                view.title,
            ]
        })
        .collect();
    show::table(&["id", "state", "user", "started", "what"], &rows);
    Ok(())
}

/// `sector job`.
pub(crate) async fn job(cloud: &Client, arguments: JobArguments, global: &Global) -> Result<(), Failure> {
    let id = arguments.job;
    if arguments.cancel {
        return Ok(cloud.cancel_job(id).await?);
    }
    let mut record = cloud.job(id).await?;
    while arguments.wait && record.state == JobState::Running {
        tokio::time::sleep(WAIT_PERIOD).await;
        record = cloud.job(id).await?;
    }
    if arguments.errors {
        errors(cloud, &record, global).await?;
    } else if arguments.segments {
        segments::segments(cloud, id, global).await?;
    } else if arguments.logs {
        logs::logs(cloud, id, global).await?;
    } else if global.json {
        show::json(&JobView::from(&record))?;
    } else {
        let view = JobView::from(&record);
        show::line(format!(
            "{} {} by {} since {}: {}",
            view.id,
            view.state,
            view.user,
            view.started.as_deref().map_or_else(|| "-".into(), show::time_of),
            view.title
        ));
        let rows: Vec<_> = view.stages.iter().enumerate().map(|(number, stage)| stage_row(stage, number)).collect();
        show::table(&[" stage", " segments", " done", " failed", " retried", " local", " read", " written"], &rows);
        let counts = view.stages.iter().enumerate().flat_map(|(number, stage)| {
            stage.counters.iter().map(move |(name, count)| vec![number.to_string(), name.to_owned(), count.to_string()])
        });
        let counts: Vec<_> = counts.collect();
        if !counts.is_empty() {
            show::table(&[" stage", "counter", " count"], &counts);
        }
        record.errors.iter().for_each(show::line);
        if let Some(slice) = view.error_slice {
            show::line(format!("{} segments were left out, see {slice}", view.failed_segments));
        }
    }
    match record.state {
        JobState::Failed | JobState::Lost | JobState::Cancelled if arguments.wait => {
            Err(Failure::new(Reason::Failed, ""))
        }
        _ => Ok(()),
    }
}

/// `sector job ID --errors`: the content of the error slice, or the one error that ended the job.
async fn errors(cloud: &Client, record: &JobRecord, global: &Global) -> Result<(), Failure> {
    if record.error_slice.is_none() {
        if global.json {
            return show::json(&record.errors);
        }
        record.errors.iter().for_each(show::line);
        return Ok(());
    }
    let lines = cloud.job_errors(record.job).await?;
    if global.json {
        return show::json(&lines);
    }
    for (preface, line) in alike(&lines) {
        show::line(format!("{preface}{}", error_text(line)));
    }
    Ok(())
}

/// A line of the error slice for people.
fn error_text(line: &ErrorLine) -> String {
    let ErrorLine { stage, function, slice, segment, from, until, record, record_start, message, .. } = line;
    let record = record.map(|record| format!(", record {record}")).unwrap_or_default();
    let start = if record_start.is_empty() { String::new() } else { format!(" (which begins \"{record_start}\")") };
    format!(
        "stage {stage}: `{function}` failed on `{slice}`, segment {segment} (bytes {from} to {until}){record}{start}: {message}"
    )
}

/// A stage for people.
fn stage_row(stage: &StageView, number: usize) -> Vec<String> {
    let counts = [number as u64, stage.segments, stage.done, stage.failed, stage.retried, stage.local];
    counts.iter().map(u64::to_string).chain([show::size(stage.bytes_in), show::size(stage.bytes_out)]).collect()
}

/// Time between two checks on a job that is waited for.
const WAIT_PERIOD: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn an_error_of_a_segment_is_one_sentence_with_all_that_is_known() {
        let mut line = ErrorLine {
            stage: 0,
            function: "parse".into(),
            slice: "/in/a".into(),
            segment: 4,
            from: 100,
            until: 200,
            first_record: None,
            record: Some(3),
            record_start: r"a\tb".into(),
            message: "no number".into(),
        };
        let said = r#"stage 0: `parse` failed on `/in/a`, segment 4 (bytes 100 to 200), record 3 (which begins "a\tb"): no number"#;
        assert_eq!(error_text(&line), said);
        (line.record, line.record_start) = (None, String::new());
        assert_eq!(error_text(&line), "stage 0: `parse` failed on `/in/a`, segment 4 (bytes 100 to 200): no number");
    }
}
