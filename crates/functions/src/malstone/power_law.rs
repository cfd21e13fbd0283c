//! Draws from a power law of ranks, the same on every machine. The system's `exp` and `ln` may differ in their last
//! digit from machine to machine, so these are made of exact steps alone. Serves `malgen`. It never draws a random
//! number itself.

use std::f64::consts::LN_2;

/// Ranks from 0, of which rank r is drawn in proportion to the integral of `x^-exponent` from r + 1 to r + 2.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PowerLaw {
    ranks: u64,
    /// `1 - exponent`, of which the distribution is a power; 0 where it is a logarithm.
    power: f64,
    /// What the integral over all ranks is, but for a factor.
    whole: f64,
}

impl PowerLaw {
    /// The law over this many ranks; with the exponent 0 all are alike.
    pub(crate) fn new(ranks: u64, exponent: f64) -> Self {
        let end = ranks as f64 + 1.0;
        let power = 1.0 - exponent;
        if power.abs() < LOGARITHM_BELOW {
            return Self { ranks, power: 0.0, whole: ln(end) };
        }
        Self { ranks, power, whole: exp(power * ln(end)) - 1.0 }
    }

    /// The rank for 64 random bits.
    pub(crate) fn rank(&self, random: u64) -> u64 {
        let part = self.whole * unit(random);
        let place = if self.power == 0.0 { exp(part) } else { exp(ln(1.0 + part) / self.power) };
        // A cast of a real to an integer saturates.
        (place as u64).saturating_sub(1).min(self.ranks.saturating_sub(1))
    }
}

/// A number from 0 up to, and without, 1.
pub(crate) fn unit(random: u64) -> f64 {
    (random >> 11) as f64 / (1u64 << 53) as f64
}

/// The natural logarithm of a normal positive number.
fn ln(value: f64) -> f64 {
    let bits = value.to_bits();
    let mut exponent = ((bits >> 52) as i64) - 1023;
    let mut fraction = f64::from_bits((bits & MANTISSA) | (1023 << 52));
    if fraction > std::f64::consts::SQRT_2 {
        fraction /= 2.0;
        exponent += 1;
    }
    let ratio = (fraction - 1.0) / (fraction + 1.0);
    let square = ratio * ratio;
    let series = LN_TERMS.iter().rev().fold(0.0, |sum, term| sum * square + term);
    2.0 * ratio * series + exponent as f64 * LN_2
}

/// The exponential, for arguments whose result is a normal number; beyond that the nearest such.
fn exp(value: f64) -> f64 {
    let doublings = (value / LN_2).round().clamp(-1000.0, 1000.0);
    let rest = value - doublings * LN_2;
    let series = EXP_TERMS.iter().rev().fold(0.0, |sum, term| sum * rest + term);
    series * f64::from_bits(((doublings as i64 + 1023) as u64) << 52)
}

/// The bits of a real that are its fraction.
const MANTISSA: u64 = (1 << 52) - 1;
/// The series of the logarithm, one part in 2n + 1, as far as it changes anything.
const LN_TERMS: [f64; 11] = {
    let (mut terms, mut term) = ([0.0; 11], 0);
    while term < terms.len() {
        terms[term] = 1.0 / (2 * term + 1) as f64;
        term += 1;
    }
    terms
};
/// The series of the exponential, one part in n!, as far as it changes anything.
const EXP_TERMS: [f64; 15] = {
    let (mut terms, mut term) = ([1.0; 15], 1);
    while term < terms.len() {
        terms[term] = terms[term - 1] / term as f64;
        term += 1;
    }
    terms
};
/// Nearer to 1 than this, an exponent counts as 1.
const LOGARITHM_BELOW: f64 = 1e-6;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::malstone::draws::scramble;

    #[test]
    fn logarithm_and_exponential_are_those_of_the_system_but_for_the_last_digits() {
        for value in [1e-9, 0.3, 0.999, 1.0, 1.41, 1.42, 2.0, 10.0, 12_345.678, 1e12] {
            assert!((ln(value) - value.ln()).abs() <= 4e-15 * value.ln().abs().max(1.0), "ln {value}");
        }
        for value in [-30.0, -1.0, -0.1, 0.0, 0.34, 0.35, 1.0, 5.5, 27.7] {
            assert!((exp(value) / value.exp() - 1.0).abs() < 1e-14, "exp {value}");
        }
    }

    /// The slope of the counts of ranks 1, 2, 4, 8, … over their widths, fitted by least squares in logarithms.
    fn slope(ranks: u64, exponent: f64) -> f64 {
        let law = PowerLaw::new(ranks, exponent);
        let octaves = ranks.ilog2() as usize;
        let mut counts = vec![0u32; octaves + 1];
        for number in 0..400_000 {
            counts[(law.rank(scramble(number)) + 1).ilog2() as usize] += 1;
        }
        // The last octave is not full.
        let points: Vec<(f64, f64)> = (0..octaves)
            .map(|octave| (octave as f64, f64::from(counts[octave]).log2() - octave as f64))
            .filter(|(octave, _)| *octave >= 2.0)
            .collect();
        let count = points.len() as f64;
        let (x, y) = points.iter().fold((0.0, 0.0), |sum, point| (sum.0 + point.0 / count, sum.1 + point.1 / count));
        let both: f64 = points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum();
        both / points.iter().map(|point| (point.0 - x).powi(2)).sum::<f64>()
    }

    #[test]
    fn counts_fall_with_the_rank_as_the_exponent_says() {
        for exponent in [0.0, 0.5, 0.8, 1.0, 1.3] {
            let found = slope(10_000, exponent);
            assert!((found + exponent).abs() < 0.03, "{exponent}: {found}");
        }
    }

    #[test]
    fn every_rank_is_within_bounds_at_the_ends_too() {
        for exponent in [0.0, 0.999_999_9, 1.0, 2.0, 5.0] {
            for ranks in [1, 2, 1_000_000_000_000] {
                let law = PowerLaw::new(ranks, exponent);
                assert_eq!(law.rank(0), 0);
                assert!(law.rank(u64::MAX) < ranks, "{exponent} of {ranks}");
            }
        }
        assert_eq!(PowerLaw::new(1_000, 0.0).rank(u64::MAX), 999);
    }
}
