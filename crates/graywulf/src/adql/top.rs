//! `TOP n` (ADQL 2.1, 3.1) as the engine's `LIMIT`. It never counts a row.

use datafusion::sql::sqlparser::ast::{Expr, LimitClause, Query, Select, SetExpr, Top, TopQuantity, Value};

use super::error::AdqlError;

/// Replaces `TOP` in a query, and in each part of a union.
pub(super) fn replace(query: &mut Query) -> Result<(), AdqlError> {
    match &mut *query.body {
        SetExpr::Select(select) => {
            if let Some(rows) = take(select)? {
                limit(query, rows)?;
            }
        }
        body @ SetExpr::SetOperation { .. } => replace_in_parts(body)?,
        _ => {}
    }
    Ok(())
}

/// A part of a union has no order of its own: it becomes a query within the query.
fn replace_in_parts(body: &mut SetExpr) -> Result<(), AdqlError> {
    match body {
        SetExpr::SetOperation { left, right, .. } => {
            replace_in_parts(left)?;
            replace_in_parts(right)
        }
        SetExpr::Select(select) => {
            if let Some(rows) = take(select)? {
                let mut part = plain(SetExpr::Select(select.clone()));
                limit(&mut part, rows)?;
                *body = SetExpr::Query(Box::new(part));
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

fn take(select: &mut Select) -> Result<Option<u64>, AdqlError> {
    let Some(top) = select.top.take() else { return Ok(None) };
    match top {
        Top { with_ties: false, percent: false, quantity: Some(TopQuantity::Constant(rows)) } => Ok(Some(rows)),
        _ => Err(AdqlError::new("TOP takes a number of rows")),
    }
}

fn limit(query: &mut Query, rows: u64) -> Result<(), AdqlError> {
    let number = Expr::Value(Value::Number(rows.to_string(), false).into());
    match &mut query.limit_clause {
        None => {
            query.limit_clause =
                Some(LimitClause::LimitOffset { limit: Some(number), offset: None, limit_by: Vec::new() });
        }
        Some(LimitClause::LimitOffset { limit, .. }) if limit.is_none() => *limit = Some(number),
        Some(_) => return Err(AdqlError::new("TOP says how many rows: leave LIMIT out")),
    }
    Ok(())
}

/// A query that is only its body.
fn plain(body: SetExpr) -> Query {
    Query {
        with: None,
        body: Box::new(body),
        order_by: None,
        limit_clause: None,
        fetch: None,
        locks: Vec::new(),
        for_clause: None,
        settings: None,
        format_clause: None,
        pipe_operators: Vec::new(),
    }
}
