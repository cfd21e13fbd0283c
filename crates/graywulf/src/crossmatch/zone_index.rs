//! Positions sorted by zone of declination and by right ascension in each, and those of them that lie within a radius of
//! a point. Right ascension may wrap, and a point may be a pole. It never knows what lies at a position.

/// A position with the number of what lies there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Position {
    /// Right ascension in degrees.
    pub(super) ra: f64,
    /// Declination in degrees, from -90 to 90.
    pub(super) dec: f64,
    /// What lies there: a number of the caller's.
    pub(super) row: (u32, u32),
}

/// Positions in their order.
#[derive(Debug)]
pub(super) struct ZoneIndex {
    zone_degrees: f64,
    /// The number of the first zone that has positions here.
    first_zone: u32,
    /// Where each zone begins in the vectors below, and their end.
    starts: Vec<u32>,
    ra: Vec<f64>,
    units: Vec<[f64; 3]>,
    rows: Vec<(u32, u32)>,
    radius_degrees: f64,
    sin_radius: f64,
    /// The square of the longest chord that counts.
    chord_squared: f64,
}

/// Finds positions in an index. It remembers where it was in each zone: who asks in the order of right ascension finds
/// the next place at once.
#[derive(Debug)]
pub(super) struct Finder<'index> {
    index: &'index ZoneIndex,
    places: Vec<u32>,
}

impl ZoneIndex {
    /// An index for a radius in degrees, above 0. Positions without numbers are left out.
    pub(super) fn new(mut positions: Vec<Position>, radius_degrees: f64) -> Self {
        positions.retain(|position| position.ra.is_finite() && (-90.0..=90.0).contains(&position.dec));
        let zone_degrees = (radius_degrees * 1.01).max(ZONE_DEGREES_MIN);
        for position in &mut positions {
            position.ra = wrapped(position.ra);
        }
        let zone = |position: &Position| zone_of(position.dec, zone_degrees);
        positions.sort_by(|one, other| zone(one).cmp(&zone(other)).then(one.ra.total_cmp(&other.ra)));
        let first_zone = positions.first().map_or(0, zone);
        let last_zone = positions.last().map_or(0, zone);
        let mut starts = vec![0; (last_zone - first_zone) as usize + 2];
        for position in &positions {
            starts[(zone(position) - first_zone) as usize + 1] += 1;
        }
        for at in 1..starts.len() {
            starts[at] += starts[at - 1];
        }
        let radius = radius_degrees.to_radians();
        Self {
            zone_degrees,
            first_zone,
            starts,
            ra: positions.iter().map(|position| position.ra).collect(),
            units: positions.iter().map(|position| unit(position.ra, position.dec)).collect(),
            rows: positions.iter().map(|position| position.row).collect(),
            radius_degrees,
            sin_radius: radius.sin(),
            chord_squared: 4.0 * (radius / 2.0).sin().powi(2),
        }
    }

    /// What searches it.
    pub(super) fn finder(&self) -> Finder<'_> {
        Finder { index: self, places: self.starts[..self.starts.len() - 1].to_vec() }
    }

    /// Bytes of memory of a position.
    pub(super) const fn position_bytes() -> usize {
        // While it is built, a position is held twice.
        size_of::<Position>() + size_of::<f64>() * 4 + size_of::<(u32, u32)>()
    }

    /// How far in right ascension a point within the radius may be from a point at this declination. It is the exact half
    /// width of a circle, and all the way round where it has a pole in it.
    fn half_width(&self, dec: f64) -> f64 {
        if dec.abs() + self.radius_degrees >= 90.0 {
            return 180.0;
        }
        let half = (self.sin_radius / dec.to_radians().cos()).asin().to_degrees();
        // A little more than rounding can take away.
        half * (1.0 + 1e-9) + 1e-12
    }
}

impl Finder<'_> {
    /// Calls `found` with each position within the radius, and with the square of its chord.
    pub(super) fn each(&mut self, ra: f64, dec: f64, mut found: impl FnMut((u32, u32), f64)) {
        let index = self.index;
        if !ra.is_finite() || !(-90.0..=90.0).contains(&dec) || index.ra.is_empty() {
            return;
        }
        let ra = wrapped(ra);
        let point = unit(ra, dec);
        let half = index.half_width(dec);
        let zones = (index.starts.len() - 1) as u32;
        let first = zone_of(dec - index.radius_degrees, index.zone_degrees).max(index.first_zone);
        let last = zone_of(dec + index.radius_degrees, index.zone_degrees).min(index.first_zone + zones - 1);
        for zone in first..=last {
            let at = (zone - index.first_zone) as usize;
            if half >= 180.0 {
                self.scan(at, f64::NEG_INFINITY, f64::INFINITY, point, &mut found);
                continue;
            }
            let (from, to) = (ra - half, ra + half);
            self.scan(at, from, to, point, &mut found);
            if from < 0.0 {
                self.scan(at, from + 360.0, f64::INFINITY, point, &mut found);
            }
            if to >= 360.0 {
                self.scan(at, f64::NEG_INFINITY, to - 360.0, point, &mut found);
            }
        }
    }

    /// The positions of a zone from one right ascension to another.
    fn scan(&mut self, zone: usize, from: f64, to: f64, point: [f64; 3], found: &mut impl FnMut((u32, u32), f64)) {
        let index = self.index;
        let (start, end) = (index.starts[zone] as usize, index.starts[zone + 1] as usize);
        let mut at = self.place(zone, start, end, from);
        while at < end && index.ra[at] <= to {
            let other = index.units[at];
            let chord = (0..3).map(|axis| (point[axis] - other[axis]).powi(2)).sum::<f64>();
            if chord <= index.chord_squared {
                found(index.rows[at], chord);
            }
            at += 1;
        }
    }

    /// The first place of a zone whose right ascension is not before `from`.
    fn place(&mut self, zone: usize, start: usize, end: usize, from: f64) -> usize {
        let ra = &self.index.ra;
        let known = self.places[zone] as usize;
        let mut at = if known > start && ra[known - 1] >= from {
            // It went back.
            start + ra[start..known].partition_point(|ra| *ra < from)
        } else {
            known
        };
        let mut step = 1;
        while at < end && ra[at] < from {
            let next = (at + step).min(end);
            if next < end && ra[next] < from {
                at = next;
                step *= 2;
            } else {
                at += ra[at..next].partition_point(|ra| *ra < from);
                break;
            }
        }
        self.places[zone] = at as u32;
        at
    }
}

/// The angle of a chord, in arc seconds.
pub(super) fn separation_arcsec(chord_squared: f64) -> f64 {
    (2.0 * (chord_squared.sqrt() / 2.0).asin()).to_degrees() * 3600.0
}

fn wrapped(ra: f64) -> f64 {
    if (0.0..360.0).contains(&ra) {
        return ra;
    }
    let within = ra.rem_euclid(360.0);
    // A tiny negative number is rounded up to the whole circle.
    if within >= 360.0 { 0.0 } else { within }
}

fn zone_of(dec: f64, zone_degrees: f64) -> u32 {
    ((dec + 90.0) / zone_degrees).floor().max(0.0) as u32
}

fn unit(ra: f64, dec: f64) -> [f64; 3] {
    let ((sin_ra, cos_ra), (sin_dec, cos_dec)) = (ra.to_radians().sin_cos(), dec.to_radians().sin_cos());
    [cos_ra * cos_dec, sin_ra * cos_dec, sin_dec]
}

/// No zone is lower: lower ones hold nothing, and there are too many.
const ZONE_DEGREES_MIN: f64 = 4.0 / 3600.0;

#[cfg(test)]
mod tests {
    use super::*;

    /// The angle between two points by another formula (Vincenty's), which is right at every distance.
    fn angle_degrees(one: (f64, f64), other: (f64, f64)) -> f64 {
        let (dec_1, dec_2) = (one.1.to_radians(), other.1.to_radians());
        let ra = (other.0 - one.0).to_radians();
        let x = dec_2.cos() * ra.sin();
        let y = dec_1.cos() * dec_2.sin() - dec_1.sin() * dec_2.cos() * ra.cos();
        let z = dec_1.sin() * dec_2.sin() + dec_1.cos() * dec_2.cos() * ra.cos();
        x.hypot(y).atan2(z).to_degrees()
    }

    fn pairs(left: &[(f64, f64)], right: &[(f64, f64)], radius: f64) -> Vec<(u32, u32)> {
        let positions = right.iter().zip(0..).map(|(&(ra, dec), at)| Position { ra, dec, row: (0, at) });
        let index = ZoneIndex::new(positions.collect(), radius);
        let (mut finder, mut found) = (index.finder(), Vec::new());
        for (&(ra, dec), at) in left.iter().zip(0..) {
            finder.each(ra, dec, |(_, other), _| found.push((at, other)));
        }
        found.sort_unstable();
        found
    }

    fn brute_force(left: &[(f64, f64)], right: &[(f64, f64)], radius: f64) -> Vec<(u32, u32)> {
        let mut found = Vec::new();
        for (one, at) in left.iter().zip(0..) {
            for (other, to) in right.iter().zip(0..) {
                if angle_degrees(*one, *other) <= radius {
                    found.push((at, to));
                }
            }
        }
        found
    }

    /// Positions around a centre, on a scale of degrees, within the sphere.
    fn around(random: &mut fastrand::Rng, centre: (f64, f64), scale: f64, count: usize) -> Vec<(f64, f64)> {
        let near = |random: &mut fastrand::Rng| (random.f64() - 0.5) * 2.0 * scale;
        let position = |_| {
            let dec = (centre.1 + near(random)).clamp(-90.0, 90.0);
            let stretched = (scale / dec.to_radians().cos().max(1e-3)).min(180.0);
            ((centre.0 + (random.f64() - 0.5) * 2.0 * stretched).rem_euclid(360.0), dec)
        };
        (0..count).map(position).collect()
    }

    #[test]
    fn pairs_are_those_of_brute_force_everywhere_on_the_sky() {
        let mut random = fastrand::Rng::with_seed(7);
        let centres = [(0.0, 0.0), (359.9999, 45.0), (180.0, -60.0), (10.0, 89.99), (200.0, -89.999), (0.0, 90.0)];
        for centre in centres {
            for radius in [0.1 / 3600.0, 1.0 / 3600.0, 10.0 / 3600.0, 1.0 / 60.0, 1.0, 20.0] {
                let left = around(&mut random, centre, radius * 4.0, 120);
                let right = around(&mut random, centre, radius * 4.0, 120);
                let expected = brute_force(&left, &right, radius);
                assert!(!expected.is_empty());
                assert_eq!(pairs(&left, &right, radius), expected, "{centre:?} {radius}");
            }
        }
    }

    #[test]
    fn the_order_of_questions_does_not_matter() {
        let mut random = fastrand::Rng::with_seed(8);
        let mut left = around(&mut random, (0.0, 30.0), 5.0, 500);
        let right = around(&mut random, (0.0, 30.0), 5.0, 500);
        let expected = brute_force(&left, &right, 0.5);
        assert_eq!(pairs(&left, &right, 0.5), expected);
        left.sort_by(|one, other| one.0.total_cmp(&other.0));
        assert_eq!(pairs(&left, &right, 0.5), brute_force(&left, &right, 0.5));
        left.reverse();
        assert_eq!(pairs(&left, &right, 0.5), brute_force(&left, &right, 0.5));
    }

    #[test]
    fn the_half_width_of_a_circle_is_the_papers() {
        // For a radius of a degree (MSR-TR-2006-52, by the identity of its formula).
        let index = ZoneIndex::new(Vec::new(), 1.0);
        for (dec, half) in [
            (0.0, 1.0),
            (30.0, 1.154_720_082_87),
            (45.0, 1.414_285_377_98),
            (60.0, 2.000_304_779_91),
            (85.0, 11.551_222_403_07),
        ] {
            assert!((index.half_width(dec) - half).abs() < 1e-7, "{dec}");
        }
        assert_eq!(index.half_width(89.0), 180.0);
    }

    #[test]
    fn what_is_no_position_has_no_pairs() {
        let odd = [(f64::NAN, 0.0), (0.0, f64::NAN), (0.0, 90.1), (f64::INFINITY, 0.0)];
        assert_eq!(pairs(&odd, &[(0.0, 0.0)], 1.0), []);
        assert_eq!(pairs(&[(0.0, 0.0)], &odd, 1.0), []);
        assert_eq!(pairs(&[(-1e-300, 0.0), (720.0, 0.0)], &[(360.0, 0.0)], 1e-9), [(0, 0), (1, 0)]);
    }

    #[test]
    fn separations_are_exact_at_small_angles() {
        let chord = |arcsec: f64| (2.0 * (arcsec / 3600.0_f64).to_radians().mul_add(0.5, 0.0).sin()).powi(2);
        for arcsec in [1e-3, 0.1, 1.0, 3600.0, 180.0 * 3600.0] {
            assert!((separation_arcsec(chord(arcsec)) / arcsec - 1.0).abs() < 1e-9, "{arcsec}");
        }
    }
}
