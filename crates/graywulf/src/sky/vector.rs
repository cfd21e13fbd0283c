//! Vectors in space, whose products keep their digits where directions are nearly the same. It never knows a coordinate of
//! the sky.

use std::ops::{Add, Mul, Neg, Sub};

/// A vector of any length.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Vector {
    /// Towards right ascension 0 on the equator.
    pub(super) x: f64,
    /// Towards right ascension 90 on the equator.
    pub(super) y: f64,
    /// Towards the north pole.
    pub(super) z: f64,
}

impl Vector {
    pub(super) fn dot(self, other: Self) -> f64 {
        self.x * other.x + self.y * other.y + self.z * other.z
    }

    pub(super) fn cross(self, other: Self) -> Self {
        Self {
            x: self.y * other.z - self.z * other.y,
            y: self.z * other.x - self.x * other.z,
            z: self.x * other.y - self.y * other.x,
        }
    }

    pub(super) fn length(self) -> f64 {
        self.dot(self).sqrt()
    }

    /// The vector of length 1, or `None` for zero. Short ones are no rounding: tiny edges cross in such.
    pub(super) fn unit(self) -> Option<Self> {
        let length = self.length();
        (length > 0.0).then(|| self * (1.0 / length))
    }

    /// The cross product of two unit vectors. It keeps its digits where they are nearly the same or antipodes.
    pub(super) fn unit_cross(self, other: Self) -> Self {
        (self + other).cross(other - self) * 0.5
    }

    /// The angle between two unit vectors, in radians.
    pub(super) fn angle(self, other: Self) -> f64 {
        self.unit_cross(other).length().atan2(self.dot(other))
    }
}

impl Add for Vector {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self { x: self.x + other.x, y: self.y + other.y, z: self.z + other.z }
    }
}

impl Sub for Vector {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self { x: self.x - other.x, y: self.y - other.y, z: self.z - other.z }
    }
}

impl Mul<f64> for Vector {
    type Output = Self;
    fn mul(self, by: f64) -> Self {
        Self { x: self.x * by, y: self.y * by, z: self.z * by }
    }
}

impl Neg for Vector {
    type Output = Self;
    fn neg(self) -> Self {
        self * -1.0
    }
}
