//! Functions of numbers (ADQL 2.1, 2.3) that the engine has by another name, or with another meaning. `LOG` is the natural
//! logarithm here, and to the base of 10 there. It never computes one.

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr};

use super::{
    error::AdqlError,
    geometry::{call, called},
};

/// Rewrites a call of such a function; others stay.
pub(super) fn replace(expression: &mut Expr) -> Result<(), AdqlError> {
    let Some((name, arguments)) = called(expression) else { return Ok(()) };
    *expression = match (name.as_str(), &arguments[..]) {
        ("LOG", [_]) => call("ln", arguments),
        ("LOG10", [_]) => call("log10", arguments),
        ("CEILING", [_]) => call("ceil", arguments),
        ("TRUNCATE", [_] | [_, _]) => call("trunc", arguments),
        // The seed says which numbers come: none here, as a service promises none.
        ("RAND", [] | [_]) => call("random", Vec::new()),
        ("MOD", [left, right]) => {
            let operand = |side: &Expr| Box::new(Expr::Nested(Box::new(side.clone())));
            let (left, right) = (operand(left), operand(right));
            Expr::Nested(Box::new(Expr::BinaryOp { left, op: BinaryOperator::Modulo, right }))
        }
        ("IN_UNIT", _) => return Err(AdqlError::new("IN_UNIT is not supported: multiply by what the units need")),
        _ => return Ok(()),
    };
    Ok(())
}
