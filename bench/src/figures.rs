//! Medians and ratios.

use std::{fs, time::Instant};

/// Seconds that `work` took.
pub(crate) fn timed(work: impl FnOnce() -> Result<(), String>) -> Result<f64, String> {
    let begun = Instant::now();
    work()?;
    Ok(begun.elapsed().as_secs_f64())
}

/// One line about the machine.
pub(crate) fn machine() -> String {
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .unwrap_or("unknown")
        .trim_start_matches([' ', '\t', ':']);
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    format!("{cores} cores of {model}")
}

/// Prints ours beside the reference: medians with least and most, and the median of the pairs' ratios. `amount` is what
/// one round moves or makes, in the unit whose rate is printed.
pub(crate) fn print_pair(ours: (&str, &[f64]), reference: (&str, &[f64]), amount: f64, unit: &str) {
    for (name, seconds) in [ours, reference] {
        print_rate(name, seconds, amount, unit);
    }
    let (least, middle, most) = spread(&ratios(ours.1, reference.1));
    println!(
        "  time ratio, pair by pair           {middle:6.2}   ({least:.2}-{most:.2})  speed {:.0} %",
        100.0 / middle
    );
}

/// Prints one measurement: the median with least and most, and the rate that it is.
pub(crate) fn print_rate(name: &str, seconds: &[f64], amount: f64, unit: &str) {
    let (least, middle, most) = spread(seconds);
    println!("  {name:34} {middle:6.2} s ({least:.2}-{most:.2})  {:7.0} {unit}", amount / middle);
}

/// The ratio of each pair.
pub(crate) fn ratios(above: &[f64], below: &[f64]) -> Vec<f64> {
    above.iter().zip(below).map(|(above, below)| above / below).collect()
}

/// Least, median, most.
pub(crate) fn spread(values: &[f64]) -> (f64, f64, f64) {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    match (values.first(), values.get(values.len() / 2), values.last()) {
        (Some(least), Some(middle), Some(most)) => (*least, *middle, *most),
        _ => (f64::NAN, f64::NAN, f64::NAN),
    }
}
