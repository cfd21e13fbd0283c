//! Starting a job, as `sector run --detach` does, and what the page offers for it. Functions, side files and inputs are
//! paths in the cloud. Each error names the field of the request that it is about. It never runs a function.

use axum::response::IntoResponse;
use client::{
    EntryKind, RecordFraming, SectorPath,
    job::{
        FunctionCode, FunctionSpec, JobOutput, JobSpec, NamedFunction, Parameter, SideFileSpec, built_in,
        check_file_bytes, distribute, function_in_file, job_title, named_function, segment_bytes, stages,
    },
    views::JobView,
};
use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    answer::{Answer, ApiError, document},
    ask::{Document, cloud_path},
    caller::Caller,
};

/// The built-in functions.
pub(crate) async fn functions(_: Caller) -> Answer {
    let view = |function: &built_in::BuiltIn| -> Value {
        json!({"name": function.name, "does": function.does, "parameters": function.parameters})
    };
    document(&built_in::ALL.iter().map(view).collect::<Vec<_>>())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewJob {
    functions: Vec<String>,
    inputs: Vec<Vec<String>>,
    output: String,
    #[serde(default)]
    params: Vec<String>,
    #[serde(default)]
    side: Vec<String>,
    buckets: Option<u32>,
    segment_bytes: Option<String>,
    records: Option<String>,
    #[serde(default)]
    result_records: Vec<String>,
    #[serde(default)]
    max_errors: u32,
}

/// Starts a job that a node drives.
pub(crate) async fn start(caller: Caller, Document(new): Document<NewJob>) -> Answer {
    caller.session()?;
    let spec = Box::pin(spec_of(&caller, new)).await?;
    let job = Box::pin(caller.client.detach_job(spec)).await?;
    Ok((StatusCode::CREATED, document(&JobView::from(&caller.client.job(job).await?))?).into_response())
}

async fn spec_of(caller: &Caller, new: NewJob) -> Result<JobSpec, ApiError> {
    if new.functions.is_empty() {
        return Err(ApiError::invalid("name at least one function").in_field("functions"));
    }
    let mut functions = Vec::with_capacity(new.functions.len());
    for name in &new.functions {
        functions.push(function(caller, name).await.map_err(|error| error.in_field("functions"))?);
    }
    let parameters = parse_all::<Parameter>(&new.params, "params")?;
    distribute(&parameters, &mut functions).map_err(|error| ApiError::from(error).in_field("params"))?;
    let output = checked_output(caller, &new.output).await.map_err(|error| error.in_field("output"))?;
    let mut streams = Vec::with_capacity(new.inputs.len());
    for patterns in &new.inputs {
        streams.push(expanded(caller, patterns).await.map_err(|error| error.in_field("inputs"))?);
    }
    let mut streams = streams.into_iter();
    let inputs = streams.next().unwrap_or_default();
    if inputs.is_empty() {
        return Err(ApiError::invalid("name at least one file, folder or glob").in_field("inputs"));
    }
    let side = parse_all::<SideFileSpec>(&new.side, "side")?;
    for file in &side {
        let there = caller.client.stat(&file.path).await;
        there.map_err(|error| ApiError::from(error).about(&file.path).in_field("side"))?;
    }
    let segment = new.segment_bytes.as_deref().map(segment_bytes).transpose();
    let segment = segment.map_err(|why| ApiError::invalid(why).in_field("segment_bytes"))?;
    let records = parse_all::<RecordFraming>(new.records.as_slice(), "records")?.pop();
    let results = match parse_all::<RecordFraming>(&new.result_records, "result_records")? {
        none if none.is_empty() => vec![RecordFraming::File],
        given => given,
    };
    if new.buckets == Some(0) {
        return Err(ApiError::invalid("give at least one bucket").in_field("buckets"));
    }
    let default = match new.buckets {
        Some(buckets) => buckets,
        None => caller.client.default_buckets().await?,
    };
    let stages = stages(functions, &results, new.buckets, default, &side)
        .map_err(|error| ApiError::from(error).in_field("result_records"))?;
    let names: Vec<_> = new.functions.iter().map(String::as_str).collect();
    let title = job_title(&names, &new.inputs);
    Ok(JobSpec {
        zipped_inputs: streams.collect(),
        records,
        segment_bytes: segment,
        errors_max: new.max_errors,
        ..JobSpec::new(title, inputs, stages, JobOutput::Folder(output))
    })
}

/// The files that these paths and globs name, in their order.
async fn expanded(caller: &Caller, patterns: &[String]) -> Result<Vec<client::Entry>, ApiError> {
    let mut entries = Vec::new();
    for pattern in patterns {
        entries.extend(caller.client.expand(pattern).await?);
    }
    Ok(entries)
}

async fn checked_output(caller: &Caller, text: &str) -> Result<SectorPath, ApiError> {
    let output = cloud_path(text)?;
    caller.client.check_job_output(&output).await?;
    Ok(output)
}

/// A function by its name; one in a file is read from the cloud, with the rights of the user.
async fn function(caller: &Caller, name: &str) -> Result<FunctionSpec, ApiError> {
    let code = match named_function(name)? {
        NamedFunction::Whole(code) => code,
        NamedFunction::InFile { file, name } => in_cloud(caller, &file, name).await?,
    };
    Ok(FunctionSpec { code, parameters: Vec::new() })
}

async fn in_cloud(caller: &Caller, file: &str, name: String) -> Result<FunctionCode, ApiError> {
    let path = cloud_path(file)?;
    let reader = caller.client.open(&path).await.map_err(|error| ApiError::from(error).about(&path))?;
    let EntryKind::File(content) = &reader.entry().kind else {
        return Err(client::ClientError::IsFolder { path }.into());
    };
    check_file_bytes(file, content.bytes)?;
    let length = usize::try_from(content.bytes).unwrap_or(usize::MAX);
    let bytes = reader.read_at(0, length).await.map_err(|error| ApiError::from(error).about(&path))?;
    Ok(function_in_file(file, name, bytes.to_vec())?)
}

/// Reads each text of a field, as the command line does.
fn parse_all<T: std::str::FromStr<Err = String>>(
    texts: impl IntoIterator<Item = impl AsRef<str>>,
    field: &'static str,
) -> Result<Vec<T>, ApiError> {
    let parse = |text: &str| text.parse().map_err(|why: String| ApiError::invalid(why).in_field(field));
    texts.into_iter().map(|text| parse(text.as_ref())).collect()
}
