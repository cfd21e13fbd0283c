//! Planes of a cube: which of them have a wavelength or a polarisation (FITS papers I and III). Only axes along which the
//! world coordinate follows from one pixel coordinate are understood. It never resamples.

use crate::{ImageError, Keywords};

/// An axis of an image that is not on the sky, and the range of its pixels that is meant, from 1.
pub type Planes = (usize, (u64, u64));

/// The planes of an image with wavelengths from `low` to `high`, in metres in a vacuum. `None` if the image has no such
/// axis.
///
/// # Errors
/// `NoOverlap` if no plane has any of it; `Usage` if the axis is of a kind that is not understood.
pub fn spectral_planes(
    keywords: &Keywords<'_>,
    shape: &[u64],
    (low, high): (f64, f64),
) -> Result<Option<Planes>, ImageError> {
    let Some((axis, kind)) = find_axis(keywords, shape, |kind| SPECTRAL.iter().any(|known| kind.starts_with(known)))
    else {
        return Ok(None);
    };
    let linear = LinearAxis::of(keywords, axis)?;
    let unit = keywords.text(&format!("CUNIT{}", axis + 1)).unwrap_or_default();
    let spectral = SpectralKind::of(&kind, unit, keywords)?;
    let edge = |pixel: u64, side: f64| spectral.wavelength_metres(linear.at(pixel as f64 + side));
    let meets = |pixel: &u64| {
        let (one, other) = (edge(*pixel, -0.5), edge(*pixel, 0.5));
        one.min(other) <= high && one.max(other) >= low
    };
    let asked = || format!("the wavelengths from {low} to {high} m");
    range_of(shape[axis], meets).map(|range| Some((axis, range))).ok_or_else(|| ImageError::NoOverlap(asked()))
}

/// The planes of an image with these polarisations (`I`, `Q`, … as SODA has them), and those between. `None` if the image
/// has no such axis.
///
/// # Errors
/// `NoOverlap` if it has none of them; `Usage` for a name that is none.
pub fn polarisation_planes(
    keywords: &Keywords<'_>,
    shape: &[u64],
    wanted: &[&str],
) -> Result<Option<Planes>, ImageError> {
    let codes: Result<Vec<i64>, _> = wanted
        .iter()
        .map(|name| {
            let known = POLARISATIONS.iter().find(|(_, known)| known.eq_ignore_ascii_case(name));
            known.map(|(code, _)| *code).ok_or_else(|| ImageError::Usage(format!("`{name}` is no polarisation")))
        })
        .collect();
    let codes = codes?;
    let Some((axis, _)) = find_axis(keywords, shape, |kind| kind == "STOKES") else { return Ok(None) };
    let linear = LinearAxis::of(keywords, axis)?;
    let meets = |pixel: &u64| codes.contains(&(linear.at(*pixel as f64).round() as i64));
    let asked = || format!("the polarisations {}", wanted.join(" "));
    range_of(shape[axis], meets).map(|range| Some((axis, range))).ok_or_else(|| ImageError::NoOverlap(asked()))
}

fn range_of(pixels: u64, meets: impl Fn(&u64) -> bool) -> Option<(u64, u64)> {
    // A header may claim any number of planes.
    let pixels = pixels.min(PLANES_MAX);
    Some(((1..=pixels).find(&meets)?, (1..=pixels).rev().find(&meets)?))
}

fn find_axis(keywords: &Keywords<'_>, shape: &[u64], is_meant: impl Fn(&str) -> bool) -> Option<(usize, String)> {
    (0..shape.len()).find_map(|axis| {
        let kind = keywords.text(&format!("CTYPE{}", axis + 1))?.to_ascii_uppercase();
        is_meant(&kind).then_some((axis, kind))
    })
}

/// World coordinates along one axis.
struct LinearAxis {
    reference_pixel: f64,
    reference_value: f64,
    step: f64,
}

impl LinearAxis {
    fn of(keywords: &Keywords<'_>, axis: usize) -> Result<Self, ImageError> {
        let number = axis + 1;
        let real = |name: String| keywords.real(&name);
        let own = format!("{number}_{number}");
        let step = real(format!("CD{own}"))
            .unwrap_or_else(|| real(format!("CDELT{number}")).unwrap_or(1.0) * real(format!("PC{own}")).unwrap_or(1.0));
        if step == 0.0 {
            return Err(ImageError::Usage(format!("axis {number} of the image has no step")));
        }
        Ok(Self {
            reference_pixel: real(format!("CRPIX{number}")).unwrap_or(0.0),
            reference_value: real(format!("CRVAL{number}")).unwrap_or(0.0),
            step,
        })
    }

    fn at(&self, pixel: f64) -> f64 {
        self.reference_value + (pixel - self.reference_pixel) * self.step
    }
}

/// What a spectral axis measures, with the factor to SI units.
enum SpectralKind {
    Wavelength(f64),
    AirWavelength(f64),
    Frequency(f64),
    WaveNumber(f64),
    Energy(f64),
    /// The radio velocity, and the frequency at rest.
    RadioVelocity(f64, f64),
    /// The optical velocity, and the wavelength at rest.
    OpticalVelocity(f64, f64),
    /// The apparent radial velocity, and the wavelength at rest.
    Velocity(f64, f64),
    /// The redshift, and the wavelength at rest.
    Redshift(f64),
}

impl SpectralKind {
    fn of(kind: &str, unit: &str, keywords: &Keywords<'_>) -> Result<Self, ImageError> {
        let unknown = || ImageError::Usage(format!("the spectral axis `{kind}` in `{unit}` is not understood"));
        let (name, algorithm) = kind.split_at_checked(4).ok_or_else(unknown)?;
        // Another algorithm than the name's own is no straight line.
        let is_linear = algorithm.is_empty() || !algorithm.get(1..).is_some_and(|code| code.contains('2'));
        if !is_linear || algorithm.ends_with("-LOG") || algorithm.ends_with("-TAB") {
            return Err(unknown());
        }
        let scale = |default: &str| scale_of(if unit.is_empty() { default } else { unit }).ok_or_else(unknown);
        let rest_frequency = || keywords.real("RESTFRQ").or_else(|| keywords.real("RESTFREQ"));
        let rest_wavelength = || {
            let of_frequency = || rest_frequency().map(|frequency| LIGHT / frequency);
            keywords.real("RESTWAV").or_else(of_frequency).filter(|rest| *rest > 0.0).ok_or_else(unknown)
        };
        Ok(match name {
            "WAVE" => Self::Wavelength(scale("m")?),
            "AWAV" => Self::AirWavelength(scale("m")?),
            "FREQ" => Self::Frequency(scale("Hz")?),
            "WAVN" => Self::WaveNumber(scale("/m")?),
            "ENER" => Self::Energy(scale("J")?),
            "VRAD" => {
                let rest = rest_frequency().or_else(|| rest_wavelength().ok().map(|rest| LIGHT / rest));
                Self::RadioVelocity(scale("m/s")?, rest.filter(|rest| *rest > 0.0).ok_or_else(unknown)?)
            }
            "VOPT" => Self::OpticalVelocity(scale("m/s")?, rest_wavelength()?),
            "VELO" => Self::Velocity(scale("m/s")?, rest_wavelength()?),
            "ZOPT" => Self::Redshift(rest_wavelength()?),
            _ => return Err(unknown()),
        })
    }

    fn wavelength_metres(&self, value: f64) -> f64 {
        match *self {
            Self::Wavelength(scale) => value * scale,
            Self::AirWavelength(scale) => in_vacuum(value * scale),
            Self::Frequency(scale) => LIGHT / (value * scale),
            Self::WaveNumber(scale) => 1.0 / (value * scale),
            Self::Energy(scale) => PLANCK * LIGHT / (value * scale),
            Self::RadioVelocity(scale, rest) => LIGHT / (rest * (1.0 - value * scale / LIGHT)),
            Self::OpticalVelocity(scale, rest) => rest * (1.0 + value * scale / LIGHT),
            Self::Velocity(scale, rest) => {
                let share = value * scale / LIGHT;
                rest * ((1.0 + share) / (1.0 - share)).sqrt()
            }
            Self::Redshift(rest) => rest * (1.0 + value),
        }
    }
}

/// The index of refraction of air (FITS paper III, equation 65).
fn in_vacuum(metres: f64) -> f64 {
    let square = (metres * 1e6).powi(2);
    metres * (1.0 + 1e-6 * (287.6155 + 1.62887 / square + 0.01360 / square.powi(2)))
}

fn scale_of(unit: &str) -> Option<f64> {
    UNITS.iter().find(|(name, _)| *name == unit).map(|(_, scale)| *scale)
}

const SPECTRAL: [&str; 9] = ["WAVE", "AWAV", "FREQ", "WAVN", "ENER", "VRAD", "VOPT", "VELO", "ZOPT"];
/// FITS paper I, table 4, and the names of SODA.
const POLARISATIONS: [(i64, &str); 12] = [
    (1, "I"),
    (2, "Q"),
    (3, "U"),
    (4, "V"),
    (-1, "RR"),
    (-2, "LL"),
    (-3, "RL"),
    (-4, "LR"),
    (-5, "XX"),
    (-6, "YY"),
    (-7, "XY"),
    (-8, "YX"),
];
/// In SI.
const UNITS: [(&str, f64); 20] = [
    ("m", 1.0),
    ("cm", 1e-2),
    ("mm", 1e-3),
    ("um", 1e-6),
    ("nm", 1e-9),
    ("Angstrom", 1e-10),
    ("angstrom", 1e-10),
    ("Hz", 1.0),
    ("kHz", 1e3),
    ("MHz", 1e6),
    ("GHz", 1e9),
    ("THz", 1e12),
    ("/m", 1.0),
    ("1/cm", 1e2),
    ("J", 1.0),
    ("eV", 1.602_176_634e-19),
    ("keV", 1.602_176_634e-16),
    ("MeV", 1.602_176_634e-13),
    ("m/s", 1.0),
    ("km/s", 1e3),
];
/// The speed of light in metres a second.
const LIGHT: f64 = 299_792_458.0;
/// Planck's constant in joule seconds.
const PLANCK: f64 = 6.626_070_15e-34;
/// Planes of an axis that are looked at.
const PLANES_MAX: u64 = 10_000_000;
