//! How the step that forms pairs travels to a worker: its strips as plans, and how pairs are formed. It never carries a row but
//! those of tables that came with the query.

use std::sync::Arc;

use datafusion::{
    error::{DataFusionError, Result},
    execution::TaskContext,
    physical_plan::{ExecutionPlan, empty::EmptyExec},
};
use datafusion_proto::{
    bytes::{physical_plan_from_bytes_with_extension_codec, physical_plan_to_bytes_with_extension_codec},
    physical_plan::{PhysicalExtensionCodec, PhysicalProtoConverterExtension},
};
use serde::{Deserialize, Serialize};

use super::match_exec::{Keep, MatchExec, MatchedColumns, Strip};

/// The form.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MatchCodec {
    /// How many matches this one is a strip's part of.
    depth: usize,
}

/// What travels.
#[derive(Serialize, Deserialize)]
struct CarriedMatch {
    strips: Vec<(Vec<u8>, Vec<u8>)>,
    columns: MatchedColumns,
    radius_degrees: f64,
    keep: Keep,
    /// A plan without rows that has the columns of the result: the engine has no form for columns alone.
    result: Vec<u8>,
    partitions: usize,
}

impl PhysicalExtensionCodec for MatchCodec {
    fn try_decode(
        &self,
        bytes: &[u8],
        _: &[Arc<dyn ExecutionPlan>],
        context: &TaskContext,
        _: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let carried: CarriedMatch = postcard::from_bytes(bytes).map_err(broken)?;
        // Anyone with a login may send what looks like a plan.
        if self.depth >= DEPTH_MAX || !(1..=PARTITIONS_MAX).contains(&carried.partitions) {
            return Err(broken("it is too deep, or in too many parts"));
        }
        let within = Self { depth: self.depth + 1 };
        let plan = |bytes: &[u8]| physical_plan_from_bytes_with_extension_codec(bytes, context, &within);
        let strip = |(left, right): &(Vec<u8>, Vec<u8>)| Ok(Strip { left: plan(left)?, right: plan(right)? });
        let strips = carried.strips.iter().map(strip).collect::<Result<_>>()?;
        let schema = plan(&carried.result)?.schema();
        let CarriedMatch { columns, radius_degrees, keep, partitions, .. } = carried;
        Ok(Arc::new(MatchExec::in_partitions(strips, columns, radius_degrees, keep, schema, partitions)))
    }

    fn try_encode(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        bytes: &mut Vec<u8>,
        _: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        let Some(pairs) = plan.downcast_ref::<MatchExec>() else {
            return Err(DataFusionError::NotImplemented(format!("{} does not travel to workers", plan.name())));
        };
        let of = |plan: &Arc<dyn ExecutionPlan>| {
            physical_plan_to_bytes_with_extension_codec(Arc::clone(plan), self).map(|bytes| bytes.to_vec())
        };
        let (strips, columns, radius_degrees, keep) = pairs.parts();
        let carried = CarriedMatch {
            strips: strips.iter().map(|strip| Ok((of(&strip.left)?, of(&strip.right)?))).collect::<Result<_>>()?,
            columns: columns.clone(),
            radius_degrees,
            keep,
            result: of(&(Arc::new(EmptyExec::new(pairs.schema())) as _))?,
            partitions: pairs.partitions(),
        };
        *bytes = postcard::to_stdvec(&carried).map_err(broken)?;
        Ok(())
    }
}

fn broken(error: impl std::fmt::Display) -> DataFusionError {
    DataFusionError::Execution(format!("a match does not travel: {error}"))
}

/// Matches of matches of matches: nobody has asked for as many.
const DEPTH_MAX: usize = 8;
const PARTITIONS_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use datafusion::{
        arrow::datatypes::{DataType, Field, Schema},
        prelude::SessionContext,
    };
    use datafusion_proto::physical_plan::DefaultPhysicalProtoConverter;

    use super::*;

    fn empty(partitions: usize, within: Option<Arc<dyn ExecutionPlan>>) -> MatchExec {
        let schema = Arc::new(Schema::new(vec![Field::new("a", DataType::Float64, true)]));
        let side = || within.clone().unwrap_or_else(|| Arc::new(EmptyExec::new(Arc::clone(&schema))));
        let strips = vec![Strip { left: side(), right: side() }];
        let columns = MatchedColumns::new(&[0], 1, 1);
        MatchExec::in_partitions(strips, columns, 0.5, Keep::Best, Arc::clone(&schema), partitions)
    }

    fn travelled(plan: MatchExec) -> Result<Arc<dyn ExecutionPlan>> {
        let (codec, converter, mut bytes) = (MatchCodec::default(), DefaultPhysicalProtoConverter {}, Vec::new());
        codec.try_encode(Arc::new(plan), &mut bytes, &converter).unwrap();
        codec.try_decode(&bytes, &[], &SessionContext::new().task_ctx(), &converter)
    }

    #[test]
    fn a_match_is_the_same_when_it_arrives() {
        let sent = empty(3, Some(Arc::new(empty(1, None))));
        let (expected, schema) = (format!("{:?}", sent.parts()), sent.schema());
        let arrived = travelled(sent).unwrap();
        let arrived = arrived.downcast_ref::<MatchExec>().unwrap();
        assert_eq!((arrived.partitions(), arrived.schema()), (3, schema));
        // Metrics have no equal, and are new.
        assert_eq!(format!("{:?}", arrived.parts()).len(), expected.len());
    }

    #[test]
    fn what_nobody_asks_for_is_not_taken() {
        assert!(travelled(empty(PARTITIONS_MAX + 1, None)).is_err());
        let mut deep = empty(1, None);
        for _ in 0..DEPTH_MAX {
            deep = empty(1, Some(Arc::new(deep)));
        }
        assert!(travelled(deep).is_err());
        let (codec, converter) = (MatchCodec::default(), DefaultPhysicalProtoConverter {});
        let context = SessionContext::new().task_ctx();
        for bytes in [&[][..], &[255; 40], &[1, 2, 3]] {
            assert!(codec.try_decode(bytes, &[], &context, &converter).is_err());
        }
    }
}
