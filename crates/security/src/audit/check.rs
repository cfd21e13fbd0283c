//! Reads the audit record: checks its chain from the first line to the last, and gives out lines. It works on the files
//! alone, even on a copy of them far from the cloud. It never changes a file.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
};

use protocol::message::audit::{
    AuditCheck, AuditFault, AuditHead, AuditPage, AuditQuery, PAGE_BYTES_MAX, PAGE_LINES_MAX,
};

use super::{
    line::{self, Content, unhex},
    log::{BEGIN_FILE, failed, number_of},
};
use crate::SecurityError;

/// The files of the record with the numbers of their first lines, oldest first.
pub(super) fn files_of(folder: &Path) -> Result<Vec<(u64, PathBuf)>, SecurityError> {
    let listed = fs::read_dir(folder).map_err(|source| failed("list", folder, source))?;
    let mut files = Vec::new();
    for item in listed {
        let path = item.map_err(|source| failed("list", folder, source))?.path();
        files.extend(number_of(&path).map(|number| (number, path)));
    }
    files.sort();
    Ok(files)
}

/// Checks the chain of all files of a folder, and that it reaches the heads that are stored elsewhere. Older files may
/// have been taken away; the result then says which line is the first. Nothing after line `until` is checked: it may be
/// on its way to the disk.
///
/// # Errors
/// When a file cannot be read. A fault in the record is not an error but part of the result.
pub fn check_folder(folder: &Path, heads: &[AuditHead], until: u64) -> Result<AuditCheck, SecurityError> {
    let files = files_of(folder)?;
    let mut check = AuditCheck {
        first: files.first().map_or(0, |(number, _)| *number),
        head: AuditHead::EMPTY,
        files: files.len() as u64,
        fault: None,
    };
    let mut at = (String::new(), 0);
    for (number, path) in &files {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        at = (name, 0);
        let is_first = *number == check.first;
        let mut wrong = None;
        if check.head.number >= until {
            break;
        }
        each_line(path, |text| {
            if check.head.number >= until {
                return false;
            }
            at.1 += 1;
            match check_line(text, &mut check.head, heads, at.1 == 1, is_first) {
                Ok(()) => true,
                Err(why) => {
                    wrong = Some(why);
                    false
                }
            }
        })?;
        if wrong.is_none() && at.1 == 0 {
            wrong = Some("the file is empty".into());
        }
        if let Some(why) = wrong {
            check.fault = Some(AuditFault { file: at.0, line: at.1, why });
            return Ok(check);
        }
    }
    if let Some(kept) = heads.iter().filter(|kept| kept.number > check.head.number).max() {
        let why = format!(
            "the record ends with line {}, and line {} was written: what is behind was cut off",
            check.head.number, kept.number
        );
        check.fault = Some(AuditFault { file: at.0, line: at.1, why });
    }
    Ok(check)
}

/// Checks one line and makes it the head.
fn check_line(
    text: &str,
    head: &mut AuditHead,
    heads: &[AuditHead],
    begins_file: bool,
    is_first_file: bool,
) -> Result<(), String> {
    let (content, claimed) = line::open(text)?;
    if begins_file {
        if content.what != BEGIN_FILE {
            return Err("the file does not begin with how the one before ended: lines are missing".into());
        }
        let before = unhex(&content.object).ok_or("it does not say how the file before ended")?;
        if is_first_file {
            *head = AuditHead { number: content.number.saturating_sub(1), hash: before };
        } else if before != head.hash {
            return Err("the file before did not end so: lines were changed or are missing".into());
        }
    }
    if content.number != head.number + 1 {
        return Err(format!("it has the number {} where {} was to come", content.number, head.number + 1));
    }
    if !line::follows(text, *head) {
        return Err("its hash is not that of the line and of those before it: one of them was changed".into());
    }
    if heads.iter().any(|kept| kept.number == claimed.number && kept.hash != claimed.hash) {
        return Err(format!("line {} was another one when it was written", claimed.number));
    }
    *head = claimed;
    Ok(())
}

/// Lines for an administrator, up to line `until`: later lines may be on their way to the disk.
///
/// # Errors
/// When a file cannot be read.
pub fn read_page(folder: &Path, query: &AuditQuery, until: u64) -> Result<AuditPage, SecurityError> {
    let files = files_of(folder)?;
    // Whole files before the one with the next line are skipped.
    let begin = files.iter().rposition(|(number, _)| *number <= query.after + 1).unwrap_or(0);
    let mut page = AuditPage { lines: Vec::new(), last: query.after, more: false };
    let (mut bytes, mut looked_at) = (0, 0);
    for (_, path) in &files[begin.min(files.len())..] {
        each_line(path, |text| {
            // Unreadable lines are found by the check; they are shown all the same.
            let content = line::open(text).ok().map(|(content, _)| content);
            let number = content.as_ref().map_or(page.last + 1, |content| content.number);
            if number <= query.after {
                return true;
            }
            if number > until {
                return false;
            }
            if bytes >= PAGE_BYTES_MAX || looked_at >= PAGE_LINES_MAX {
                page.more = true;
                return false;
            }
            looked_at += 1;
            page.last = number;
            if content.is_none_or(|content| is_wanted(&content, query)) {
                bytes += text.len();
                page.lines.push(text.to_owned());
            }
            true
        })?;
        if page.more {
            break;
        }
    }
    Ok(page)
}

fn is_wanted(content: &Content, query: &AuditQuery) -> bool {
    query.since_unix_millis.is_none_or(|since| content.time_unix_millis >= since)
        && query.user.as_ref().is_none_or(|user| content.who == user.as_str())
}

/// Gives a file's lines to `take` until it returns false.
fn each_line(path: &Path, mut take: impl FnMut(&str) -> bool) -> Result<(), SecurityError> {
    let file = File::open(path).map_err(|source| failed("open", path, source))?;
    let mut reader = BufReader::new(file);
    let mut line = Vec::new();
    loop {
        line.clear();
        // A file without line ends is not ours, and must not fill the memory.
        let read = reader.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line);
        if read.map_err(|source| failed("read", path, source))? == 0 {
            return Ok(());
        }
        if !take(String::from_utf8_lossy(&line).trim_end_matches('\n')) {
            return Ok(());
        }
    }
}

/// Longest line, in bytes: five texts, each of whose bytes may take six as JSON.
const LINE_BYTES_MAX: u64 = 128 * 1024;
