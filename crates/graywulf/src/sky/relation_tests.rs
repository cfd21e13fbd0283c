//! Shapes against known values and against slow ways to the same answer, at every size and turned at random.

use std::f64::consts::{PI, TAU};

use super::{
    super::shape::{Direction, Shape, Vector, Winding},
    contains, intersects,
};

#[test]
fn numbers_become_shapes_and_come_back() {
    let beyond = [vec![f64::NAN, 0.0], vec![f64::INFINITY, 0.0], vec![0.0, 90.1], vec![0.0, -91.0, 0.0, 0.0, 1.0, 1.0]];
    let radii = [-0.1, 180.1, f64::NAN].map(|radius| vec![0.0, 0.0, radius]);
    let antipodes = vec![0.0, 0.0, 180.0, 0.0, 90.0, 1.0];
    let counts = [0, 1, 4, 5, 7].map(|count| vec![1.0; count]);
    for numbers in beyond.into_iter().chain(radii).chain(counts).chain([antipodes]) {
        assert_eq!(Shape::of(&numbers), None, "{numbers:?}");
    }
    let right: [&[f64]; 3] = [&[359.5, -90.0], &[12.5, 90.0, 180.0], &[350.0, 1.0, 10.0, 1.0, 0.0, 20.0]];
    right.into_iter().for_each(|numbers| assert_near(&shape(numbers).numbers(), numbers, 1e-12));
    assert_eq!(Direction::of(-1e-20, 0.0).ra_degrees(), 0.0);
    assert_eq!(shape(&[-10.0, 3.0]), shape(&[350.0, 3.0]));
}

#[test]
fn separations_keep_their_digits() {
    let small = [([0.0, 0.0], [1e-9, 0.0], 1e-9), ([359.0, 0.0], [1.0, 0.0], 2.0), ([9.0, 90.0], [70.0, 90.0], 0.0)];
    let large = [([0.0, 0.0], [180.0, 1e-9], 180.0 - 1e-9), ([30.0, 0.0], [120.0, 0.0], 90.0)];
    for (one, other, degrees) in small.into_iter().chain(large) {
        let separation = Direction::of(one[0], one[1]).separation_degrees(Direction::of(other[0], other[1]));
        assert_near(&[separation], &[degrees], 5e-14);
    }
}

#[test]
fn areas_and_centroids_are_those_known() {
    let sphere = 129_600.0 / PI;
    let second = 1.0 / 3600.0;
    for (numbers, area, [ra, dec]) in [
        ("10 20", 0.0, [10.0, 20.0]),
        ("10 20 90", sphere / 2.0, [10.0, 20.0]),
        ("10 20 180", sphere, [10.0, 20.0]),
        ("10 20 1e-6", PI * 1e-12, [10.0, 20.0]),
        ("0 0 90 0 0 90", sphere / 8.0, [45.0, 0.5_f64.sqrt().atan().to_degrees()]),
        ("0 -90 10 0 0 90 350 0", sphere / 18.0, [0.0, 0.0]),
        ("0 0 120 0 240 0", sphere / 2.0, [0.0, 90.0]),
        ("0 0 240 0 120 0", sphere / 2.0, [0.0, -90.0]),
        ("5 5 5 5 5 5", 0.0, [5.0, 5.0]),
        ("0 0 10 0 20 0", 0.0, [10.0, 0.0]),
    ] {
        assert_near(&[read(numbers).area_square_degrees()], &[area], area * 1e-9 + 1e-12);
        assert!(read(numbers).centroid().separation_degrees(Direction::of(ra, dec)) < 1e-11, "{numbers}");
    }
    // A tiny square, and an L of three, whose middle is not that of its corners.
    let side = second / 10.0;
    let square = Shape::boxed(123.4, 60.0, side * 2.0, side).unwrap();
    assert_near(&[square.area_square_degrees() / side.powi(2)], &[1.0], 1e-8);
    assert!(square.centroid().separation_degrees(Direction::of(123.4, 60.0)) < 1e-11);
    let corners = [[0.0, 0.0], [2.0, 0.0], [2.0, 1.0], [1.0, 1.0], [1.0, 2.0], [0.0, 2.0]];
    for side in [second / 10.0, 1e-3, 0.01] {
        let bent = shape(&corners.concat().iter().map(|at| at * side).collect::<Vec<_>>());
        assert_near(&[bent.area_square_degrees() / side.powi(2) / 3.0], &[1.0], 1e-7);
        let centroid = bent.centroid();
        assert_near(&[centroid.ra_degrees() / side, centroid.dec_degrees() / side], &[5.0 / 6.0; 2], 1e-6);
    }
}

#[test]
fn boxes_have_their_corners() {
    let numbers = |ra, dec, width, height| Shape::boxed(ra, dec, width, height).unwrap().numbers();
    assert_near(&numbers(0.0, 10.0, 4.0, 2.0), &[358.0, 9.0, 2.0, 9.0, 2.0, 11.0, 358.0, 11.0], 1e-12);
    assert_near(&numbers(50.0, 89.0, 90.0, 4.0)[5..], &[90.0, 5.0, 90.0], 1e-12);
    let lune = Shape::boxed(90.0, 0.0, 90.0, 180.0).unwrap();
    assert_near(&[lune.area_square_degrees()], &[32_400.0 / PI], 1e-9);
    assert!(contains(&lune, &shape(&[134.9, 89.0])) && !contains(&lune, &shape(&[135.1, 0.0])));
    assert_eq!(Shape::boxed(0.0, 0.0, 1.0, 0.0).unwrap().area_square_degrees(), 0.0);
    for (dec, width, height) in [(0.0, 180.0, 1.0), (0.0, -1.0, 1.0), (0.0, 1.0, -1.0), (91.0, 1.0, 1.0)] {
        assert_eq!(Shape::boxed(0.0, dec, width, height), None);
    }
    assert_eq!(Shape::boxed(f64::NAN, 0.0, 1.0, 1.0), None);
}

#[test]
fn relations_are_those_known() {
    let mut random = Random(5);
    let square = "355 -5 5 -5 5 5 355 5";
    // The square with a notch from above down to the middle. The notch itself has its corners on the border.
    let (notched, notch) = ("355 -5 5 -5 5 5 0 0 355 5", "355 5 0 0 5 5");
    let (polar, line) = ("0 80 90 80 180 80 270 80", "0 0 10 0 20 0");
    let ring = (0..36).map(|at| format!("{} -5 ", at * 10)).collect::<String>();
    let [half, other_half] = ["0 0 120 0 240 0", "0 0 240 0 120 0"];
    for (outer, cases) in [
        ("1 2", "within 1 2, within 361 2 0, within 1 2 1 2 1 2, apart 1 2.00000000001, over 1 2 1".into()),
        ("0 0", format!("over {square}")),
        ("0 0 2", "within 0 2, apart 0 2.00000000001, within 1 0 1, over 3 0 1, apart 3.1 0 1".into()),
        ("0 0 170", "over 180 0 20, apart 180 0 9, within 90 0 80, over 90 0 100".into()),
        ("0 0 180", format!("within 90 0 100, within {square}, within {half}, within 180 0")),
        ("0 0 8", format!("within {square}, within {notched}, within {notch}")),
        ("0 0 7", format!("over {square}, over {notch}, over {line}")),
        // The upper edge bulges beyond its ends.
        ("0 -90 140.1", "over 300 50 60 50 0 10".into()),
        ("180 0 176", format!("over {square}, within 0 4.1 1 10 359 10, over 0 3.9 1 10 359 10")),
        ("180 0 172", format!("apart {square}")),
        ("180 -80 170.5", format!("over {polar}")),
        (
            square,
            "within 5 5, within 5 0, within 0 0, apart 5.000000001 0, apart 180 0, within 0 0 4.9, over 0 0 5.1".into(),
        ),
        (square, format!("over 0 0 179, within {square}, within {notched}, within {notch}, over {line}")),
        (square, "over 350 -1 10 -1 10 1 350 1, over 5 -1 7 0 5 1, apart 6 -1 7 0 6 1".into()),
        (notched, format!("over {square}, over {notch}, apart 359 3 1 3 0 1.5, over 355.5 0.5 2 0.5 0 -4")),
        (notched, "apart 0 0.1, within 0 0, within 0 -2 1.9, over 0 -2 2.1, apart 0 2 1".into()),
        ("9 0 9.00002 0 9.00002 0.00002 9 0.00002", "within 9.00002 0.00001, apart 9.000020001 0.00001".into()),
        ("9 0 9.00002 0 9.00002 0.00002 9 0.00002", "within 9.00001 0.00001 0.00001, over 9 0 0.00001".into()),
        // Very near the border, and near the middle of the corners, from where the ways go out.
        (notched, "apart 1e-6 1.00412e-6, within 1e-6 1.00352e-6, apart 0 3e-10, within 0 -3e-10".into()),
        // A side along the border, and over a notch that its middle misses.
        ("350 -5 5 -5 5 0 2 0 1 -2 0 0 350 0", "over 350 0 5 0 5 -5 350 -5".into()),
        (
            "9 0 9.000001 0 9.000001 2e-7 9 2e-7",
            "over 9.0000004 -3e-7 9.0000006 -3e-7 9.0000006 6e-7 9.0000004 6e-7".into(),
        ),
        (polar, "within 33 90, apart 45 80.1, within 0 90 7, over 0 90 9.9, apart 0 -90 169.9".into()),
        (ring.as_str(), format!("within 0 -90, apart 0 0, over {square}, within 0 -90 84")),
        (line, format!("within 15 0, apart 15 1e-9, within 5 0 15 0 5 0, over {square}")),
        (half, format!("within {half}, over {other_half}, within {polar}, within 7 90 90, apart 7 -90 89")),
    ] {
        for case in cases.split(", ") {
            let (answer, inner) = case.split_once(' ').unwrap();
            for frame in [X_Y_Z, random.frame(), random.frame()] {
                let [outer, inner] = [outer, inner].map(|numbers| turned(&read(numbers), frame));
                assert_eq!(contains(&outer, &inner), answer == "within", "{outer:?} {case}");
                assert_eq!(intersects(&outer, &inner), answer != "apart", "{outer:?} {case}");
                assert_eq!(intersects(&inner, &outer), answer != "apart", "{outer:?} {case}");
            }
        }
    }
}

#[test]
fn polygons_agree_with_the_plane() {
    let mut random = Random(7);
    let mut counts = [0_u32; 4];
    for _ in 0..2500 {
        let [one, other] = random.stars();
        let (one_shape, other_shape) = (one.shape(false), other.shape(random.next() < 0.5));
        let is_crossing = one.sides().any(|side| other.sides().any(|own| is_crossing(side, own)));
        let is_held = !is_crossing && other.corners.iter().all(|corner| one.holds(*corner));
        let is_holding = !is_crossing && one.corners.iter().all(|corner| other.holds(*corner));
        let is_meeting = is_crossing || is_held || is_holding;
        let expected = [is_held, is_holding, is_meeting, is_meeting];
        for frame in [X_Y_Z, random.frame()] {
            let (one, other) = (&turned(&one_shape, frame), &turned(&other_shape, frame));
            let answers = [contains(one, other), contains(other, one), intersects(one, other), intersects(other, one)];
            assert_eq!(answers, expected, "{one:?} {other:?}");
        }
        counts.iter_mut().zip(expected).for_each(|(count, is)| *count += u32::from(is));
    }
    assert!(counts.iter().all(|count| (50..2000).contains(count)), "{counts:?}");
}

#[test]
fn circles_and_points_agree_with_samples() {
    let mut random = Random(9);
    let mut counts = [0_u32; 2];
    for _ in 0..1000 {
        let [star, other] = random.stars();
        let at = between([star.middle, other.corners[0]], random.next().powi(2));
        let (shape, centre, is_inside) = (star.shape(random.next() < 0.5), star.at(at), star.holds(at));
        let samples = star.sides().flat_map(|side| (0..150_u8).map(move |at| between(side, f64::from(at) / 150.0)));
        let distances: Vec<f64> = samples.map(|at| centre.separation_degrees(star.at(at))).collect();
        let nearest = distances.iter().copied().fold(180.0, f64::min);
        let furthest = distances.iter().copied().fold(0.0, f64::max);
        if nearest < furthest / 5.0 {
            // Samples are too far apart to tell so small a distance.
            continue;
        }
        counts[usize::from(is_inside)] += 1;
        for (by, is_more) in [(0.98, false), (1.02, true)] {
            let small = Shape::Circle { centre, radius_degrees: nearest * by };
            let large = Shape::Circle { centre, radius_degrees: furthest * by };
            // All but a circle around the centre.
            let rest = Shape::Circle { centre: Direction { unit: -centre.unit }, radius_degrees: 180.0 - nearest / by };
            for frame in [X_Y_Z, random.frame()] {
                let turned = |shape| turned(shape, frame);
                let (shape, small, large, rest) = (turned(&shape), turned(&small), turned(&large), turned(&rest));
                let point = Shape::Point(small.centroid());
                let found = [contains(&shape, &point), contains(&shape, &small), contains(&large, &shape)];
                assert_eq!(found, [is_inside, is_inside && !is_more, is_more], "{shape:?} {point:?}");
                let found = [&point, &small, &large].map(|other| intersects(&shape, other));
                assert_eq!(found, [is_inside, is_inside || is_more, true], "{shape:?} {small:?}");
                assert_eq!(contains(&rest, &shape), !is_inside && is_more, "{rest:?} {shape:?}");
                assert!(!contains(&shape, &large) && intersects(&large, &shape));
            }
        }
    }
    assert!(counts.iter().all(|count| *count > 150), "{counts:?}");
}

#[test]
fn polygons_round_the_sphere_agree_with_coordinates() {
    let mut random = Random(11);
    let mut ways = [0_u32; 2];
    for turn in 0..100 {
        // A band that is open at right ascension 0, or all south of a line near the equator with a high peak.
        let is_band = turn % 2 == 0;
        let columns = if is_band { 20 + turn % 15 } else { 36 };
        let mut lines = [0.0, 12.0].map(|up| (0..columns).map(|_| up - 1.0 - 9.0 * random.next()).collect::<Vec<_>>());
        lines[0][18] = if is_band { -5.0 } else { 75.0 };
        let corners =
            |line: usize| (0_u8..).zip(&lines[line]).map(|(at, dec)| Direction::of(10.0 * f64::from(at), *dec));
        let mut vertices: Vec<Direction> = corners(0).collect();
        vertices.reverse();
        vertices.extend(corners(1).filter(|_| is_band));
        if random.next() < 0.5 {
            vertices.reverse();
        }
        let frame = random.frame();
        let shape = turned(&Shape::Polygon(vertices), frame);
        if let Shape::Polygon(vertices) = &shape {
            ways[usize::from(Winding::of(vertices).is_far_inside())] += 1;
        }
        for _ in 0..100 {
            // Right ascensions of vertices, where the lines are known exactly.
            let (column, dec) = ((random.next() * 36.0).floor(), 60.0 * random.next() - 30.0);
            let [low, high] = [0, 1].map(|line| lines[line].get(column as usize));
            let is_above = low.is_some_and(|low| *low < dec);
            let is_inside = if is_band { is_above && high.is_some_and(|high| dec < *high) } else { !is_above };
            let place = turned(&Shape::Point(Direction::of(10.0 * column, dec)), frame);
            assert_eq!(contains(&shape, &place), is_inside, "{column} {dec} {shape:?}");
        }
    }
    assert!(ways.iter().all(|count| *count > 10), "{ways:?}");
}

/// A polygon in a plane that touches the sphere: its edges are straight there.
struct Star {
    frame: [Vector; 3],
    middle: [f64; 2],
    corners: Vec<[f64; 2]>,
}

impl Star {
    fn at(&self, [x, y]: [f64; 2]) -> Direction {
        let [middle, right, up] = self.frame;
        Direction { unit: (middle + right * x + up * y).unit().unwrap() }
    }

    fn shape(&self, is_reversed: bool) -> Shape {
        let vertices = self.corners.iter().map(|corner| self.at(*corner));
        Shape::Polygon(if is_reversed { vertices.rev().collect() } else { vertices.collect() })
    }

    fn sides(&self) -> impl Iterator<Item = [[f64; 2]; 2]> {
        self.corners.iter().zip(self.corners.iter().cycle().skip(1)).map(|(from, to)| [*from, *to])
    }

    fn holds(&self, [x, y]: [f64; 2]) -> bool {
        let is_left = |[from, to]: &[[f64; 2]; 2]| {
            (from[1] > y) != (to[1] > y) && x < from[0] + (y - from[1]) / (to[1] - from[1]) * (to[0] - from[0])
        };
        self.sides().filter(is_left).count() % 2 == 1
    }
}

fn between([from, to]: [[f64; 2]; 2], part: f64) -> [f64; 2] {
    [0, 1].map(|axis| from[axis] + part * (to[axis] - from[axis]))
}

fn is_crossing(one: [[f64; 2]; 2], other: [[f64; 2]; 2]) -> bool {
    let is_left = |[from, to]: [[f64; 2]; 2], at: [f64; 2]| {
        (to[0] - from[0]) * (at[1] - from[1]) > (to[1] - from[1]) * (at[0] - from[0])
    };
    let parts = |side, [from, to]: [[f64; 2]; 2]| is_left(side, from) != is_left(side, to);
    parts(one, other) && parts(other, one)
}

/// Numbers that repeat.
struct Random(u64);

impl Random {
    /// From 0 to below 1.
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        f64::from((self.0 >> 32) as u32) / 2.0_f64.powi(32)
    }

    /// Three axes at right angles.
    fn frame(&mut self) -> [Vector; 3] {
        let mut vector = || Vector { x: self.next() - 0.5, y: self.next() - 0.5, z: self.next() - 0.5 };
        let first = vector().unit().unwrap();
        let second = first.cross(vector()).unit().unwrap();
        [first, second, first.cross(second)]
    }

    /// Two polygons near each other, mostly not convex, from a tenth of an arc second to 80 degrees.
    fn stars(&mut self) -> [Star; 2] {
        let frame = if self.next() < 0.2 { [X_Y_Z[2], X_Y_Z[0], X_Y_Z[1]] } else { self.frame() };
        let size = 10_f64.powf(-6.6 + 7.0 * self.next());
        [0, 1].map(|_| {
            let (scale, apart) = (size * 0.03_f64.powf(self.next()), size * self.next() * 0.8);
            let (sin, cos) = (self.next() * TAU).sin_cos();
            let middle = [apart * cos, apart * sin];
            let count = 3 + (self.next() * 9.0) as u32;
            let corner = |at: u32| {
                let (y, x) = ((f64::from(at) + 0.4 * self.next()) / f64::from(count) * TAU).sin_cos();
                let reach = scale * (0.2 + 0.8 * self.next());
                [middle[0] + reach * x, middle[1] + reach * y]
            };
            Star { frame, middle, corners: (0..count).map(corner).collect() }
        })
    }
}

const X_Y_Z: [Vector; 3] =
    [Vector { x: 1.0, y: 0.0, z: 0.0 }, Vector { x: 0.0, y: 1.0, z: 0.0 }, Vector { x: 0.0, y: 0.0, z: 1.0 }];

/// The shape with its axes turned to others.
fn turned(shape: &Shape, [x, y, z]: [Vector; 3]) -> Shape {
    let turned = |place: &Direction| {
        let unit = x * place.unit.x + y * place.unit.y + z * place.unit.z;
        Direction { unit: unit.unit().unwrap() }
    };
    match shape {
        Shape::Point(place) => Shape::Point(turned(place)),
        Shape::Circle { centre, radius_degrees } => {
            Shape::Circle { centre: turned(centre), radius_degrees: *radius_degrees }
        }
        Shape::Polygon(vertices) => Shape::Polygon(vertices.iter().map(turned).collect()),
    }
}

fn read(numbers: &str) -> Shape {
    shape(&numbers.split_whitespace().map(|number| number.parse().unwrap()).collect::<Vec<_>>())
}

fn shape(numbers: &[f64]) -> Shape {
    Shape::of(numbers).unwrap_or_else(|| panic!("{numbers:?} are no shape"))
}

#[track_caller]
fn assert_near(found: &[f64], expected: &[f64], within: f64) {
    let is_near = |(one, other): (&f64, &f64)| (one - other).abs() <= within;
    assert!(found.len() == expected.len() && found.iter().zip(expected).all(is_near), "{found:?}, not {expected:?}");
}
