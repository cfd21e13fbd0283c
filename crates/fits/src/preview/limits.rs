//! Which values are black and white. The usual choice is IRAF's zscale, as astropy's `ZScaleInterval` computes it. It
//! never fails: an image without a defined value is black.

use std::str::FromStr;

/// Which values are black and white.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Limits {
    /// Around the median, by the slope of the sorted values.
    #[default]
    Zscale,
    /// The least and the greatest value.
    Extremes,
    /// These.
    Values(f64, f64),
}

impl Limits {
    pub(super) fn of(self, values: &[f32]) -> (f64, f64) {
        match self {
            Self::Zscale => zscale(values),
            Self::Extremes => {
                let finite = values.iter().filter(|value| value.is_finite()).map(|value| f64::from(*value));
                let (low, high) =
                    finite.fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(value), high.max(value)));
                if low <= high { (low, high) } else { (0.0, 1.0) }
            }
            Self::Values(low, high) => (low, high),
        }
    }
}

impl FromStr for Limits {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` are no limits: write zscale, extremes, or LOW:HIGH");
        match text {
            "zscale" => Ok(Self::Zscale),
            "extremes" => Ok(Self::Extremes),
            _ => {
                let (low, high) = text.split_once(':').ok_or_else(wrong)?;
                let number =
                    |text: &str| text.parse::<f64>().ok().filter(|number| number.is_finite()).ok_or_else(wrong);
                let (low, high) = (number(low)?, number(high)?);
                if low < high { Ok(Self::Values(low, high)) } else { Err(wrong()) }
            }
        }
    }
}

/// Limits that show most of an image well, as IRAF's `display` has them. A line is fitted to a thousand sorted values,
/// without those far off it. Its slope around the median says how wide the limits are.
pub fn zscale(values: &[f32]) -> (f64, f64) {
    let finite: Vec<f64> = values.iter().filter(|value| value.is_finite()).map(|value| f64::from(*value)).collect();
    let stride = (finite.len() / SAMPLES).max(1);
    let mut samples: Vec<f64> = finite.into_iter().step_by(stride).take(SAMPLES).collect();
    samples.sort_by(f64::total_cmp);
    let (Some(&least), Some(&greatest)) = (samples.first(), samples.last()) else { return (0.0, 1.0) };
    let count = samples.len();
    let good_min = GOOD_MIN.max(count / 2);
    let (mut bad, mut good, mut good_before) = (vec![false; count], count, count + 1);
    let mut slope = 0.0;
    for _ in 0..ROUNDS_MAX {
        if good >= good_before || good < good_min {
            break;
        }
        let line = Line::fit(&samples, &bad);
        slope = line.slope;
        let off: Vec<f64> = (0_u32..).zip(&samples).map(|(at, value)| value - line.at(f64::from(at))).collect();
        let threshold =
            REJECTED_DEVIATIONS * deviation(off.iter().zip(&bad).filter(|(_, bad)| !**bad).map(|(off, _)| *off));
        for (bad, off) in bad.iter_mut().zip(&off) {
            *bad |= off.abs() > threshold;
        }
        bad = grown(&bad, (count / 100).max(1));
        (good_before, good) = (good, bad.iter().filter(|bad| !**bad).count());
    }
    if good < good_min {
        return (least, greatest);
    }
    let slope = slope / CONTRAST;
    let centre = (count - 1) / 2;
    let median = if count.is_multiple_of(2) {
        f64::midpoint(samples[count / 2 - 1], samples[count / 2])
    } else {
        samples[count / 2]
    };
    let low = median - (centre as f64 - 1.0) * slope;
    let high = median + (count - centre) as f64 * slope;
    (least.max(low), greatest.min(high))
}

/// A line through the good values by least squares.
struct Line {
    slope: f64,
    offset: f64,
}

impl Line {
    fn fit(samples: &[f64], bad: &[bool]) -> Self {
        let good = || {
            (0_u32..).zip(samples).zip(bad).filter(|(_, bad)| !**bad).map(|((at, value), _)| (f64::from(at), *value))
        };
        let count = good().count().max(1) as f64;
        let (mean_at, mean) =
            good().fold((0.0, 0.0), |(at, value), good| (at + good.0 / count, value + good.1 / count));
        let (products, squares) = good().fold((0.0, 0.0), |(products, squares), (at, value)| {
            (products + (at - mean_at) * (value - mean), squares + (at - mean_at).powi(2))
        });
        let slope = if squares > 0.0 { products / squares } else { 0.0 };
        Self { slope, offset: mean - slope * mean_at }
    }

    fn at(&self, at: f64) -> f64 {
        self.offset + self.slope * at
    }
}

fn deviation(values: impl Iterator<Item = f64> + Clone) -> f64 {
    let count = values.clone().count().max(1) as f64;
    let mean = values.clone().sum::<f64>() / count;
    (values.map(|value| (value - mean).powi(2)).sum::<f64>() / count).sqrt()
}

/// Neighbours of bad values are bad too: as many as a window of this width reaches.
fn grown(bad: &[bool], width: usize) -> Vec<bool> {
    let after = (width - 1) / 2;
    let near = |at: usize| {
        let (from, to) = ((at + after).saturating_sub(width - 1), (at + after + 1).min(bad.len()));
        bad[from.min(to)..to].contains(&true)
    };
    (0..bad.len()).map(near).collect()
}

/// Values that are looked at.
const SAMPLES: usize = 1_000;
/// The slope is made steeper by this, so that the limits are wider.
const CONTRAST: f64 = 0.25;
/// Values this many standard deviations off the line do not count.
const REJECTED_DEVIATIONS: f64 = 2.5;
/// With fewer good values, or fewer than half of all, the line says nothing.
const GOOD_MIN: usize = 5;
/// How often the line is fitted at most.
const ROUNDS_MAX: u32 = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zscale_shows_the_sky_and_not_the_star() {
        // As astropy 8.0.2: ZScaleInterval().get_limits(…) of the same values.
        let mut values: Vec<f32> = (0..2_000_u32).map(|at| 100.0 + (at * 7 % 13) as f32).collect();
        values.extend([50_000.0; 20]);
        let (low, high) = zscale(&values);
        assert!((low - 100.0).abs() < 1e-6 && (high - 112.0).abs() < 1e-6, "{low} to {high}");
    }

    #[test]
    fn few_equal_or_undefined_values_have_limits_too() {
        assert_eq!(zscale(&[]), (0.0, 1.0));
        assert_eq!(zscale(&[f32::NAN]), (0.0, 1.0));
        assert_eq!(zscale(&[3.0, 5.0]), (3.0, 5.0));
        assert_eq!(zscale(&[7.0; 400]), (7.0, 7.0));
        assert_eq!(Limits::Extremes.of(&[f32::NAN, 2.0, -1.0]), (-1.0, 2.0));
        for text in ["", "1", "2:1", "a:b", "nan:1"] {
            assert!(text.parse::<Limits>().is_err(), "{text}");
        }
    }
}
