//! What people look after in a cloud: rights, policies, quotas, the trash, copies, and jobs that somebody else drives.
//! `sector.Cloud` builds on it; each call is one of the command line's (paths *upload*, *job*). It gives plain rows,
//! which Python names. It never changes what it was not asked to: Python says the whole list or policy.

use std::path::PathBuf;

use client::{
    Acl, AclStatus, Client, ClientError, FileVersion, Mark, MarkChange, MarkSubject, MeasuredLink, Policy,
    PolicyStatus, Principal, Profile, QuotaOf, Reason, Refusal, SegmentLog, TrashItem, UserName,
    file::check::{CheckResult, CheckedCopy},
    job::JobId,
};
use pyo3::{Bound, PyAny, PyResult, Python, exceptions::PyValueError, pyfunction};

use crate::{
    entry::Entry,
    failure::Failure,
    job_status::{JobStatus, parse_state},
    session::{Session, parse},
};

/// Owner, the list in effect, whether the entry has its own, where the list comes from, and what the asking user may.
type AclRow = (String, String, bool, Option<String>, String);
/// Copies, synced copies, sites wanted and forbidden, seconds of life, together, most bytes and files, seconds for
/// which replaced content is kept.
type PolicyRow = (
    Option<u8>,
    Option<u8>,
    Vec<String>,
    Vec<String>,
    Option<u64>,
    Option<bool>,
    Option<u64>,
    Option<u64>,
    Option<u64>,
);
/// User or folder, bytes and files used, most bytes and files.
type QuotaRow = (Option<String>, Option<String>, u64, u64, Option<u64>, Option<u64>);
/// Stage, segment, run, attempt, node, whether the function failed, its text, and bytes that are not in it.
type LogRow = (u32, Option<u64>, u32, u32, String, bool, String, u64);
/// Whose, from where, where in the trash, until when in milliseconds, bytes of a file.
type TrashRow = (String, String, String, u64, Option<u64>);
/// Where in the trash, version, bytes, whose, when replaced in milliseconds, by whom, until when in milliseconds.
type VersionRow = (String, u64, u64, String, u64, String, u64);
/// The sites that send and receive, and the seconds of a round trip. Then bytes a second, the share of lost packets,
/// bytes sent again a second, and most bytes a second.
type LinkRow = (String, String, Option<f64>, Option<u64>, Option<f64>, Option<u64>, Option<u64>);
/// Its kind, its names, `slow` or `ignored`, who has decided it, why, since when and until when in milliseconds.
type MarkRow = (&'static str, Vec<String>, &'static str, Option<String>, String, u64, Option<u64>);

/// The file of a profile, which is given by its name or its file; that which is taken where none is given.
#[pyfunction]
#[pyo3(signature = (chosen = None))]
pub(crate) fn profile_file(chosen: Option<PathBuf>) -> PyResult<PathBuf> {
    let file = match chosen {
        Some(chosen) => Profile::chosen_file(&chosen),
        None => Profile::default_file(),
    };
    Ok(file.map_err(Failure::from)?)
}

/// A job as the master knows it.
#[pyfunction]
pub(crate) fn job_status<'py>(py: Python<'py>, session: &Session, job: &str) -> PyResult<Bound<'py, PyAny>> {
    let job = job_id(job)?;
    session.call(py, false, async move |cloud: Client| Ok(JobStatus::from(cloud.job(job).await?)))
}

/// Asks whoever drives a job to stop.
#[pyfunction]
pub(crate) fn cancel_job<'py>(py: Python<'py>, session: &Session, job: &str) -> PyResult<Bound<'py, PyAny>> {
    let job = job_id(job)?;
    session.call(py, false, async move |cloud: Client| Ok(cloud.cancel_job(job).await?))
}

/// The jobs of a user or in a state, newest first.
#[pyfunction]
pub(crate) fn find_jobs<'py>(
    py: Python<'py>,
    session: &Session,
    user: Option<&str>,
    state: Option<&str>,
) -> PyResult<Bound<'py, PyAny>> {
    let user = user.map(|name| UserName::new(name).map_err(|error| PyValueError::new_err(error.to_string())));
    let (user, state) = (user.transpose()?, state.map(parse_state).transpose()?);
    session.call(py, false, async move |cloud: Client| {
        Ok(cloud.find_jobs(user, state).await?.into_iter().map(JobStatus::from).collect::<Vec<_>>())
    })
}

/// What a job's functions have printed so far, and how many segments are left out.
#[pyfunction]
pub(crate) fn job_logs<'py>(py: Python<'py>, session: &Session, job: &str) -> PyResult<Bound<'py, PyAny>> {
    let job = job_id(job)?;
    session.call(py, false, async move |cloud: Client| {
        let logs = cloud.job_logs(job).await?;
        let row = |log: SegmentLog| -> LogRow {
            let SegmentLog { stage, epoch, attempt, node, failed, output } = log;
            let text = output.text();
            (stage, output.segment, epoch, attempt, node.to_string(), failed, text, output.left_out_bytes)
        };
        Ok((logs.segments.into_iter().map(row).collect::<Vec<_>>(), logs.left_out))
    })
}

#[pyfunction]
pub(crate) fn acl<'py>(py: Python<'py>, session: &Session, path: &str) -> PyResult<Bound<'py, PyAny>> {
    let path = parse(path)?;
    session.call(py, false, async move |cloud: Client| Ok(acl_row(cloud.acl(&path).await?)))
}

/// Sets an entry's own list; without one, that of the folders above holds again. With `adds` the list is granted besides
/// what holds. Names that are new in it must be known, unless `unknown` is set.
#[pyfunction]
pub(crate) fn set_acl<'py>(
    py: Python<'py>,
    session: &Session,
    path: &str,
    acl: Option<&str>,
    unknown: bool,
    adds: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let path = parse(path)?;
    let acl = acl.map(|text| text.parse::<Acl>().map_err(|why| PyValueError::new_err(why.to_string()))).transpose()?;
    session.call(py, false, async move |cloud: Client| {
        let status = match acl {
            Some(acl) => {
                if !unknown {
                    let before = cloud.acl(&path).await?.effective;
                    let named: Vec<_> = before.entries().iter().map(|entry| entry.principal.clone()).collect();
                    refuse_unknown(cloud.unknown_principal(&acl.without(&named)).await?)?;
                }
                if adds { cloud.add_to_acl(&path, acl).await? } else { cloud.set_acl(&path, acl).await? }
            }
            None => cloud.clear_acl(&path).await?,
        };
        Ok(acl_row(status))
    })
}

/// An entry's own policy, the one in effect, and no warnings.
#[pyfunction]
pub(crate) fn policy<'py>(py: Python<'py>, session: &Session, path: &str) -> PyResult<Bound<'py, PyAny>> {
    let path = parse(path)?;
    session.call(py, false, async move |cloud: Client| Ok(policy_rows(cloud.policy(&path).await?)))
}

/// Sets an entry's whole own policy; also gives warnings about it.
#[pyfunction]
pub(crate) fn set_policy<'py>(
    py: Python<'py>,
    session: &Session,
    path: &str,
    row: PolicyRow,
) -> PyResult<Bound<'py, PyAny>> {
    let path = parse(path)?;
    let (
        copies,
        sync_copies,
        sites_wanted,
        sites_forbidden,
        lifetime_seconds,
        colocated,
        quota_bytes,
        quota_files,
        versions_seconds,
    ) = row;
    let policy = Policy {
        copies,
        sync_copies,
        sites_wanted,
        sites_forbidden,
        lifetime_seconds,
        colocated,
        quota_bytes,
        quota_files,
        versions_seconds,
    };
    session.call(py, false, async move |cloud: Client| Ok(policy_rows(cloud.set_policy(&path, policy).await?)))
}

#[pyfunction]
pub(crate) fn quotas<'py>(py: Python<'py>, session: &Session) -> PyResult<Bound<'py, PyAny>> {
    session.call(py, false, async move |cloud: Client| {
        let rows = cloud.quotas().await?.into_iter().map(|quota| -> QuotaRow {
            let (user, folder) = match quota.of {
                QuotaOf::User(user) => (Some(user.to_string()), None),
                QuotaOf::Folder(path) => (None, Some(path.to_string())),
            };
            (user, folder, quota.used_bytes, quota.used_files, quota.bytes, quota.files)
        });
        Ok(rows.collect::<Vec<_>>())
    })
}

#[pyfunction]
pub(crate) fn set_quota<'py>(
    py: Python<'py>,
    session: &Session,
    user: &str,
    bytes: Option<u64>,
    files: Option<u64>,
    unknown: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let user = user.parse::<UserName>().map_err(|why| PyValueError::new_err(why.to_string()))?;
    session.call(py, false, async move |cloud: Client| {
        // What a user who is gone left behind may be taken away.
        if !unknown && (bytes.is_some() || files.is_some()) {
            refuse_unknown(cloud.unknown_user(std::slice::from_ref(&user)).await?.map(Principal::User))?;
        }
        Ok(cloud.set_quota(&user, bytes, files).await?)
    })
}

fn refuse_unknown(unknown: Option<Principal>) -> Result<(), Failure> {
    let named = match unknown {
        Some(Principal::User(user)) => format!("there is no user `{user}`"),
        Some(Principal::Group(group)) => format!("there is no group `{group}`"),
        Some(Principal::Everyone) | None => return Ok(()),
    };
    let message = format!("{named}; with unknown=True the name is taken all the same");
    Err(ClientError::from(Refusal::new(Reason::NotFound, message)).into())
}

#[pyfunction]
pub(crate) fn trash<'py>(py: Python<'py>, session: &Session, all_users: bool) -> PyResult<Bound<'py, PyAny>> {
    session.call(py, false, async move |cloud: Client| {
        let row = |item: TrashItem| -> TrashRow {
            (item.user.to_string(), item.from.to_string(), item.at.to_string(), item.until_unix_millis, item.bytes)
        };
        Ok(cloud.trash(all_users).await?.into_iter().map(row).collect::<Vec<_>>())
    })
}

/// The contents that were replaced at a path.
#[pyfunction]
pub(crate) fn versions<'py>(py: Python<'py>, session: &Session, path: &str) -> PyResult<Bound<'py, PyAny>> {
    let path = parse(path)?;
    session.call(py, false, async move |cloud: Client| {
        let row = |version: FileVersion| -> VersionRow {
            let (at, user, by) = (version.at.to_string(), version.user.to_string(), version.replaced_by.to_string());
            let (replaced, until) = (version.replaced_unix_millis, version.until_unix_millis);
            (at, version.version.0, version.bytes, user, replaced, by, until)
        };
        Ok(cloud.versions(&path).await?.into_iter().map(row).collect::<Vec<_>>())
    })
}

/// What goes over the links between sites, or went so many seconds ago.
#[pyfunction]
pub(crate) fn links<'py>(py: Python<'py>, session: &Session, seconds_ago: u32) -> PyResult<Bound<'py, PyAny>> {
    session.call(py, false, async move |cloud: Client| {
        let row = |MeasuredLink { from, to, rates, limit_bytes_per_second }: MeasuredLink| -> LinkRow {
            let millionths = |value: f64| value / 1_000_000.0;
            let round_trip = rates.and_then(|it| it.round_trip_micros).map(|micros| millionths(micros as f64));
            let loss = rates.and_then(|it| it.loss_millionths).map(|loss| millionths(loss.into()));
            let sent = rates.map(|it| it.sent_bytes_per_second);
            let retransmitted = rates.map(|it| it.retransmitted_bytes_per_second);
            (from, to, round_trip, sent, loss, retransmitted, limit_bytes_per_second)
        };
        Ok(cloud.links(seconds_ago).await?.links.into_iter().map(row).collect::<Vec<_>>())
    })
}

/// What is marked as slow, and what administrators have decided about it.
#[pyfunction]
pub(crate) fn marks<'py>(py: Python<'py>, session: &Session) -> PyResult<Bound<'py, PyAny>> {
    session.call(py, false, async move |cloud: Client| {
        let row = |mark: Mark| -> MarkRow {
            let Mark { subject, state, by, reason, since_unix_millis, expires_unix_millis } = mark;
            let by = by.map(|user| user.to_string());
            (subject.kind(), subject.names(), state.as_str(), by, reason, since_unix_millis, expires_unix_millis)
        };
        Ok(cloud.marks().await?.into_iter().map(row).collect::<Vec<_>>())
    })
}

/// Overrules what was measured of what these words name: `add`, `ignore` or `clear`.
#[pyfunction]
pub(crate) fn change_mark<'py>(
    py: Python<'py>,
    session: &Session,
    change: &str,
    words: Vec<String>,
    reason: String,
) -> PyResult<Bound<'py, PyAny>> {
    let subject = MarkSubject::of_words(&words.iter().map(String::as_str).collect::<Vec<_>>());
    let subject = subject.map_err(PyValueError::new_err)?;
    let change = match change {
        "add" => MarkChange::Add(reason),
        "ignore" => MarkChange::Ignore(reason),
        _ => MarkChange::Clear,
    };
    session.call(py, false, async move |cloud: Client| Ok(cloud.change_mark(subject, change).await?))
}

#[pyfunction]
pub(crate) fn restore<'py>(
    py: Python<'py>,
    session: &Session,
    path: &str,
    to: Option<&str>,
) -> PyResult<Bound<'py, PyAny>> {
    let (path, to) = (parse(path)?, to.map(parse).transpose()?);
    session.call(py, false, async move |cloud: Client| Ok(Entry::from(cloud.restore(&path, to.as_ref()).await?)))
}

#[pyfunction]
pub(crate) fn empty_trash<'py>(py: Python<'py>, session: &Session, all_users: bool) -> PyResult<Bound<'py, PyAny>> {
    session.call(py, false, async move |cloud: Client| Ok(cloud.empty_trash(all_users).await?))
}

/// Has each copy of a file read: its node, what was found, and why it is not good.
#[pyfunction]
pub(crate) fn check<'py>(py: Python<'py>, session: &Session, path: &str) -> PyResult<Bound<'py, PyAny>> {
    let path = parse(path)?;
    session.call(py, false, async move |cloud: Client| {
        let row = |copy: CheckedCopy| {
            let result = match copy.result {
                CheckResult::Ok => "ok",
                CheckResult::Corrupt => "corrupt",
                CheckResult::Missing => "missing",
                CheckResult::Unreachable => "unreachable",
            };
            (copy.node.map(|node| node.to_string()), result, copy.why)
        };
        Ok(cloud.check(&path, &|_| ()).await?.into_iter().map(row).collect::<Vec<_>>())
    })
}

fn acl_row(status: AclStatus) -> AclRow {
    let from = status.from.map(|path| path.to_string());
    (status.owner.to_string(), status.effective.to_string(), status.own.is_some(), from, status.mine.to_string())
}

fn policy_rows(status: PolicyStatus) -> (PolicyRow, PolicyRow, Vec<String>) {
    let row = |policy: Policy| {
        (
            policy.copies,
            policy.sync_copies,
            policy.sites_wanted,
            policy.sites_forbidden,
            policy.lifetime_seconds,
            policy.colocated,
            policy.quota_bytes,
            policy.quota_files,
            policy.versions_seconds,
        )
    };
    (row(status.own), row(status.effective), status.warnings)
}

/// Parses a job's id given by Python.
fn job_id(text: &str) -> PyResult<JobId> {
    text.parse().map_err(|why| PyValueError::new_err(format!("`{text}` is no id of a job: {why}")))
}
