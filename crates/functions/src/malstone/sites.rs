//! `malstone_sites`: MalStone's last stage, which adds up what all segments know of some sites and makes CSV of it.
//! Serves `sector oct malstone`. It never has a part of a site alone.

use udf::{FunctionError, Input, Output};

use super::{entities::weeks_by, ids::Ids, partial::read_partials, time::Period};
use crate::batch::Batch;

/// Emits lines `site,marked,visitors,ratio`, or `site,week,marked,visitors,ratio` with a line for each week from a
/// site's first on, to bucket 0, sorted. Parameters `by`, `start`, `days`, and `of` (`visitors` or `events`).
pub(crate) fn malstone_sites(input: &Input<'_>, output: &mut Output<'_>) -> Result<(), FunctionError> {
    let by_week = weeks_by(input, &Period::of(input)?)?;
    let weeks = by_week.unwrap_or(1);
    let columns = match input.required_parameter("of")? {
        "visitors" => "marked,visitors",
        "events" => "flagged,events",
        other => {
            return Err(FunctionError::new(format!(
                "the parameter `of` must be `visitors` or `events`, not `{other}`"
            )));
        }
    };
    let mut sites = Ids::new();
    let mut counts: Vec<(u64, u64)> = Vec::new();
    read_partials(input.bytes(), |site, (week, visitors, marked)| {
        let place = sites.number_of_small(site) as usize * weeks;
        if place == counts.len() {
            counts.resize(place + weeks, (0, 0));
        }
        let sum = &mut counts[place + usize::from(week).min(weeks - 1)];
        *sum = (sum.0 + visitors, sum.1 + marked);
    })?;
    let mut batch = Batch::new(0);
    let week = if by_week.is_some() { "week," } else { "" };
    batch.push(format!("site,{week}{columns},ratio\n").as_bytes(), output)?;
    for site in sites.sorted() {
        let (mut visitors, mut marked) = (0, 0);
        let of_site = &counts[site as usize * weeks..][..weeks];
        for (week, more) in (1..).zip(of_site) {
            (visitors, marked) = (visitors + more.0, marked + more.1);
            if visitors == 0 {
                continue;
            }
            let line = batch.begin(LINE_BYTES_MAX, output)?;
            push_decimal(sites.keys()[site as usize], line);
            if by_week.is_some() {
                line.push(b',');
                push_decimal(week, line);
            }
            line.push(b',');
            push_decimal(marked, line);
            line.push(b',');
            push_decimal(visitors, line);
            line.push(b',');
            push_ratio(marked, visitors, line);
            line.push(b'\n');
        }
    }
    output.progress(input.bytes().len() as u64);
    Ok(batch.finish(output)?)
}

/// Appends a ratio with six decimals, rounded to the nearest.
fn push_ratio(part: u64, whole: u64, line: &mut Vec<u8>) {
    let millionths = ((u128::from(part) * 1_000_000 + u128::from(whole / 2)) / u128::from(whole)) as u64;
    line.extend_from_slice(&[b'0' + (millionths / 1_000_000) as u8, b'.']);
    let mut rest = millionths % 1_000_000;
    let mut digits = [0; 6];
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    line.extend_from_slice(&digits);
}

fn push_decimal(mut number: u64, line: &mut Vec<u8>) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    line.extend_from_slice(&digits[at..]);
}

/// Most bytes of a line: five numbers and what separates them.
const LINE_BYTES_MAX: usize = 96;
