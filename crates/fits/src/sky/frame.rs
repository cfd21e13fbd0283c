//! From ICRS to the frame of an image and back: FK5 and FK4 of an equinox, galactic and ecliptic coordinates. The
//! figures are those of astropy (`coordinates/builtin_frames`), so that positions agree with it. It never moves a star:
//! proper motions are no matter of frames.

use super::position::{SkyPosition, dot, length};
use crate::ImageError;

/// The frame of an image's coordinates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SkyFrame {
    /// Turns an ICRS vector into the frame's.
    turn: Matrix,
    /// The E-terms of aberration, which positions in FK4 contain.
    e_terms: Option<[f64; 3]>,
}

impl SkyFrame {
    /// ICRS itself.
    pub const ICRS: Self = Self { turn: IDENTITY, e_terms: None };

    /// FK5, with the mean equator and equinox of a year.
    pub fn fk5(equinox: f64) -> Self {
        Self { turn: product(precession(equinox), icrs_to_fk5()), e_terms: None }
    }

    /// FK4 of 1950, as positions in old catalogues are, or without its E-terms.
    ///
    /// # Errors
    /// `NoSky` for another equinox than 1950.
    pub fn fk4(equinox: f64, with_e_terms: bool) -> Result<Self, ImageError> {
        if (equinox - 1950.0).abs() > 0.1 {
            return Err(ImageError::NoSky(format!("FK4 of {equinox} is not known, only that of 1950")));
        }
        let turn = product(transpose(B1950_TO_J2000), icrs_to_fk5());
        Ok(Self { turn, e_terms: with_e_terms.then_some(E_TERMS_1950) })
    }

    /// Galactic coordinates.
    pub fn galactic() -> Self {
        let (pole_ra, pole_dec, longitude_of_pole) = GALACTIC_POLE_FK5;
        let turn = product(about(Z, 180.0 - longitude_of_pole), product(about(Y, 90.0 - pole_dec), about(Z, pole_ra)));
        Self { turn: product(turn, icrs_to_fk5()), e_terms: None }
    }

    /// Coordinates along the mean ecliptic of J2000.
    pub fn ecliptic() -> Self {
        Self { turn: product(about(X, OBLIQUITY_DEGREES), icrs_to_mean_equator()), e_terms: None }
    }

    /// Longitude and latitude in the frame, in degrees.
    pub fn from_icrs(&self, position: SkyPosition) -> (f64, f64) {
        let mut vector = apply(&self.turn, position.vector());
        if let Some(e_terms) = self.e_terms {
            // The length that the vector lost depends on the position that is sought; two rounds are exact.
            let plain = vector;
            for _ in 0..2 {
                let along = dot(vector, e_terms) / length(vector);
                let lost = (1.0 - along * along + dot(e_terms, e_terms)).sqrt();
                vector = std::array::from_fn(|axis| plain[axis] * lost + e_terms[axis]);
            }
        }
        let found = SkyPosition::from_vector(vector);
        (found.ra_degrees, found.dec_degrees)
    }

    /// The position of a longitude and latitude in the frame.
    pub fn to_icrs(&self, longitude_degrees: f64, latitude_degrees: f64) -> SkyPosition {
        let mut vector = SkyPosition { ra_degrees: longitude_degrees, dec_degrees: latitude_degrees }.vector();
        if let Some(e_terms) = self.e_terms {
            let along = dot(vector, e_terms);
            vector = std::array::from_fn(|axis| vector[axis] - e_terms[axis] + along * vector[axis]);
        }
        SkyPosition::from_vector(apply(&transpose(self.turn), vector))
    }
}

type Matrix = [[f64; 3]; 3];

const IDENTITY: Matrix = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];
const X: usize = 0;
const Y: usize = 1;
const Z: usize = 2;

/// Turns the axes about one of them.
fn about(axis: usize, degrees: f64) -> Matrix {
    let (sin, cos) = degrees.to_radians().sin_cos();
    let (next, last) = ((axis + 1) % 3, (axis + 2) % 3);
    let mut matrix = IDENTITY;
    (matrix[next][next], matrix[next][last]) = (cos, sin);
    (matrix[last][next], matrix[last][last]) = (-sin, cos);
    matrix
}

fn product(one: Matrix, other: Matrix) -> Matrix {
    std::array::from_fn(|row| {
        std::array::from_fn(|column| (0..3).map(|inner| one[row][inner] * other[inner][column]).sum())
    })
}

fn transpose(matrix: Matrix) -> Matrix {
    std::array::from_fn(|row| std::array::from_fn(|column| matrix[column][row]))
}

fn apply(matrix: &Matrix, vector: [f64; 3]) -> [f64; 3] {
    matrix.map(|row| dot(row, vector))
}

/// The small turn between ICRS and the mean equator and equinox of J2000 (IAU 2006).
fn icrs_to_mean_equator() -> Matrix {
    product(
        about(X, 6.819_2 * MILLIARCSECONDS),
        product(about(Y, -16.617 * MILLIARCSECONDS), about(Z, -14.6 * MILLIARCSECONDS)),
    )
}

/// The small turn between ICRS and FK5 of J2000, which is not quite that equator (USNO circular 179, 3.5).
fn icrs_to_fk5() -> Matrix {
    product(
        about(X, 19.9 * MILLIARCSECONDS),
        product(about(Y, 9.1 * MILLIARCSECONDS), about(Z, -22.9 * MILLIARCSECONDS)),
    )
}

/// Precession from J2000 to a year (Capitaine and others 2003).
fn precession(equinox: f64) -> Matrix {
    let centuries = (equinox - 2000.0) / 100.0;
    let degrees = |terms: [f64; 6]| terms.iter().fold(0.0, |sum, term| sum * centuries + term) / 3_600.0;
    let zeta = degrees([-0.000_000_317_3, -0.000_005_971, 0.018_018_28, 0.298_849_9, 2_306.083_227, 2.650_545]);
    let z = degrees([-0.000_000_290_4, -0.000_028_596, 0.018_268_37, 1.092_734_8, 2_306.077_181, -2.650_545]);
    let theta = degrees([-0.000_000_127_4, -0.000_007_089, -0.041_822_64, -0.429_493_4, 2_004.191_903, 0.0]);
    product(about(Z, -z), product(about(Y, theta), about(Z, -zeta)))
}

/// A milliarcsecond in degrees.
const MILLIARCSECONDS: f64 = 1.0 / 3_600_000.0;
/// From the mean equator of B1950 to that of J2000, at the epoch B1950 (Murray 1989).
const B1950_TO_J2000: Matrix = [
    [0.999_925_679_495_693_2, -0.011_181_483_218_047_92, -0.004_859_003_819_783_245],
    [0.011_181_483_236_753_272, 0.999_937_484_893_340_6, -2.716_259_476_366_011_8e-5],
    [0.004_859_003_776_738_687, -2.717_029_373_225_964_5e-5, 0.999_988_194_602_352_7],
];
/// The E-terms of aberration at B1950.
const E_TERMS_1950: [f64; 3] = [-1.625_574_151_689_434_7e-6, -3.191_905_371_563_791e-7, -1.384_290_671_929_659e-7];
/// The galactic pole in FK5 of J2000, and the galactic longitude of the celestial pole, in degrees.
const GALACTIC_POLE_FK5: (f64, f64, f64) = (192.859_481_206_534_8, 27.128_251_180_856_22, 122.931_918_568_017_6);
/// The inclination of the ecliptic at J2000 (IAU 2006).
const OBLIQUITY_DEGREES: f64 = 84_381.406 / 3_600.0;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Longitudes and latitudes of (202.47, 47.2) and (10, -80) as astropy 8.0.2 gives them.
    fn check(frame: SkyFrame, known: [(f64, f64); 2], tolerance_degrees: f64) {
        for (place, known) in [(202.47, 47.2), (10.0, -80.0)].into_iter().zip(known) {
            let position = SkyPosition { ra_degrees: place.0, dec_degrees: place.1 };
            let (longitude, latitude) = frame.from_icrs(position);
            let found = SkyPosition { ra_degrees: longitude, dec_degrees: latitude };
            let known = SkyPosition { ra_degrees: known.0, dec_degrees: known.1 };
            let off = found.separation_degrees(known);
            assert!(off < tolerance_degrees, "{found} is {off} degrees off {known}");
            let back = frame.to_icrs(longitude, latitude).separation_degrees(position);
            assert!(back < 1e-7, "{back}");
        }
    }

    #[test]
    fn frames_agree_with_astropy() {
        let fk5 = [(202.469_999_801_546_63, 47.199_999_776_846_69), (9.999_972_998_425_312, -79.999_998_470_512_34)];
        check(SkyFrame::fk5(2000.0), fk5, 1e-10);
        let fk5 = [(202.206_994_533_705_2, 47.328_741_026_154_36), (9.816_502_488_467_544, -80.137_109_499_39)];
        check(SkyFrame::fk5(1975.0), fk5, 1e-10);
        let galactic =
            [(104.856_135_218_129_68, 68.556_252_083_586_39), (303.554_356_717_828_57, -37.114_425_314_769_26)];
        check(SkyFrame::galactic(), galactic, 1e-10);
        let fk4 = [(201.943_449_834_357_4, 47.457_681_266_009_97), (9.632_297_006_060_886, -80.274_424_057_782_37)];
        check(SkyFrame::fk4(1950.0, true).unwrap(), fk4, 1e-10);
        let plain = [(201.943_476_222_215_3, 47.457_755_314_925_535), (9.632_311_485_816_421, -80.274_329_196_079_79)];
        check(SkyFrame::fk4(1950.0, false).unwrap(), plain, 1e-10);
        let ecliptic = [(175.119_872_655_783, 50.939_382_130_924_72), (295.160_354_999_613, -66.282_242_707_946_47)];
        check(SkyFrame::ecliptic(), ecliptic, 1e-10);
        assert_eq!(SkyFrame::fk4(1975.0, true).unwrap_err().class(), "no-sky");
    }
}
