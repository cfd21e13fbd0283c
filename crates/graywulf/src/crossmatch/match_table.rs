//! The pairs of two tables as a table of the engine: the columns of both, and how far apart they are. It reads only
//! columns that are asked for, and of each table only slices that have rows in a strip. It never holds a pair.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use client::Reason;
use datafusion::{
    arrow::datatypes::{DataType, Field, Schema, SchemaRef},
    catalog::{Session, TableProvider},
    datasource::{TableType, provider_as_source},
    error::{DataFusionError, Result},
    execution::SessionState,
    logical_expr::{Expr, LogicalPlanBuilder},
    physical_plan::ExecutionPlan,
    prelude::{cast, ident},
};
use terminal::Failure;

use super::{
    PositionColumns,
    match_exec::{Keep, MatchExec, MatchedColumns},
    strip_plans::{Side, rows_of, strip_plans},
};

/// The pairs of two tables.
pub(crate) struct MatchTable {
    left: Arc<dyn TableProvider>,
    right: Arc<dyn TableProvider>,
    left_position: PositionColumns,
    right_position: PositionColumns,
    radius_degrees: f64,
    keep: Keep,
    schema: SchemaRef,
}

impl MatchTable {
    /// The pairs within a radius, of tables that are named so to people.
    ///
    /// # Errors
    /// A radius that is none, or a table without positions.
    pub(crate) fn new(
        (left, left_name): (Arc<dyn TableProvider>, &str),
        (right, right_name): (Arc<dyn TableProvider>, &str),
        radius_arcsec: f64,
        keep: Keep,
    ) -> std::result::Result<Self, Failure> {
        if !(RADIUS_ARCSEC_MIN..=RADIUS_ARCSEC_MAX).contains(&radius_arcsec) {
            let message = format!(
                "`{radius_arcsec}` arc seconds are no radius of a match: from {RADIUS_ARCSEC_MIN} to {RADIUS_ARCSEC_MAX}"
            );
            return Err(Failure::new(Reason::Invalid, message));
        }
        let left_position = PositionColumns::of(&left.schema(), left_name)?;
        let right_position = PositionColumns::of(&right.schema(), right_name)?;
        let schema = Arc::new(both(&left.schema(), &right.schema()));
        let radius_degrees = radius_arcsec / 3600.0;
        Ok(Self { left, right, left_position, right_position, radius_degrees, keep, schema })
    }

    /// A side with these columns.
    fn side(table: &Arc<dyn TableProvider>, position: &PositionColumns, columns: &[usize]) -> Result<Side> {
        let number = |name: &str| cast(ident(name), DataType::Float64);
        let schema = table.schema();
        Ok(Side {
            plan: LogicalPlanBuilder::scan("side", provider_as_source(Arc::clone(table)), None)?.build()?,
            columns: columns.iter().map(|at| ident(schema.field(*at).name())).collect(),
            ra: number(&position.ra),
            dec: number(&position.dec),
            known: rows_of(table, &position.dec),
        })
    }
}

#[async_trait]
impl TableProvider for MatchTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _: &[Expr],
        _: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(state) = state.as_any().downcast_ref::<SessionState>() else {
            return Err(DataFusionError::Internal("a match needs the engine's own session".into()));
        };
        let all: Vec<usize> = (0..self.schema.fields().len()).collect();
        let wanted = projection.unwrap_or(&all);
        let columns =
            MatchedColumns::new(wanted, self.left.schema().fields().len(), self.right.schema().fields().len());
        let left = Self::side(&self.left, &self.left_position, &columns.left)?;
        let right = Self::side(&self.right, &self.right_position, &columns.right)?;
        let parts = strip_plans(state, (&left, &right), self.radius_degrees, true).await?;
        let at_once = state.config().target_partitions();
        let schema = Arc::new(self.schema.project(wanted)?);
        Ok(Arc::new(MatchExec::new(parts, columns, self.radius_degrees, self.keep, schema, at_once)))
    }
}

impl fmt::Debug for MatchTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MatchTable").field("radius_degrees", &self.radius_degrees).finish_non_exhaustive()
    }
}

/// The columns of both tables, and the separation. A name that the first one has too gets `_2` in the second one.
fn both(left: &Schema, right: &Schema) -> Schema {
    let mut fields: Vec<Field> = left.fields().iter().map(|field| Field::clone(field)).collect();
    for field in right.fields() {
        let mut name = field.name().clone();
        while fields.iter().any(|known| known.name().eq_ignore_ascii_case(&name)) {
            name.push_str("_2");
        }
        fields.push(Field::clone(field).with_name(name));
    }
    let mut name = "sep_arcsec".to_owned();
    while fields.iter().any(|known| known.name().eq_ignore_ascii_case(&name)) {
        name.push_str("_2");
    }
    let metadata = [("unit", "arcsec"), ("ucd", "pos.angDistance")];
    let metadata = metadata.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    fields.push(Field::new(name, DataType::Float64, false).with_metadata(metadata));
    Schema::new(fields)
}

const RADIUS_ARCSEC_MIN: f64 = 1e-6;
const RADIUS_ARCSEC_MAX: f64 = 60.0 * 3600.0;
