//! The wavelengths of filters that everyone means the same by: SDSS's and DECam's `u` to `Y`, Johnson's, 2MASS's. It
//! never guesses those of another filter.

/// The shortest and the longest wavelength of a filter in metres: where it lets half through.
pub(super) fn passband(filter: &str) -> Option<(f64, f64)> {
    // `r DECam SDSS c0002 6415.0 1480.0` and `r.MP9601` begin with the letter.
    let name = filter.split([' ', '.', '_', '-']).next().unwrap_or(filter);
    let nanometres = match name {
        "u" => (326.0, 384.0),
        "g" => (401.0, 550.0),
        "r" => (562.0, 698.0),
        "i" => (696.0, 844.0),
        "z" => (830.0, 1_000.0),
        "Y" | "y" => (947.0, 1_070.0),
        "U" => (330.0, 396.0),
        "B" => (391.0, 489.0),
        "V" => (505.0, 595.0),
        "R" => (574.0, 729.0),
        "I" => (725.0, 880.0),
        "J" | "j" => (1_144.0, 1_326.0),
        "H" | "h" => (1_536.0, 1_787.0),
        "K" | "Ks" | "k" => (2_028.0, 2_290.0),
        _ => return None,
    };
    Some((nanometres.0 * 1e-9, nanometres.1 * 1e-9))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_is_known_by_its_letter_and_no_other_is() {
        assert_eq!(passband("r DECam SDSS c0002 6415.0 1480.0"), passband("r"));
        assert_eq!((passband("clear"), passband(""), passband("F606W")), (None, None, None));
    }
}
