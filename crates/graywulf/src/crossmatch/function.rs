//! `xmatch('/sky/a', '/sky/b', ARCSEC [, 'best'])` in a statement: the pairs of two tables. It never takes a column for
//! an argument.

use std::{fmt, sync::Arc};

use client::{Reason, SectorPath};
use datafusion::{
    catalog::{TableFunctionArgs, TableFunctionImpl, TableProvider},
    common::{ScalarValue, plan_err},
    error::Result,
    logical_expr::Expr,
};
use terminal::Failure;

use super::{Keep, MatchTable};
use crate::{engine::Names, failure::TableFailure};

/// The function.
pub(crate) struct CrossMatchFunction {
    names: Names,
}

impl CrossMatchFunction {
    /// Tables are looked for as in the rest of a statement.
    pub(crate) fn new(names: Names) -> Self {
        Self { names }
    }

    /// A table by its path. The engine asks without waiting, so the thread waits; it is one of several.
    fn table(&self, path: &str) -> Result<Arc<dyn TableProvider>> {
        let path = SectorPath::parse(path).map_err(|error| TableFailure::from(Failure::from(error)))?;
        let wait = || tokio::runtime::Handle::current().block_on(self.names.table_at(&path));
        match tokio::task::block_in_place(wait)? {
            Some(table) => Ok(table),
            None => {
                let message = format!("there is no table or file `{path}`");
                Err(TableFailure::from(Failure::new(Reason::NotFound, message)).into())
            }
        }
    }
}

impl TableFunctionImpl for CrossMatchFunction {
    fn call_with_args(&self, arguments: TableFunctionArgs<'_, '_>) -> Result<Arc<dyn TableProvider>> {
        let given = arguments.exprs();
        let (left, right, radius, keep) = match given {
            [left, right, radius] => (text(left), text(right), number(radius), Some(Keep::All)),
            [left, right, radius, keep] => {
                let keep = match text(keep).as_deref() {
                    Some("all") => Some(Keep::All),
                    Some("best") => Some(Keep::Best),
                    _ => None,
                };
                (text(left), text(right), number(radius), keep)
            }
            _ => (None, None, None, None),
        };
        let (Some(left), Some(right), Some(radius), Some(keep)) = (left, right, radius, keep) else {
            return plan_err!("write xmatch('/folder/a', '/folder/b', ARCSEC), or with 'best' as the fourth argument");
        };
        let matched = MatchTable::new((self.table(&left)?, &left), (self.table(&right)?, &right), radius, keep);
        Ok(Arc::new(matched.map_err(TableFailure::from)?))
    }
}

impl fmt::Debug for CrossMatchFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CrossMatchFunction")
    }
}

fn text(given: &Expr) -> Option<String> {
    match given {
        Expr::Literal(value, _) => value.try_as_str().flatten().map(str::to_owned),
        _ => None,
    }
}

fn number(given: &Expr) -> Option<f64> {
    let Expr::Literal(value, _) = given else { return None };
    match value.cast_to(&datafusion::arrow::datatypes::DataType::Float64) {
        Ok(ScalarValue::Float64(number)) if !value.is_null() => number,
        _ => None,
    }
}
