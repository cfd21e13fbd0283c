//! What was measured over time, as a row of a table: the newest value, the mean, the most, and a curve. It never knows
//! what was measured.

/// The head of a table of such rows.
pub(super) const CURVE_HEAD: [&str; 5] = ["metric", " now", " mean", " most", "over time"];

/// The row of one metric. Values that are not known are left out of it, and leave a gap in the curve.
pub(super) fn curve_row(name: &str, values: &[Option<u64>], in_unit: impl Fn(u64) -> String) -> Vec<String> {
    let known: Vec<_> = values.iter().flatten().copied().collect();
    let text = |value: Option<u64>| value.map_or_else(|| "-".into(), &in_unit);
    let mean = known.iter().sum::<u64>().checked_div(known.len() as u64);
    let (newest, most) = (values.last().copied().flatten(), known.iter().max().copied());
    vec![name.into(), text(newest), text(mean), text(most), curve(values, CURVE_CHARACTERS)]
}

/// The values as a curve of so many characters at most; several that share a character show the largest.
pub(super) fn curve(values: &[Option<u64>], characters: usize) -> String {
    let most = values.iter().flatten().max().copied().unwrap_or(0).max(1);
    let share = values.len().div_ceil(characters.max(1)).max(1);
    let character = |values: &[Option<u64>]| match values.iter().flatten().max() {
        None => ' ',
        Some(value) => {
            let step = (*value as f64 / most as f64 * (STEPS.len() - 1) as f64).round() as usize;
            STEPS[step.min(STEPS.len() - 1)]
        }
    };
    values.chunks(share).map(character).collect()
}

/// From nothing to the most.
const STEPS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Fits a terminal of 100 columns beside the numbers.
const CURVE_CHARACTERS: usize = 60;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_keeps_its_peaks_and_its_gaps() {
        assert_eq!(curve(&[Some(0), Some(7), None, Some(14)], CURVE_CHARACTERS), "▁▅ █");
        assert_eq!(curve(&[], CURVE_CHARACTERS), "");
        let mut long = vec![Some(0); 1_000];
        long[500] = Some(9);
        let curve = curve(&long, CURVE_CHARACTERS);
        assert!(curve.chars().count() <= CURVE_CHARACTERS);
        assert_eq!(curve.chars().filter(|it| *it == '█').count(), 1);
    }

    #[test]
    fn a_row_has_what_is_known() {
        let row = |values: &[Option<u64>]| curve_row("sent", values, |value| format!("{value} B"));
        assert_eq!(row(&[Some(1), Some(5), None, Some(3)]), ["sent", "3 B", "3 B", "5 B", "▂█ ▅"]);
        assert_eq!(row(&[Some(1), None])[..4], ["sent", "-", "1 B", "1 B"]);
        assert_eq!(row(&[None]), ["sent", "-", "-", "-", " "]);
    }
}
