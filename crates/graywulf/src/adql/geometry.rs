//! Functions of places on the sky (ADQL 2.1, 4.2) as the engine's. Coordinate systems go, since all positions are ICRS. A
//! point within a circle becomes a distance, for which the engine has a plan. It never computes one.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments, Ident,
    ObjectName, Value,
};

use super::error::AdqlError;
use crate::sky::names;

/// Rewrites a comparison with `CONTAINS` or `INTERSECTS` of a point and a circle; others stay.
pub(super) fn compare(expression: &mut Expr) -> Result<(), AdqlError> {
    let Expr::BinaryOp { left, op: BinaryOperator::Eq, right } = expression else { return Ok(()) };
    let (truth, function) = match (truth(left), truth(right)) {
        (Some(truth), None) => (truth, right),
        (None, Some(truth)) => (truth, left),
        _ => return Ok(()),
    };
    let Some((name, arguments)) = called(function) else { return Ok(()) };
    let pair = match (name.as_str(), &arguments[..]) {
        ("CONTAINS", [point, circle]) => circle_of(circle)?.zip(point_of(point)?),
        ("INTERSECTS", [one, other]) => match (circle_of(one)?, circle_of(other)?) {
            (Some(circle), None) => Some(circle).zip(point_of(other)?),
            (None, Some(circle)) => Some(circle).zip(point_of(one)?),
            _ => None,
        },
        _ => return Ok(()),
    };
    let Some((([ra, dec], radius), [point_ra, point_dec])) = pair else { return Ok(()) };
    let distance = call(names::DISTANCE, vec![point_ra, point_dec, ra, dec]);
    let op = if truth { BinaryOperator::LtEq } else { BinaryOperator::Gt };
    *expression = Expr::Nested(Box::new(Expr::BinaryOp { left: Box::new(distance), op, right: Box::new(radius) }));
    Ok(())
}

/// Rewrites a call of a function of the sky; others stay.
pub(super) fn replace(expression: &mut Expr) -> Result<(), AdqlError> {
    let Some((name, arguments)) = called(expression) else { return Ok(()) };
    *expression = match name.as_str() {
        "POINT" => match point_of(expression)? {
            Some(numbers) => call(names::POINT, numbers.into()),
            None => return Err(usage("POINT(ra, dec)")),
        },
        "CIRCLE" => match circle_of(expression)? {
            Some(([ra, dec], radius)) => call(names::CIRCLE, vec![ra, dec, radius]),
            None => return Err(usage("CIRCLE(ra, dec, radius) or CIRCLE(POINT(ra, dec), radius)")),
        },
        "BOX" => {
            let [centre @ .., width, height] = &without_system(&arguments)?[..] else { return Err(usage(BOX)) };
            let [ra, dec] = centre_of(centre)?.ok_or_else(|| usage(BOX))?;
            call(names::BOX, vec![ra, dec, width.clone(), height.clone()])
        }
        "POLYGON" => {
            let corners = without_system(&arguments)?;
            let numbers = match corners.first().map(point_of).transpose()?.flatten() {
                Some(_) => corners.iter().map(numbers_of).collect::<Result<Vec<_>, _>>()?.concat(),
                None => corners,
            };
            if numbers.len() > 2 * CORNERS_MAX {
                return Err(AdqlError::new(format!("a polygon has at most {CORNERS_MAX} corners here")));
            }
            if numbers.len() < 6 || numbers.len() % 2 == 1 {
                return Err(usage("POLYGON(ra, dec, ra, dec, ra, dec, …), or the same with points"));
            }
            call(names::POLYGON, numbers)
        }
        "DISTANCE" => match &arguments[..] {
            [one, other] => call(names::DISTANCE, [numbers_of(one)?, numbers_of(other)?].concat()),
            [_, _, _, _] => call(names::DISTANCE, arguments),
            _ => return Err(usage("DISTANCE(POINT(…), POINT(…)) or DISTANCE(ra, dec, ra, dec)")),
        },
        "CONTAINS" => call(names::CONTAINS, some::<2>(arguments, "CONTAINS(inner, outer)")?),
        "INTERSECTS" => call(names::INTERSECTS, some::<2>(arguments, "INTERSECTS(one, other)")?),
        "AREA" => call(names::AREA, some::<1>(arguments, "AREA(shape)")?),
        "CENTROID" => call(names::CENTROID, some::<1>(arguments, "CENTROID(shape)")?),
        "COORD1" => call(names::COORD1, some::<1>(arguments, "COORD1(point)")?),
        "COORD2" => call(names::COORD2, some::<1>(arguments, "COORD2(point)")?),
        "COORDSYS" => {
            some::<1>(arguments, "COORDSYS(shape)")?;
            Expr::Value(Value::SingleQuotedString("ICRS".into()).into())
        }
        "REGION" => return Err(AdqlError::new("REGION is not supported: write CIRCLE or POLYGON")),
        _ => return Ok(()),
    };
    Ok(())
}

/// The name of a called function, in capitals, and its arguments. `None` for what else is written like a call.
pub(super) fn called(expression: &Expr) -> Option<(String, Vec<Expr>)> {
    let Expr::Function(Function { name: ObjectName(parts), args: FunctionArguments::List(list), .. }) = expression
    else {
        return None;
    };
    let [part] = &parts[..] else { return None };
    let name = part.as_ident().filter(|name| name.quote_style.is_none())?.value.to_ascii_uppercase();
    let arguments = list.args.iter().map(|argument| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(argument)) => Some(argument.clone()),
        _ => None,
    });
    Some((name, arguments.collect::<Option<_>>()?))
}

/// A call of a function of the engine.
pub(super) fn call(name: &str, arguments: Vec<Expr>) -> Expr {
    let arguments = arguments.into_iter().map(|argument| FunctionArg::Unnamed(FunctionArgExpr::Expr(argument)));
    let list = FunctionArgumentList { duplicate_treatment: None, args: arguments.collect(), clauses: Vec::new() };
    Expr::Function(Function {
        // In quotes, so that it is not taken for a function of ADQL when it is seen again.
        name: Ident::with_quote('"', name).into(),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(list),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

/// The coordinates that a `POINT` is made of.
fn point_of(expression: &Expr) -> Result<Option<[Expr; 2]>, AdqlError> {
    match called(expression) {
        Some((name, arguments)) if name == "POINT" => {
            let numbers = without_system(&arguments)?;
            <[Expr; 2]>::try_from(numbers).map(Some).map_err(|_| usage("POINT(ra, dec)"))
        }
        _ => Ok(None),
    }
}

/// The centre and the radius that a `CIRCLE` is made of.
fn circle_of(expression: &Expr) -> Result<Option<([Expr; 2], Expr)>, AdqlError> {
    match called(expression) {
        Some((name, arguments)) if name == "CIRCLE" => {
            let numbers = without_system(&arguments)?;
            let Some((radius, centre)) = numbers.split_last() else { return Ok(None) };
            Ok(centre_of(centre)?.map(|centre| (centre, radius.clone())))
        }
        _ => Ok(None),
    }
}

/// A centre: two numbers, or a point.
fn centre_of(arguments: &[Expr]) -> Result<Option<[Expr; 2]>, AdqlError> {
    match arguments {
        [ra, dec] => Ok(Some([ra.clone(), dec.clone()])),
        [point] => numbers_of(point).map(|numbers| <[Expr; 2]>::try_from(numbers).ok()),
        _ => Ok(None),
    }
}

/// The two coordinates of any point.
fn numbers_of(point: &Expr) -> Result<Vec<Expr>, AdqlError> {
    let parts = || vec![call(names::COORD1, vec![point.clone()]), call(names::COORD2, vec![point.clone()])];
    Ok(point_of(point)?.map_or_else(parts, Vec::from))
}

/// Arguments without the coordinate system before them, which ADQL 2.1 has given up.
fn without_system(arguments: &[Expr]) -> Result<Vec<Expr>, AdqlError> {
    let Some((Expr::Value(first), rest)) = arguments.split_first() else { return Ok(arguments.to_vec()) };
    let Value::SingleQuotedString(system) = &first.value else { return Ok(arguments.to_vec()) };
    let frame = system.split_whitespace().next().unwrap_or_default();
    if frame.is_empty() || FRAMES.iter().any(|known| known.eq_ignore_ascii_case(frame)) {
        return Ok(rest.to_vec());
    }
    Err(AdqlError::new(format!("the coordinate system `{system}` is not known here: positions are ICRS")))
}

fn some<const COUNT: usize>(arguments: Vec<Expr>, form: &str) -> Result<Vec<Expr>, AdqlError> {
    if arguments.len() == COUNT { Ok(arguments) } else { Err(usage(form)) }
}

/// Whether it is 1 (`true`) or 0 (`false`), and nothing else.
fn truth(expression: &Expr) -> Option<bool> {
    let Expr::Value(value) = expression else { return None };
    match &value.value {
        Value::Number(number, _) if number == "1" => Some(true),
        Value::Number(number, _) if number == "0" => Some(false),
        _ => None,
    }
}

fn usage(form: &str) -> AdqlError {
    AdqlError::new(format!("write {form}"))
}

/// Corners of a polygon: whether two lie within each other takes the product of theirs.
const CORNERS_MAX: usize = 500;
const BOX: &str = "BOX(ra, dec, width, height)";
/// What tables here have, and what says nothing.
const FRAMES: [&str; 3] = ["ICRS", "UNKNOWNFRAME", "UNKNOWN"];
