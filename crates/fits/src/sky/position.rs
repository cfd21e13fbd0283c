//! A position on the sky, and how people write it: `202.47,47.2` in degrees, or `13:29:53,+47:11:43` in hours and
//! degrees. It never knows another frame than ICRS.

use std::{fmt, str::FromStr};

use crate::ImageError;

/// A position on the sky in ICRS.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SkyPosition {
    /// Right ascension in degrees, from 0 to 360.
    pub ra_degrees: f64,
    /// Declination in degrees.
    pub dec_degrees: f64,
}

impl SkyPosition {
    /// The position with this right ascension, which may be any number of turns away, and this declination.
    ///
    /// # Errors
    /// `Usage` if the declination is beyond a pole, or one is no number.
    pub fn new(ra_degrees: f64, dec_degrees: f64) -> Result<Self, ImageError> {
        if !ra_degrees.is_finite() || !(-90.0..=90.0).contains(&dec_degrees) {
            let message =
                format!("`{ra_degrees},{dec_degrees}` is no position: declinations go from -90 to 90 degrees");
            return Err(ImageError::Usage(message));
        }
        // A tiny bit below 0 is rounded to a full turn.
        let ra_degrees = ra_degrees.rem_euclid(360.0);
        Ok(Self { ra_degrees: if ra_degrees < 360.0 { ra_degrees } else { 0.0 }, dec_degrees })
    }

    /// The position of a vector, of any length but 0.
    pub fn from_vector([x, y, z]: [f64; 3]) -> Self {
        let ra_degrees = y.atan2(x).to_degrees().rem_euclid(360.0);
        Self { ra_degrees, dec_degrees: z.atan2(x.hypot(y)).to_degrees() }
    }

    /// The unit vector to it.
    pub fn vector(self) -> [f64; 3] {
        let (ra_sin, ra_cos) = self.ra_degrees.to_radians().sin_cos();
        let (dec_sin, dec_cos) = self.dec_degrees.to_radians().sin_cos();
        [dec_cos * ra_cos, dec_cos * ra_sin, dec_sin]
    }

    /// The angle to another position in degrees, exact also where it is tiny or a half turn.
    pub fn separation_degrees(self, other: Self) -> f64 {
        let (one, other) = (self.vector(), other.vector());
        length(cross(one, other)).atan2(dot(one, other)).to_degrees()
    }

    /// The position at this distance in this direction, both in degrees; directions count from north over east.
    #[must_use]
    pub fn offset(self, distance_degrees: f64, direction_degrees: f64) -> Self {
        let (ra_sin, ra_cos) = self.ra_degrees.to_radians().sin_cos();
        let (dec_sin, dec_cos) = self.dec_degrees.to_radians().sin_cos();
        let (distance_sin, distance_cos) = distance_degrees.to_radians().sin_cos();
        let (direction_sin, direction_cos) = direction_degrees.to_radians().sin_cos();
        let east = [-ra_sin, ra_cos, 0.0];
        let north = [-dec_sin * ra_cos, -dec_sin * ra_sin, dec_cos];
        let here = self.vector();
        Self::from_vector(std::array::from_fn(|axis| {
            here[axis] * distance_cos + (north[axis] * direction_cos + east[axis] * direction_sin) * distance_sin
        }))
    }
}

impl FromStr for SkyPosition {
    type Err = ImageError;

    /// Right ascension and declination, with a comma or a blank between them. Both in degrees, or the first in hours,
    /// minutes and seconds and the second in degrees, minutes and seconds.
    fn from_str(text: &str) -> Result<Self, ImageError> {
        let wrong = || {
            ImageError::Usage(format!(
                "`{text}` is no position: write RA,DEC in degrees like 202.47,47.2, or like 13:29:53,+47:11:43"
            ))
        };
        let parts: Vec<_> = text.split([',', ' ']).filter(|part| !part.is_empty()).collect();
        let [ra, dec] = parts[..] else { return Err(wrong()) };
        let position = match (ra.contains(':'), dec.contains(':')) {
            (false, false) => (ra.parse().ok(), dec.parse().ok()),
            (true, true) => (sexagesimal(ra).map(|hours| hours * 15.0), sexagesimal(dec)),
            _ => return Err(wrong()),
        };
        let (Some(ra), Some(dec)) = position else { return Err(wrong()) };
        Self::new(ra, dec)
    }
}

impl fmt::Display for SkyPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{}", self.ra_degrees, self.dec_degrees)
    }
}

/// `-1:30:00` as -1.5. The sign holds for all of it, also where the first number is 0.
fn sexagesimal(text: &str) -> Option<f64> {
    let (sign, text) = match text.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    let parts: Vec<f64> = text.split(':').map(str::parse).collect::<Result<_, _>>().ok()?;
    let [whole, minutes, ref seconds @ ..] = parts[..] else { return None };
    let seconds = match seconds {
        [] => 0.0,
        [seconds] => *seconds,
        _ => return None,
    };
    let is_sixtieth = |part: f64| (0.0..60.0).contains(&part);
    (whole >= 0.0 && is_sixtieth(minutes) && is_sixtieth(seconds))
        .then_some(sign * (whole + minutes / 60.0 + seconds / 3_600.0))
}

pub(super) fn dot(one: [f64; 3], other: [f64; 3]) -> f64 {
    one[0] * other[0] + one[1] * other[1] + one[2] * other[2]
}

pub(super) fn cross(one: [f64; 3], other: [f64; 3]) -> [f64; 3] {
    std::array::from_fn(|axis| {
        let (next, last) = ((axis + 1) % 3, (axis + 2) % 3);
        one[next] * other[last] - one[last] * other[next]
    })
}

pub(super) fn length(vector: [f64; 3]) -> f64 {
    dot(vector, vector).sqrt()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn at(ra: f64, dec: f64) -> SkyPosition {
        SkyPosition::new(ra, dec).unwrap()
    }

    #[test]
    fn positions_are_read_in_degrees_and_in_hours() {
        assert_eq!("202.5,-47.25".parse::<SkyPosition>().unwrap(), at(202.5, -47.25));
        assert_eq!("13:30:00 -00:15:00".parse::<SkyPosition>().unwrap(), at(202.5, -0.25));
        assert_eq!("-0.5, 1".parse::<SkyPosition>().unwrap(), at(359.5, 1.0));
        assert_eq!("-1e-30,1".parse::<SkyPosition>().unwrap(), at(0.0, 1.0));
        for text in ["", "1", "1,91", "1:2,3", "nan,1", "1:60:00,1:00", "1,2,3", "1:2:3:4,1:2"] {
            assert!(text.parse::<SkyPosition>().is_err(), "{text}");
        }
    }

    #[test]
    fn angles_are_right_from_the_tiniest_to_the_largest() {
        let near = at(10.0, 60.0).separation_degrees(at(10.0 + 2e-9, 60.0));
        assert!((near - 1e-9).abs() < 1e-15, "{near}");
        assert!((at(0.0, 0.0).separation_degrees(at(180.0, 0.0)) - 180.0).abs() < 1e-12);
        assert!((at(0.0, 89.0).separation_degrees(at(180.0, 89.0)) - 2.0).abs() < 1e-12);
        let north = at(77.0, 89.5).offset(1.0, 0.0);
        assert!((north.ra_degrees - 257.0).abs() < 1e-9 && (north.dec_degrees - 89.5).abs() < 1e-9, "{north}");
        let east = at(359.9, 0.0).offset(0.2, 90.0);
        assert!((east.ra_degrees - 0.1).abs() < 1e-12 && east.dec_degrees.abs() < 1e-12, "{east}");
    }
}
