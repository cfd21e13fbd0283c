//! Dates of headers as modified Julian dates: `2005-08-17T12:00:00.5`, `2005-08-17`, and `17/08/96` of before 2000. It
//! never converts between time scales.

/// The modified Julian date of a date; `None` if the text is none.
pub(super) fn mjd(text: &str) -> Option<f64> {
    let (date, time) = text.trim().trim_end_matches('Z').split_once(['T', ' ']).unwrap_or((text.trim(), ""));
    let day = match date.split('-').collect::<Vec<_>>()[..] {
        [year, month, day] => day_number(year.parse().ok()?, month.parse().ok()?, day.parse().ok()?)?,
        _ => match date.split('/').collect::<Vec<_>>()[..] {
            [day, month, year] => day_number(1900 + year.parse::<i64>().ok()?, month.parse().ok()?, day.parse().ok()?)?,
            _ => return None,
        },
    };
    let mut seconds = 0.0;
    if !time.is_empty() {
        let parts: Vec<f64> = time.split(':').map(str::parse).collect::<Result<_, _>>().ok()?;
        let limits = [24.0, 60.0, 61.0];
        if parts.len() > limits.len() || parts.iter().zip(limits).any(|(part, limit)| !(0.0..limit).contains(part)) {
            return None;
        }
        seconds = parts.iter().zip([3_600.0, 60.0, 1.0]).map(|(part, unit)| part * unit).sum();
    }
    Some(day as f64 + seconds / 86_400.0)
}

/// Days since 1858-11-17 of a date of the Gregorian calendar (Fliegel and Van Flandern 1968).
fn day_number(year: i64, month: i64, day: i64) -> Option<i64> {
    if !(1..=9_999).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let before_march = (month - 14) / 12;
    let julian_day = (1_461 * (year + 4_800 + before_march)) / 4 + (367 * (month - 2 - 12 * before_march)) / 12
        - (3 * ((year + 4_900 + before_march) / 100)) / 4
        + day
        - 32_075;
    Some(julian_day - 2_400_001)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_days_since_1858() {
        for (text, known) in [
            ("2000-01-01", 51_544.0),
            ("2000-01-01T12:00:00", 51_544.5),
            ("2005-08-17T06:00:00.000Z", 53_599.25),
            ("17/08/96", 50_312.0),
            ("1858-11-17", 0.0),
        ] {
            assert_eq!(mjd(text), Some(known), "{text}");
        }
        for text in ["", "2000", "2000-13-01", "2000-01-01T25:00:00", "a-b-c", "1/2", "99999999999999999999-1-1"] {
            assert_eq!(mjd(text), None, "{text}");
        }
    }
}
