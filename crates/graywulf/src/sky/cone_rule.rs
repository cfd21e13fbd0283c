//! What need not be read when rows around a place are asked for. A distance below a radius bounds declination and right
//! ascension. By those bounds slices, row groups and pages are left out. It never leaves out a row: the distance stays in
//! the condition.

use datafusion::{
    common::{Result, ScalarValue, tree_node::Transformed},
    logical_expr::{
        BinaryExpr, Expr, Filter, LogicalPlan, Operator, and,
        expr::ScalarFunction,
        lit,
        utils::{conjunction, split_conjunction},
    },
    optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule},
};

use super::{
    functions::{constant, names},
    shape::{Direction, Shape},
};

/// The rule.
#[derive(Debug, Default)]
pub(crate) struct ConeRule;

impl OptimizerRule for ConeRule {
    fn name(&self) -> &'static str {
        "bounds_of_cones"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Filter(filter) = plan else { return Ok(Transformed::no(plan)) };
        let known = split_conjunction(&filter.predicate);
        let bounds = known.iter().filter_map(|condition| Cone::of(condition)).flat_map(|cone| cone.bounds());
        let further: Vec<_> = bounds.filter(|bound| !known.contains(&bound)).collect();
        match conjunction(further) {
            None => Ok(Transformed::no(LogicalPlan::Filter(filter))),
            Some(further) => {
                let predicate = and(filter.predicate, further);
                Ok(Transformed::yes(LogicalPlan::Filter(Filter::try_new(predicate, filter.input)?)))
            }
        }
    }
}

/// That two positions are nearer to each other than a constant.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Distance {
    /// Right ascension and declination of one, in degrees.
    pub(crate) one: [Expr; 2],
    /// The same of the other.
    pub(crate) other: [Expr; 2],
    /// The constant.
    pub(crate) degrees: f64,
}

impl Distance {
    /// What a condition says, if it says that.
    pub(crate) fn of(condition: &Expr) -> Option<Self> {
        let Expr::BinaryExpr(BinaryExpr { left, op, right }) = condition else { return None };
        let (function, limit) = match op {
            Operator::Lt | Operator::LtEq => (left, right),
            Operator::Gt | Operator::GtEq => (right, left),
            _ => return None,
        };
        let [a, b, c, d] = called(function, names::DISTANCE)? else { return None };
        // What is another number each time cannot be asked twice.
        if function.is_volatile() {
            return None;
        }
        let (one, other) = ([a.clone(), b.clone()], [c.clone(), d.clone()]);
        Some(Self { one, other, degrees: number(limit)? })
    }
}

/// A position that lies in a circle.
struct Cone {
    ra: Expr,
    dec: Expr,
    centre: Direction,
    radius_degrees: f64,
}

impl Cone {
    fn of(condition: &Expr) -> Option<Self> {
        if let Some(Distance { one, other, degrees }) = Distance::of(condition) {
            let constant = |[ra, dec]: &[Expr; 2]| number(ra).zip(number(dec));
            let ([ra, dec], (centre_ra, centre_dec)) = match (constant(&one), constant(&other)) {
                (None, Some(centre)) => (one, centre),
                (Some(centre), None) => (other, centre),
                _ => return None,
            };
            Shape::of(&[centre_ra, centre_dec])?;
            return Some(Self { ra, dec, centre: Direction::of(centre_ra, centre_dec), radius_degrees: degrees });
        }
        let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) = condition else { return None };
        let function = match (number(left), number(right)) {
            (Some(1.0), None) => right,
            (None, Some(1.0)) => left,
            _ => return None,
        };
        let [inner, outer] = called(function, names::CONTAINS)? else { return None };
        if function.is_volatile() {
            return None;
        }
        let [ra, dec] = called(inner, names::POINT)? else { return None };
        let Expr::Literal(outer, _) = outer else { return None };
        let shape = constant(outer)?;
        let centre = shape.centroid();
        let radius_degrees = match &shape {
            Shape::Point(_) => 0.0,
            Shape::Circle { radius_degrees, .. } => *radius_degrees,
            Shape::Polygon(corners) => {
                let far = |corner: &Direction| corner.separation_degrees(centre);
                corners.iter().map(far).fold(0.0, f64::max)
            }
        };
        // What bulges beyond its corners is not bounded by them.
        let is_convex = radius_degrees < 90.0;
        is_convex.then(|| Self { ra: ra.clone(), dec: dec.clone(), centre, radius_degrees })
    }

    /// Conditions that follow from it, on numbers alone.
    fn bounds(&self) -> Vec<Expr> {
        let Self { ra, dec, centre, radius_degrees } = self;
        let radius = radius_degrees * OVERLAP.0 + OVERLAP.1;
        let (centre_ra, centre_dec) = (centre.ra_degrees(), centre.dec_degrees());
        if !(0.0..90.0).contains(&radius) {
            return Vec::new();
        }
        let (low, high) = (centre_dec - radius, centre_dec + radius);
        let mut bounds = vec![dec.clone().gt_eq(lit(low)), dec.clone().lt_eq(lit(high))];
        if low > -90.0 && high < 90.0 {
            // How far right ascension reaches where the circle is widest (MSR-TR-2006-52).
            let reach = (radius.to_radians().sin() / centre_dec.to_radians().cos()).asin().to_degrees() + OVERLAP.1;
            let (from, to) = (centre_ra - reach, centre_ra + reach);
            let is_near = if from < 0.0 || to > 360.0 {
                ra.clone().gt_eq(lit(from.rem_euclid(360.0))).or(ra.clone().lt_eq(lit(to.rem_euclid(360.0))))
            } else {
                ra.clone().gt_eq(lit(from)).and(ra.clone().lt_eq(lit(to)))
            };
            // A catalogue may count right ascension from -180 to 180, or beyond a turn.
            bounds.push(is_near.or(ra.clone().lt(lit(0.0))).or(ra.clone().gt(lit(360.0))));
        }
        bounds
    }
}

/// The arguments of a call of this function.
fn called<'expr>(expression: &'expr Expr, name: &str) -> Option<&'expr [Expr]> {
    match expression {
        Expr::ScalarFunction(ScalarFunction { func, args }) if func.name() == name => Some(args),
        _ => None,
    }
}

fn number(expression: &Expr) -> Option<f64> {
    match expression {
        Expr::Literal(value, _) if !value.is_null() => {
            match value.cast_to(&datafusion::arrow::datatypes::DataType::Float64) {
                Ok(ScalarValue::Float64(number)) => number.filter(|number| number.is_finite()),
                _ => None,
            }
        }
        _ => None,
    }
}

/// How much wider bounds are than what they bound: a factor, and degrees. Rounding must not cut a row off.
const OVERLAP: (f64, f64) = (1.000_000_1, 1e-9);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    use datafusion::prelude::col;

    fn cone(ra: f64, dec: f64, radius: f64) -> Vec<String> {
        let distance = super::super::functions().find(|function| function.name() == names::DISTANCE).unwrap();
        let condition = distance.call(vec![col("ra"), col("dec"), lit(ra), lit(dec)]).lt(lit(radius));
        let bounds = Cone::of(&condition).unwrap().bounds();
        bounds.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_cone_bounds_both_coordinates() {
        let bounds = cone(10.0, 60.0, 1.0);
        assert_eq!(bounds.len(), 3);
        // The sine of 1 degree over the cosine of 60: 2.0003 degrees of right ascension.
        assert!(bounds[2].contains("7.9996") && bounds[2].contains("12.0003"), "{bounds:?}");
        assert!(bounds[0].contains("58.99999") && bounds[1].contains("61.0000"), "{bounds:?}");
        assert!(cone(0.5, 0.0, 1.0)[2].contains("359.4999") && cone(0.5, 0.0, 1.0)[2].contains("1.50000"));
        assert_eq!(cone(10.0, 89.5, 1.0).len(), 2);
        assert_eq!(cone(10.0, 0.0, 120.0).len(), 0);
    }

    #[test]
    fn other_conditions_are_none() {
        let distance = super::super::functions().find(|function| function.name() == names::DISTANCE).unwrap();
        let call = |args: [Expr; 4]| distance.call(args.to_vec());
        for condition in [
            call([col("a"), col("b"), lit(1.0), lit(2.0)]).gt(lit(1.0)),
            call([col("a"), col("b"), col("c"), lit(2.0)]).lt(lit(1.0)),
            call([col("a"), col("b"), lit(1.0), lit(2.0)]).lt(col("r")),
            call([col("a"), col("b"), lit(1.0), lit(91.0)]).lt(lit(1.0)),
            col("a").lt(lit(1.0)),
        ] {
            assert!(Cone::of(&condition).is_none(), "{condition}");
        }
    }
}
