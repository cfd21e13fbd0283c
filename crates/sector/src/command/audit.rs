//! `audit`: who did what, and whether the record of it is whole. It asks the cloud, or reads the record's files
//! without it. It never changes the record.

use std::{
    path::Path,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use client::{Client, audit::AuditFilter};
use protocol::{
    Reason,
    message::audit::{AuditCheck, AuditPage, AuditQuery},
};
use security::audit::{check_folder, read_page};
use serde::Serialize;
use serde_json::Value;
use terminal::{failure::Failure, show};

use crate::arguments::{Audit, AuditCommand, AuditFolder, AuditShow, Global};

/// `sector audit` on the files of a folder; `None` if the cloud must be asked.
pub(crate) async fn offline(asked: &Audit, global: &Global) -> Option<Result<(), Failure>> {
    Some(match &asked.command {
        Some(AuditCommand::Verify(AuditFolder { folder: Some(folder) })) => {
            check_files(folder).and_then(|check| tell(&check, global))
        }
        Some(AuditCommand::Verify(_)) => return None,
        Some(AuditCommand::Show(asked)) => show_folder(asked, asked.folder.folder.as_deref()?, global).await,
        None => show_folder(&asked.show, asked.show.folder.folder.as_deref()?, global).await,
    })
}

/// Checks the files of a folder. A folder without any has no whole record: they may have been removed, or it may be
/// the wrong folder.
fn check_files(folder: &Path) -> Result<AuditCheck, Failure> {
    let check = check_folder(folder, &[], u64::MAX).map_err(|error| Failure::failed(error.to_string()))?;
    if check.files == 0 {
        let message = format!(
            "`{}` holds no file of an audit record; name the folder `audit` of the security server, or a copy of it",
            folder.display()
        );
        return Err(Failure::new(Reason::NotFound, message));
    }
    Ok(check)
}

/// `sector audit` with the cloud's own record.
pub(crate) async fn run(cloud: &Client, command: Audit, global: &Global) -> Result<(), Failure> {
    let asked = match command.command {
        Some(AuditCommand::Verify(_)) => return tell(&cloud.verify_audit().await?, global),
        Some(AuditCommand::Show(asked)) => asked,
        None => command.show,
    };
    let mut lines = Lines::new(&asked, global);
    let mut query = query(&asked);
    loop {
        let page = cloud.audit_page(query.clone()).await?;
        query.after = query.after.max(page.last);
        if lines.take(page)? {
            continue;
        }
        if !asked.follow {
            return lines.end();
        }
        tokio::time::sleep(FOLLOW_PERIOD).await;
    }
}

async fn show_folder(asked: &AuditShow, folder: &Path, global: &Global) -> Result<(), Failure> {
    let mut lines = Lines::new(asked, global);
    let mut query = query(asked);
    loop {
        let page = read_page(folder, &query, u64::MAX).map_err(|error| Failure::failed(error.to_string()))?;
        query.after = query.after.max(page.last);
        if lines.take(page)? {
            continue;
        }
        if !asked.follow {
            return lines.end();
        }
        tokio::time::sleep(FOLLOW_PERIOD).await;
    }
}

fn unix_millis(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

fn query(asked: &AuditShow) -> AuditQuery {
    AuditQuery { after: 0, since_unix_millis: asked.since.map(unix_millis), user: asked.user.clone() }
}

/// Lines for the user: printed page by page, or gathered for one JSON document.
struct Lines<'a> {
    asked: &'a AuditShow,
    filter: AuditFilter,
    is_json: bool,
    gathered: Vec<Value>,
}

impl<'a> Lines<'a> {
    fn new(asked: &'a AuditShow, global: &Global) -> Self {
        let filter = AuditFilter {
            kinds: asked.kinds.clone(),
            path: asked.path.clone(),
            until_unix_millis: asked.until.map(unix_millis),
            all: asked.all,
        };
        Self { asked, filter, is_json: global.json, gathered: Vec::new() }
    }

    /// Takes a page; returns whether there is more to come.
    fn take(&mut self, page: AuditPage) -> Result<bool, Failure> {
        for line in page.lines {
            // A line that is not JSON is shown as it is: the check says what is wrong with it.
            let value = serde_json::from_str(&line).unwrap_or(Value::String(line));
            if !self.filter.wants(&value) {
                continue;
            }
            match (self.is_json, self.asked.follow) {
                (true, false) => self.gathered.push(value),
                (true, true) => show::line(value.to_string()),
                (false, _) => show::line(in_words(&value)),
            }
        }
        Ok(page.more)
    }

    fn end(self) -> Result<(), Failure> {
        if self.is_json { show::json(&self.gathered) } else { Ok(()) }
    }
}

/// A line for people.
fn in_words(line: &Value) -> String {
    let text = |name: &str| line.get(name).and_then(Value::as_str).unwrap_or_default();
    let Some(millis) = line.get("time_unix_millis").and_then(Value::as_u64) else { return line.to_string() };
    let mut words = vec![show::exact_time(millis), text("who").to_owned()];
    if !text("from").is_empty() {
        words.push(format!("from {}", text("from")));
    }
    words.push(format!("{}:", text("outcome")));
    words.push(text("what").to_owned());
    words.extend([text("object"), text("note")].into_iter().filter(|text| !text.is_empty()).map(str::to_owned));
    words.join(" ")
}

/// Prints the result of a check; a record that is not whole is exit code 6.
fn tell(check: &AuditCheck, global: &Global) -> Result<(), Failure> {
    let fault = check.fault.as_ref();
    if global.json {
        show::json(&CheckView {
            ok: fault.is_none(),
            first: check.first,
            last: check.head.number,
            hash: check.head.hash.iter().map(|byte| format!("{byte:02x}")).collect(),
            files: check.files,
            bad_file: fault.map(|fault| fault.file.as_str()),
            bad_line: fault.map(|fault| fault.line),
            why: fault.map(|fault| fault.why.as_str()),
        })?;
    }
    match fault {
        Some(fault) => {
            let message = format!("{} line {}: {}", fault.file, fault.line, fault.why);
            Err(Failure::new(Reason::Corrupt, if global.json { String::new() } else { message }))
        }
        None => {
            if !global.json {
                let AuditCheck { first, head, files, .. } = check;
                show::line(format!("ok: lines {first} to {} in {files} files form one chain", head.number));
            }
            Ok(())
        }
    }
}

#[derive(Serialize)]
struct CheckView<'a> {
    ok: bool,
    first: u64,
    last: u64,
    hash: String,
    files: u64,
    bad_file: Option<&'a str>,
    bad_line: Option<u64>,
    why: Option<&'a str>,
}

/// How often the record is asked for new lines.
const FOLLOW_PERIOD: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_folder_without_a_record_is_not_called_whole() {
        let folder = tempfile::tempdir().unwrap();
        assert!(check_files(folder.path()).is_err());
    }
}
