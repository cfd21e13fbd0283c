//! How values between black and white become grey. It never chooses what is black and white.

use std::str::FromStr;

/// How values between the limits become grey.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stretch {
    /// In proportion.
    #[default]
    Linear,
    /// By their square root.
    Sqrt,
    /// By their logarithm: `ln(1 + 1000 t) / ln(1001)`.
    Log,
    /// By the inverse hyperbolic sine, linear in the dark and logarithmic in the light: `asinh(10 t) / asinh(10)`.
    Asinh,
}

impl Stretch {
    /// The grey of a value, from 0 to 255.
    pub(super) fn grey(self, value: f64, low: f64, high: f64) -> u8 {
        let share = if high > low { (value - low) / (high - low) } else { f64::from(u8::from(value > low)) };
        // What is no number is black.
        let share = share.clamp(0.0, 1.0);
        let stretched = match self {
            Self::Linear => share,
            Self::Sqrt => share.sqrt(),
            Self::Log => (LOG_FACTOR * share).ln_1p() / LOG_FACTOR.ln_1p(),
            Self::Asinh => (ASINH_FACTOR * share).asinh() / ASINH_FACTOR.asinh(),
        };
        (stretched * 255.0).round() as u8
    }
}

impl FromStr for Stretch {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "linear" => Ok(Self::Linear),
            "sqrt" => Ok(Self::Sqrt),
            "log" => Ok(Self::Log),
            "asinh" => Ok(Self::Asinh),
            _ => Err(format!("`{text}` is no stretch: choose linear, sqrt, log or asinh")),
        }
    }
}

/// As in SAOImage DS9 and in astropy's `LogStretch`.
const LOG_FACTOR: f64 = 1_000.0;
/// As in astropy's `AsinhStretch`.
const ASINH_FACTOR: f64 = 10.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stretch_goes_from_black_to_white_and_never_down() {
        for stretch in [Stretch::Linear, Stretch::Sqrt, Stretch::Log, Stretch::Asinh] {
            let greys: Vec<u8> = (-1..=101).map(|value| stretch.grey(f64::from(value), 0.0, 100.0)).collect();
            assert!(greys.is_sorted() && greys[..2] == [0, 0] && greys[101..] == [255, 255], "{stretch:?}");
            assert_eq!((stretch.grey(f64::NAN, 0.0, 1.0), stretch.grey(f64::INFINITY, 0.0, 1.0)), (0, 255));
            assert_eq!((stretch.grey(5.0, 5.0, 5.0), stretch.grey(6.0, 5.0, 5.0)), (0, 255), "all are equal");
        }
        assert_eq!(Stretch::Asinh.grey(10.0, 0.0, 100.0), 75);
    }
}
