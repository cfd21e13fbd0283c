//! The functions of the sky for the engine. A place is a list of numbers in degrees, as DALI (1.1, 3.3) has it: two are a
//! point, three a circle, more a polygon. What is no place is none, and no error. It never changes a row's order.

use std::sync::Arc;

use datafusion::{
    arrow::{
        array::{Array, ArrayRef, AsArray, Float64Array, Float64Builder, Int32Array, ListArray, ListBuilder},
        datatypes::{DataType, Field, FieldRef, Float64Type},
    },
    common::{ScalarValue, exec_err, plan_err},
    error::Result,
    logical_expr::{
        ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
    },
};

use super::{
    relation::{contains, intersects},
    shape::{Direction, Shape},
};

/// What the functions are called in statements of the engine.
pub(crate) mod names {
    pub(crate) const DISTANCE: &str = "sky_distance";
    pub(crate) const POINT: &str = "sky_point";
    pub(crate) const CIRCLE: &str = "sky_circle";
    pub(crate) const BOX: &str = "sky_box";
    pub(crate) const POLYGON: &str = "sky_polygon";
    pub(crate) const CONTAINS: &str = "sky_contains";
    pub(crate) const INTERSECTS: &str = "sky_intersects";
    pub(crate) const AREA: &str = "sky_area";
    pub(crate) const CENTROID: &str = "sky_centroid";
    pub(crate) const COORD1: &str = "sky_coord1";
    pub(crate) const COORD2: &str = "sky_coord2";
}

/// All of them.
pub(crate) fn functions() -> impl Iterator<Item = ScalarUDF> {
    Kind::ALL.into_iter().map(|(name, kind)| {
        let signature = Signature::user_defined(Volatility::Immutable);
        ScalarUDF::new_from_impl(SkyFunction { name, kind, signature })
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Distance,
    Point,
    Circle,
    Box,
    Polygon,
    Contains,
    Intersects,
    Area,
    Centroid,
    Coord1,
    Coord2,
}

impl Kind {
    const ALL: [(&'static str, Self); 11] = [
        (names::DISTANCE, Self::Distance),
        (names::POINT, Self::Point),
        (names::CIRCLE, Self::Circle),
        (names::BOX, Self::Box),
        (names::POLYGON, Self::Polygon),
        (names::CONTAINS, Self::Contains),
        (names::INTERSECTS, Self::Intersects),
        (names::AREA, Self::Area),
        (names::CENTROID, Self::Centroid),
        (names::COORD1, Self::Coord1),
        (names::COORD2, Self::Coord2),
    ];

    /// How it is written.
    fn form(self) -> &'static str {
        match self {
            Self::Distance => "(ra, dec, ra, dec)",
            Self::Point => "(ra, dec)",
            Self::Circle => "(ra, dec, radius)",
            Self::Box => "(ra, dec, width, height)",
            Self::Polygon => "(ra, dec, ra, dec, ra, dec, …)",
            Self::Contains => "(inner, outer)",
            Self::Intersects => "(one, other)",
            Self::Area | Self::Centroid => "(shape)",
            Self::Coord1 | Self::Coord2 => "(point)",
        }
    }

    fn is_of_numbers(self) -> bool {
        matches!(self, Self::Distance | Self::Point | Self::Circle | Self::Box | Self::Polygon)
    }

    fn takes(self, arguments: usize) -> bool {
        match self {
            Self::Distance | Self::Box => arguments == 4,
            Self::Point | Self::Contains | Self::Intersects => arguments == 2,
            Self::Circle => arguments == 3,
            Self::Polygon => arguments >= 6 && arguments.is_multiple_of(2),
            Self::Area | Self::Centroid | Self::Coord1 | Self::Coord2 => arguments == 1,
        }
    }

    fn gives(self) -> DataType {
        match self {
            Self::Distance | Self::Area | Self::Coord1 | Self::Coord2 => DataType::Float64,
            Self::Contains | Self::Intersects => DataType::Int32,
            Self::Point | Self::Circle | Self::Box | Self::Polygon | Self::Centroid => shapes_type(),
        }
    }

    /// What is said of the column that it makes.
    fn said(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Point | Self::Centroid => Some(("xtype", "point")),
            Self::Circle => Some(("xtype", "circle")),
            Self::Box | Self::Polygon => Some(("xtype", "polygon")),
            Self::Distance | Self::Coord1 | Self::Coord2 => Some(("unit", "deg")),
            Self::Area => Some(("unit", "deg**2")),
            Self::Contains | Self::Intersects => None,
        }
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct SkyFunction {
    name: &'static str,
    kind: Kind,
    signature: Signature,
}

impl ScalarUDFImpl for SkyFunction {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.kind.gives())
    }

    fn return_field_from_args(&self, _: ReturnFieldArgs) -> Result<FieldRef> {
        let said = self.kind.said().map(|(key, value)| (key.to_owned(), value.to_owned()));
        Ok(Arc::new(Field::new(self.name, self.kind.gives(), true).with_metadata(said.into_iter().collect())))
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        let Self { name, kind, .. } = self;
        if !kind.takes(given.len()) {
            return plan_err!("write {name}{}", kind.form());
        }
        let takes = if kind.is_of_numbers() { DataType::Float64 } else { shapes_type() };
        let is_one = |given: &DataType| match given {
            DataType::Null => true,
            DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
                !kind.is_of_numbers() && item.data_type().is_numeric()
            }
            other => kind.is_of_numbers() && other.is_numeric(),
        };
        match given.iter().find(|given| !is_one(given)) {
            Some(other) => plan_err!("write {name}{}, and not with a value of the type {other}", kind.form()),
            None => Ok(vec![takes; given.len()]),
        }
    }

    fn invoke_with_args(&self, given: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let (rows, arguments) = (given.number_rows, given.args);
        let is_one_row = arguments.iter().all(|argument| matches!(argument, ColumnarValue::Scalar(_)));
        let rows = if is_one_row { 1 } else { rows };
        let values: ArrayRef = match self.kind {
            Kind::Distance => Arc::new(distances(&Numbers::all(&arguments)?, rows)),
            Kind::Point | Kind::Circle | Kind::Polygon => {
                let numbers = Numbers::all(&arguments)?;
                Arc::new(shapes((0..rows).map(|row| {
                    let numbers: Option<Vec<f64>> = numbers.iter().map(|number| number.at(row)).collect();
                    numbers.filter(|numbers| Shape::of(numbers).is_some())
                })))
            }
            Kind::Box => {
                let numbers = Numbers::all(&arguments)?;
                Arc::new(shapes((0..rows).map(|row| {
                    let numbers: Option<Vec<f64>> = numbers.iter().map(|number| number.at(row)).collect();
                    let [ra, dec, width, height] = numbers?.try_into().ok()?;
                    Some(Shape::boxed(ra, dec, width, height)?.numbers())
                })))
            }
            Kind::Contains => {
                Arc::new(relations(&Shapes::all(&arguments)?, rows, |inner, outer| contains(outer, inner)))
            }
            Kind::Intersects => Arc::new(relations(&Shapes::all(&arguments)?, rows, intersects)),
            Kind::Area => {
                let shapes = Shapes::all(&arguments)?;
                Arc::new(measures(&shapes, rows, |shape| Some(shape.area_square_degrees())))
            }
            Kind::Coord1 => {
                Arc::new(measures(&Shapes::all(&arguments)?, rows, |shape| Some(point(shape)?.ra_degrees())))
            }
            Kind::Coord2 => {
                Arc::new(measures(&Shapes::all(&arguments)?, rows, |shape| Some(point(shape)?.dec_degrees())))
            }
            Kind::Centroid => {
                let all = Shapes::all(&arguments)?;
                Arc::new(shapes((0..rows).map(|row| {
                    let centre = all.first()?.at(row)?.centroid();
                    Some(vec![centre.ra_degrees(), centre.dec_degrees()])
                })))
            }
        };
        if is_one_row {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&values, 0)?));
        }
        Ok(ColumnarValue::Array(values))
    }
}

/// The numbers of an argument.
enum Numbers {
    Same(Option<f64>),
    Each(Float64Array),
}

impl Numbers {
    fn all(arguments: &[ColumnarValue]) -> Result<Vec<Self>> {
        let one = |argument: &ColumnarValue| match argument {
            ColumnarValue::Scalar(ScalarValue::Float64(number)) => Ok(Self::Same(*number)),
            ColumnarValue::Array(array) => match array.as_primitive_opt::<Float64Type>() {
                Some(numbers) => Ok(Self::Each(numbers.clone())),
                None => exec_err!("a number is wanted, not {}", array.data_type()),
            },
            ColumnarValue::Scalar(other) => exec_err!("a number is wanted, not {other}"),
        };
        arguments.iter().map(one).collect()
    }

    fn at(&self, row: usize) -> Option<f64> {
        match self {
            Self::Same(number) => *number,
            Self::Each(numbers) => numbers.is_valid(row).then(|| numbers.value(row)),
        }
    }
}

/// The places of an argument. One that is the same for all rows is read once.
enum Shapes {
    Same(Option<Shape>),
    Each(ListArray),
}

impl Shapes {
    fn all(arguments: &[ColumnarValue]) -> Result<Vec<Self>> {
        let one = |argument: &ColumnarValue| match argument {
            ColumnarValue::Scalar(ScalarValue::List(list)) => Ok(Self::Same(shape_at(list, 0))),
            ColumnarValue::Array(array) => match array.as_list_opt::<i32>() {
                Some(list) => Ok(Self::Each(list.clone())),
                None => exec_err!("a place is wanted, not {}", array.data_type()),
            },
            ColumnarValue::Scalar(other) => exec_err!("a place is wanted, not {other}"),
        };
        arguments.iter().map(one).collect()
    }

    fn at(&self, row: usize) -> Option<Shape> {
        match self {
            Self::Same(shape) => shape.clone(),
            Self::Each(list) => shape_at(list, row),
        }
    }
}

fn shape_at(list: &ListArray, row: usize) -> Option<Shape> {
    if list.is_empty() || list.is_null(row) {
        return None;
    }
    let numbers = list.value(row);
    let numbers = numbers.as_primitive_opt::<Float64Type>().filter(|numbers| numbers.null_count() == 0)?;
    Shape::of(numbers.values())
}

/// The places of a constant, for rules.
pub(super) fn constant(value: &ScalarValue) -> Option<Shape> {
    match value {
        ScalarValue::List(list) => shape_at(list, 0),
        _ => None,
    }
}

fn distances(numbers: &[Numbers], rows: usize) -> Float64Array {
    let [ra, dec, other_ra, other_dec] = numbers else { return Float64Array::new_null(rows) };
    // What lies nowhere has no distance: a cross-match leaves it out, too.
    let direction = |ra: &Numbers, dec: &Numbers, row| {
        let (ra, dec) = (ra.at(row)?, dec.at(row)?);
        (ra.is_finite() && (-90.0..=90.0).contains(&dec)).then(|| Direction::of(ra, dec))
    };
    // Of a cone, the centre is the same for all rows.
    let centre = match (other_ra, other_dec) {
        (Numbers::Same(_), Numbers::Same(_)) => direction(other_ra, other_dec, 0),
        _ => None,
    };
    let one = |row: usize| {
        let other = centre.or_else(|| direction(other_ra, other_dec, row))?;
        Some(direction(ra, dec, row)?.separation_degrees(other))
    };
    (0..rows).map(one).collect()
}

fn relations(shapes: &[Shapes], rows: usize, hold: impl Fn(&Shape, &Shape) -> bool) -> Int32Array {
    let [one, other] = shapes else { return Int32Array::new_null(rows) };
    (0..rows).map(|row| Some(i32::from(hold(&one.at(row)?, &other.at(row)?)))).collect()
}

fn measures(shapes: &[Shapes], rows: usize, measure: impl Fn(&Shape) -> Option<f64>) -> Float64Array {
    let [shape] = shapes else { return Float64Array::new_null(rows) };
    (0..rows).map(|row| measure(&shape.at(row)?)).collect()
}

fn point(shape: &Shape) -> Option<Direction> {
    match shape {
        Shape::Point(direction) => Some(*direction),
        _ => None,
    }
}

fn shapes(all: impl Iterator<Item = Option<Vec<f64>>>) -> ListArray {
    let mut list = ListBuilder::new(Float64Builder::new());
    for numbers in all {
        if let Some(numbers) = &numbers {
            list.values().append_slice(numbers);
        }
        list.append(numbers.is_some());
    }
    list.finish()
}

fn shapes_type() -> DataType {
    DataType::List(Arc::new(Field::new_list_field(DataType::Float64, true)))
}
