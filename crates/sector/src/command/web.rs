//! `web`: a link that logs a person in at the web page. The gateway makes it for the holder of the profile's token,
//! which never appears in the link.

use std::time::Duration;

use client::{Client, Profile};
use daemon::{http_agent, system_certificates};
use protocol::Reason;
use serde::Deserialize;
use serde_json::json;
use terminal::{failure::Failure, show};
use ureq::Agent;

use crate::{
    arguments::{Global, Web},
    cloud::RunningCloud,
};

/// `sector web`.
pub(crate) async fn run(cloud: &Client, asked: &Web, global: &Global) -> Result<(), Failure> {
    let page = match &asked.at {
        Some(url) => url.trim_end_matches('/').to_owned(),
        None => page_here()?,
    };
    let profile = cloud.profile().clone();
    let url = page.clone();
    let code = tokio::task::spawn_blocking(move || new_code(&url, &profile)).await;
    let code = code.map_err(|error| Failure::failed(error.to_string()))??;
    let link = format!("{page}/#/login/{code}");
    if global.json {
        show::json(&json!({"link": link}))?;
    } else {
        show::line(&link);
    }
    if asked.open { open(&link) } else { Ok(()) }
}

/// The page of the cloud that runs on this machine.
fn page_here() -> Result<String, Failure> {
    let running = RunningCloud::load(&Profile::home()?)?.filter(|running| running.process.is_alive());
    let message = "no cloud with a web page that `sector up` started runs here; name the page with `--at URL`";
    running.and_then(|running| running.page).ok_or_else(|| Failure::new(Reason::NotFound, message))
}

#[derive(Deserialize)]
struct NewLink {
    code: String,
}

#[derive(Deserialize)]
struct Refused {
    error: RefusedError,
}

#[derive(Deserialize)]
struct RefusedError {
    message: String,
}

/// Asks the gateway (blocking).
fn new_code(page: &str, profile: &Profile) -> Result<String, Failure> {
    let is_plain = page.starts_with("http://");
    let is_here = ["http://127.", "http://[::1]", "http://localhost"].iter().any(|start| page.starts_with(start));
    if is_plain && !is_here {
        let message =
            format!("`{page}` is another machine without TLS: the profile's token would cross the network readable");
        return Err(Failure::new(Reason::NotPermitted, message));
    }
    let token: String = profile.token.iter().map(|byte| format!("{byte:02x}")).collect();
    let given = data_encoding::BASE64.encode(format!("{}:{token}", profile.user).as_bytes());
    let failed = |error: ureq::Error| Failure::new(Reason::Unavailable, format!("cannot ask `{page}`: {error}"));
    let mut answer = Agent::new_with_config(http_agent(&system_certificates(), ANSWER_MAX).build())
        .post(format!("{page}/api/v1/login/links"))
        .header("authorization", format!("Basic {given}"))
        .send_empty()
        .map_err(failed)?;
    let text = answer.body_mut().read_to_string().map_err(failed)?;
    if answer.status().is_success()
        && let Ok(NewLink { code }) = serde_json::from_str(&text)
    {
        return Ok(code);
    }
    let said = serde_json::from_str::<Refused>(&text).map(|refused| refused.error.message);
    let said = said.unwrap_or_else(|_| format!("status {}; is that the page of a cloud?", answer.status()));
    Err(Failure::failed(format!("`{page}` answers: {said}")))
}

/// Opens the link with what the system has for that.
fn open(link: &str) -> Result<(), Failure> {
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let status = std::process::Command::new(program).arg(link).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Failure::failed(format!("`{program}` ended with {status}"))),
        Err(error) => Err(Failure::failed(format!("cannot run `{program}`: {error}; open the link yourself"))),
    }
}

/// The gateway asks the master once.
const ANSWER_MAX: Duration = Duration::from_secs(30);
