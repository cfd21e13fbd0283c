//! How a plan is cut into parts. The engine asks of each leaf how many parts it wants, what each of them reads, and which
//! worker runs it. Part *n* of a stage runs at worker *n*, so that files and their worker meet. It never cuts what is small
//! and near, or has one partition.

use std::sync::Arc;

use async_trait::async_trait;
use client::{Client, SectorPath};
use datafusion::{
    catalog::{Session, memory::DataSourceExec},
    common::tree_node::{TreeNode, TreeNodeRecursion},
    datasource::{
        listing::PartitionedFile,
        physical_plan::{FileGroup, FileScanConfig},
    },
    error::{DataFusionError, Result},
    execution::{SessionStateBuilder, context::QueryPlanner},
    logical_expr::{Explain, LogicalPlan, PlanType, StringifiedPlan},
    physical_plan::{ExecutionPlan, ExecutionPlanProperties, explain::ExplainExec},
};
use datafusion_distributed::{
    DesiredTaskCountEvent, DesiredTaskCountEventResponse, DesiredTaskCountHandler, DistributedExec, DistributedExt,
    DistributedLeafExec, RouteTasksEvent, RouteTasksEventResponse, RouteTasksHandler, ScaleUpLeafNodeEvent,
    ScaleUpLeafNodeEventResponse, ScaleUpLeafNodeHandler, SessionStateBuilderExt, WorkerResolver, display_plan_ascii,
};
use http::HeaderValue;
use terminal::Failure;
use url::Url;

use super::{
    Fleet,
    messages::{QUERY_HEADER, WorkerReads},
    placement::{Load, Placement, ReadyWorker, assign},
};
use crate::{
    crossmatch::{MatchCodec, MatchExec, ZonesPlanner},
    engine::{Engine, EngineSettings},
    storage::{path_of, store_url},
};

/// A query of which workers run parts.
#[derive(Clone, Debug)]
pub(crate) struct QueryAtWorkers {
    fleet: Fleet,
    /// How workers know it. Nobody can guess it: who knows it could ask what was read for it.
    name: String,
}

impl QueryAtWorkers {
    /// A query at these workers; `None` if none answers.
    pub(crate) fn new(fleet: Fleet) -> Option<Self> {
        let name = std::iter::repeat_with(fastrand::alphanumeric).take(NAME_LENGTH).collect();
        (!fleet.is_empty()).then_some(Self { fleet, name })
    }

    /// The engine of a query, which has workers run parts of it where there are any.
    ///
    /// # Errors
    /// As [`Engine::new`].
    pub(crate) fn engine(cloud: &Client, settings: &EngineSettings, query: Option<&Self>) -> Result<Engine, Failure> {
        match query {
            Some(query) => Engine::extended(cloud, settings, |engine| query.distribute(engine)),
            None => Engine::new(cloud, settings),
        }
    }

    fn distribute(&self, engine: SessionStateBuilder) -> Result<SessionStateBuilder> {
        let leaves = Leaves { placement: Arc::clone(&self.fleet.placement), apart_bytes: self.fleet.apart_bytes };
        let mut headers = self.fleet.headers.clone();
        let name = HeaderValue::try_from(&self.name).map_err(|error| DataFusionError::External(Box::new(error)))?;
        headers.insert(QUERY_HEADER, name);
        let mut engine = engine
            .with_distributed_worker_resolver(leaves.clone())
            .with_distributed_channel_resolver(self.fleet.channels.clone())
            .with_distributed_passthrough_headers(headers)?
            .with_distributed_user_codec(MatchCodec::default())
            .with_distributed_desired_task_count_handler(leaves.clone())
            .with_distributed_scale_up_leaf_node_handler(leaves.clone())
            .with_distributed_route_tasks_handler(leaves);
        // With one partition a plan has no place where it can be cut.
        let config = engine.config().get_or_insert_default();
        let partitions = config.target_partitions().max(PARTITIONS_MIN);
        config.options_mut().execution.target_partitions = partitions;
        let mut engine = engine.with_distributed_planner();
        let parts = engine.query_planner().take();
        Ok(match parts {
            Some(parts) => engine.with_query_planner(Arc::new(WholeOrParts { parts })),
            None => engine,
        })
    }

    /// What each worker has read for it so far, by the worker's address.
    pub(crate) async fn reads(&self) -> Vec<(String, Vec<WorkerReads>)> {
        self.fleet.reads(&self.name).await
    }
}

/// Plans in parts what can be. A recursive query reads what it has made so far, which is at one place.
#[derive(Debug)]
struct WholeOrParts {
    parts: Arc<dyn QueryPlanner + Send + Sync>,
}

#[async_trait]
impl QueryPlanner for WholeOrParts {
    async fn create_physical_plan(&self, plan: &LogicalPlan, session: &dyn Session) -> Result<Arc<dyn ExecutionPlan>> {
        let mut is_recursive = false;
        plan.apply_with_subqueries(|node| {
            is_recursive |= matches!(node, LogicalPlan::RecursiveQuery(_));
            Ok(TreeNodeRecursion::Continue)
        })?;
        match plan {
            _ if is_recursive => ZonesPlanner.create_physical_plan(plan, session).await,
            LogicalPlan::Explain(asked) => self.explain(asked, plan, session).await,
            _ => self.parts.create_physical_plan(plan, session).await,
        }
    }
}

impl WholeOrParts {
    /// Says in which parts a plan runs; the engine itself would explain the one before it is cut.
    async fn explain(
        &self,
        asked: &Explain,
        plan: &LogicalPlan,
        session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let parts = self.parts.create_physical_plan(&asked.plan, session).await?;
        if !parts.is::<DistributedExec>() || asked.verbose {
            return ZonesPlanner.create_physical_plan(plan, session).await;
        }
        let mut said: Vec<_> =
            asked.stringified_plans.iter().filter(|plan| plan.should_display(false)).cloned().collect();
        said.push(StringifiedPlan::new(PlanType::FinalPhysicalPlan, display_plan_ascii(parts.as_ref(), false)));
        Ok(Arc::new(ExplainExec::new(Arc::clone(asked.schema.inner()), said, asked.verbose)))
    }
}

/// What the engine asks of leaves. Clones are the same.
#[derive(Clone)]
struct Leaves {
    placement: Arc<Placement>,
    /// With less to read, and nobody nearer, a plan stays in one piece.
    apart_bytes: u64,
}

/// A leaf that can be cut.
enum Leaf<'a> {
    Files(&'a FileScanConfig),
    Match(&'a MatchExec),
}

impl<'a> Leaf<'a> {
    fn of(plan: &'a Arc<dyn ExecutionPlan>) -> Option<Self> {
        if let Some(pairs) = plan.downcast_ref::<MatchExec>() {
            return Some(Self::Match(pairs));
        }
        scan_of(plan).map(Self::Files)
    }

    /// Files that it reads.
    fn files(&self) -> Vec<PartitionedFile> {
        match self {
            Self::Files(scan) => files_of(scan),
            Self::Match(pairs) => (0..pairs.strips()).flat_map(|strip| files_of_strip(pairs, strip)).collect(),
        }
    }
}

impl Leaves {
    /// The worker of each part that a stage can have. One alone has two: with one part, the engine would run it here.
    fn slots(&self) -> Vec<&ReadyWorker> {
        let workers = self.placement.workers();
        let twice = if workers.len() == 1 { workers } else { &[] };
        workers.iter().chain(twice).collect()
    }

    fn urls(&self) -> Vec<Url> {
        self.slots().iter().map(|worker| worker.address.url().clone()).collect()
    }

    /// In how many parts files are read best: in one where they are few and nobody is nearer to them.
    fn parts(&self, files: &[PartitionedFile]) -> usize {
        let (mut bytes, mut is_nearer) = (0, false);
        for file in files {
            let Some(place) = path(file).and_then(|path| self.placement.of(&path)) else { continue };
            let Some(nearest) = place.workers.iter().min() else { continue };
            if *nearest <= place.here {
                bytes += file.effective_size();
            }
            is_nearer |= *nearest < place.here;
        }
        if is_nearer || bytes >= self.apart_bytes { self.slots().len().max(1) } else { 1 }
    }

    fn load(&self, files: &[PartitionedFile]) -> Load {
        let bytes = files.iter().map(PartitionedFile::effective_size).sum();
        let largest = files.iter().max_by_key(|file| file.effective_size());
        let place = largest.and_then(path).and_then(|path| self.placement.of(&path));
        let mut workers = place.map(|place| place.workers).unwrap_or_default();
        if let [only] = workers[..] {
            workers.push(only);
        }
        Load { bytes, workers }
    }

    /// For each part, which of these loads it has.
    fn cut(&self, loads: &[Load], parts: usize) -> Vec<Vec<usize>> {
        let mut cut = vec![Vec::new(); parts];
        for (at, worker) in assign(loads, self.slots().len()).into_iter().enumerate() {
            cut[worker % parts].push(at);
        }
        cut
    }

    fn variants(&self, plan: &Arc<dyn ExecutionPlan>, parts: usize) -> Option<Vec<Arc<dyn ExecutionPlan>>> {
        let partitions = plan.output_partitioning().partition_count();
        match Leaf::of(plan)? {
            Leaf::Match(pairs) => {
                let loads: Vec<_> = (0..pairs.strips()).map(|at| self.load(&files_of_strip(pairs, at))).collect();
                let cut = self.cut(&loads, parts);
                Some(cut.iter().map(|strips| Arc::new(pairs.with_strips(strips)) as _).collect())
            }
            // The order of rows, or which part has which, means something: the engine's own way keeps it.
            Leaf::Files(scan) if !scan.output_ordering.is_empty() || scan.output_partitioning.is_some() => None,
            Leaf::Files(scan) => {
                // Parts of a file stay together: one worker opens it.
                let files = files_of(scan);
                let files: Vec<&[PartitionedFile]> =
                    files.chunk_by(|one, other| one.object_meta.location == other.object_meta.location).collect();
                let loads: Vec<_> = files.iter().map(|parts| self.load(parts)).collect();
                let part = |at: &Vec<usize>| {
                    let mut scan = scan.clone();
                    let files: Vec<_> = at.iter().filter_map(|at| files.get(*at)).flat_map(|it| it.to_vec()).collect();
                    scan.file_groups = grouped(&files, partitions);
                    DataSourceExec::from_data_source(scan) as Arc<dyn ExecutionPlan>
                };
                Some(self.cut(&loads, parts).iter().map(part).collect())
            }
        }
    }
}

impl WorkerResolver for Leaves {
    fn get_urls(&self) -> Result<Vec<Url>> {
        Ok(self.urls())
    }
}

#[async_trait]
impl DesiredTaskCountHandler for Leaves {
    async fn handle(&self, asked: DesiredTaskCountEvent<'_>) -> Option<Result<DesiredTaskCountEventResponse>> {
        let leaf = Leaf::of(asked.plan)?;
        // What is above may want all rows in one partition, and a part for each worker would have one each.
        if asked.plan.output_partitioning().partition_count() < 2 {
            return Some(Ok(DesiredTaskCountEventResponse::maximum(1)));
        }
        let files = leaf.files();
        let mut paths: Vec<_> = files.iter().filter_map(path).collect();
        paths.sort();
        paths.dedup();
        self.placement.learn(&paths).await;
        Some(Ok(DesiredTaskCountEventResponse::desired(self.parts(&files))))
    }
}

impl ScaleUpLeafNodeHandler for Leaves {
    fn handle(&self, asked: ScaleUpLeafNodeEvent<'_>) -> Option<Result<ScaleUpLeafNodeEventResponse>> {
        let variants = self.variants(asked.plan, asked.task_count)?;
        let leaf = DistributedLeafExec::try_new(Arc::clone(asked.plan), variants);
        Some(leaf.map(|leaf| ScaleUpLeafNodeEventResponse::new(Arc::new(leaf))))
    }
}

impl RouteTasksHandler for Leaves {
    fn handle(&self, asked: RouteTasksEvent<'_>) -> Option<Result<RouteTasksEventResponse>> {
        let (mut has_leaf, mut files) = (false, Vec::new());
        let walked = asked.plan.apply(|node| {
            if let Some(leaf) = node.downcast_ref::<DistributedLeafExec>() {
                has_leaf = true;
                files.extend(Leaf::of(leaf.original()).map(|leaf| leaf.files()).unwrap_or_default());
            }
            Ok(TreeNodeRecursion::Continue)
        });
        if let Err(error) = walked {
            return Some(Err(error));
        }
        let urls = self.urls();
        if !has_leaf || urls.is_empty() {
            return None;
        }
        if asked.task_count == 1 {
            let nearest = assign(&[self.load(&files)], urls.len());
            return Some(Ok(RouteTasksEventResponse::new(vec![urls[nearest[0]].clone()])));
        }
        let routed = (0..asked.task_count).map(|part| urls[part % urls.len()].clone()).collect();
        Some(Ok(RouteTasksEventResponse::new(routed)))
    }
}

/// The scan of the cloud's files that a plan is.
fn scan_of(plan: &Arc<dyn ExecutionPlan>) -> Option<&FileScanConfig> {
    let scan = plan.downcast_ref::<DataSourceExec>()?.data_source().downcast_ref::<FileScanConfig>()?;
    (scan.object_store_url == store_url()).then_some(scan)
}

fn files_of(scan: &FileScanConfig) -> Vec<PartitionedFile> {
    scan.file_groups.iter().flat_map(|group| group.files().to_vec()).collect()
}

fn files_of_strip(pairs: &MatchExec, strip: usize) -> Vec<PartitionedFile> {
    let mut files = Vec::new();
    for side in pairs.sides(strip) {
        // It ends with no error: nothing in it fails.
        let _ = side.apply(|node| {
            files.extend(Leaf::of(node).map(|leaf| leaf.files()).unwrap_or_default());
            Ok(TreeNodeRecursion::Continue)
        });
    }
    files
}

fn path(file: &PartitionedFile) -> Option<SectorPath> {
    path_of(&file.object_meta.location)
}

/// Files in exactly so many groups, neighbours in one: every part of a leaf has as many.
fn grouped(files: &[PartitionedFile], groups: usize) -> Vec<FileGroup> {
    let each = files.len().div_ceil(groups.max(1)).max(1);
    let mut chunks = files.chunks(each);
    (0..groups).map(|_| FileGroup::new(chunks.next().unwrap_or_default().to_vec())).collect()
}

const NAME_LENGTH: usize = 24;
const PARTITIONS_MIN: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_of_a_leaf_has_as_many_groups() {
        for (files, groups, expected) in
            [(5, 2, vec![3, 2]), (2, 4, vec![1, 1, 0, 0]), (0, 3, vec![0, 0, 0]), (9, 4, vec![3, 3, 3, 0])]
        {
            let files: Vec<_> = (0..files).map(|at| PartitionedFile::new(format!("s{at}"), 1)).collect();
            let counts: Vec<_> = grouped(&files, groups).iter().map(FileGroup::len).collect();
            assert_eq!(counts, expected);
        }
    }
}
