//! One query's engine: its memory, its room to spill, how much runs at once, and the names it knows. It never reads a
//! statement that changes anything.

use std::{path::PathBuf, sync::Arc};

use client::{Client, Reason, SectorPath};
use datafusion::{
    dataframe::DataFrame,
    error::DataFusionError,
    execution::{
        FunctionRegistry, SessionStateBuilder,
        disk_manager::{DiskManagerBuilder, DiskManagerMode},
        memory_pool::{FairSpillPool, MemoryPool, TrackConsumersPool},
        object_store::ObjectStoreUrl,
        runtime_env::{RuntimeEnv, RuntimeEnvBuilder},
    },
    object_store::ObjectStore,
    prelude::{SQLOptions, SessionConfig, SessionContext},
    sql::{parser::Statement, sqlparser::ast},
};
use terminal::Failure;

use super::names::{Folders, NO_FOLDER, Names};
use crate::{
    crossmatch::{ZonesJoinRule, ZonesPlanner},
    failure::failure_of,
    sky::{self, ConeRule},
    storage::{CloudStore, ReadCounts, store_url},
};

/// What a query may take.
#[derive(Clone, Debug)]
pub(crate) struct EngineSettings {
    /// Memory for rows that wait: sorts, joins, groups.
    pub(crate) memory_bytes: usize,
    /// Room on disk for what does not fit into memory.
    pub(crate) spill_bytes: u64,
    /// Where that is; `None`: the system's folder for temporary files.
    pub(crate) spill_folder: Option<PathBuf>,
    /// Threads of work.
    pub(crate) at_once: usize,
    /// The folder in which names without a folder are looked for.
    pub(crate) base: SectorPath,
}

/// The engine of one query.
pub(crate) struct Engine {
    context: SessionContext,
    store: Arc<CloudStore>,
    names: Names,
}

impl Engine {
    /// An engine that reads as the user of this session.
    ///
    /// # Errors
    /// A spill folder that cannot be used.
    pub(crate) fn new(cloud: &Client, settings: &EngineSettings) -> Result<Self, Failure> {
        Self::extended(cloud, settings, Ok)
    }

    /// The same with what `extend` adds, such as where else plans are run.
    ///
    /// # Errors
    /// As [`new`](Self::new), and those of `extend`.
    pub(crate) fn extended(
        cloud: &Client,
        settings: &EngineSettings,
        extend: impl FnOnce(SessionStateBuilder) -> Result<SessionStateBuilder, DataFusionError>,
    ) -> Result<Self, Failure> {
        let store = Arc::new(CloudStore::new(cloud.clone()));
        let memory = memory_pool(settings.memory_bytes);
        let runtime = runtime(settings, memory, Arc::clone(&store) as _).map_err(|error| failure_of(&error))?;
        let config = SessionConfig::new()
            .with_sort_spill_reservation_bytes(sort_reserve_bytes(settings))
            .with_target_partitions(settings.at_once)
            .with_default_catalog_and_schema(NO_FOLDER, NO_FOLDER)
            .with_create_default_catalog_and_schema(false)
            .with_information_schema(false);
        let builder = SessionStateBuilder::new()
            .with_config(config)
            .with_runtime_env(runtime)
            .with_default_features()
            .with_query_planner(Arc::new(ZonesPlanner))
            .with_optimizer_rule(Arc::new(ConeRule))
            .with_optimizer_rule(Arc::new(ZonesJoinRule));
        let mut state = extend(builder).map_err(|error| failure_of(&error))?.build();
        for function in sky::functions() {
            state.register_udf(Arc::new(function)).map_err(|error| failure_of(&error))?;
        }
        let names = Names::new(cloud.clone(), Arc::clone(&store) as _, settings.base.clone(), state.clone());
        let context = SessionContext::new_with_state(state);
        context.register_catalog_list(Arc::new(Folders(names.clone())));
        Ok(Self { context, store, names })
    }

    /// Plans a statement that reads: a query, `EXPLAIN`, `DESCRIBE`.
    ///
    /// # Errors
    /// What is wrong with it, or a name that means nothing.
    pub(crate) async fn plan(&self, statement: &str) -> Result<DataFrame, Failure> {
        let state = self.context.state();
        let dialect = state.config().options().sql_parser.dialect;
        let parsed = state.sql_to_statement(statement, &dialect).map_err(|error| failure_of(&error))?;
        self.plan_parsed(parsed).await
    }

    /// Plans a statement that was parsed elsewhere.
    ///
    /// # Errors
    /// As [`plan`](Self::plan).
    pub(crate) async fn plan_parsed(&self, parsed: Statement) -> Result<DataFrame, Failure> {
        let state = self.context.state();
        if !is_reading(&parsed) {
            return Err(Failure::usage(ONLY_READS));
        }
        let planned = match state.statement_to_plan(parsed).await {
            Ok(plan) => {
                let reads = SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false);
                reads.verify_plan(&plan).map(|()| DataFrame::new(state, plan))
            }
            Err(error) => Err(error),
        };
        planned.map_err(|error| match (error.find_root(), self.names.missing()) {
            (DataFusionError::Plan(said), Some(path)) if said.starts_with(NO_TABLE) => {
                Failure::new(Reason::NotFound, format!("there is no table or file `{path}`")).about(path)
            }
            _ => self.failure_of(&error),
        })
    }

    /// What an error of a query means to who asked: why a file could not be read, where that is what happened.
    pub(crate) fn failure_of(&self, error: &DataFusionError) -> Failure {
        self.store.failure().unwrap_or_else(|| failure_of(error))
    }

    /// Takes all functions of single values away but these.
    pub(crate) fn allow_only(&self, names: &[&str]) {
        let known: Vec<_> = self.context.state().scalar_functions().values().cloned().collect();
        for function in known.iter().filter(|function| !names.contains(&function.name())) {
            let all = std::iter::once(function.name()).chain(function.aliases().iter().map(String::as_str));
            all.for_each(|name| self.context.deregister_udf(name));
        }
    }

    /// What was read so far of each file.
    pub(crate) fn reads(&self) -> &ReadCounts {
        self.store.counts()
    }

    /// What names mean to it.
    pub(crate) fn names(&self) -> &Names {
        &self.names
    }

    /// The engine itself, for what loads tables.
    pub(crate) fn context(&self) -> &SessionContext {
        &self.context
    }

    /// The cloud's files, for what loads tables.
    pub(crate) fn store(&self) -> Arc<dyn ObjectStore> {
        Arc::clone(&self.store) as _
    }
}

/// Memory that is shared by all that are given this.
pub(crate) fn memory_pool(bytes: usize) -> Arc<dyn MemoryPool> {
    Arc::new(TrackConsumersPool::new(FairSpillPool::new(bytes), CONSUMERS_NAMED))
}

/// What runs plans that read the cloud's files, and none else.
///
/// # Errors
/// A spill folder that cannot be used.
pub(crate) fn runtime(
    settings: &EngineSettings,
    memory: Arc<dyn MemoryPool>,
    store: Arc<dyn ObjectStore>,
) -> Result<Arc<RuntimeEnv>, DataFusionError> {
    let spills = match &settings.spill_folder {
        Some(folder) => DiskManagerMode::Directories(vec![folder.clone()]),
        None => DiskManagerMode::OsTmpDirectory,
    };
    let disk = DiskManagerBuilder::default().with_mode(spills).with_max_temp_directory_size(settings.spill_bytes);
    let runtime = RuntimeEnvBuilder::new().with_memory_pool(memory).with_disk_manager_builder(disk).build_arc()?;
    runtime.register_object_store(store_url().as_ref(), store);
    // A statement names files of the cloud alone.
    runtime.deregister_object_store(ObjectStoreUrl::local_filesystem().as_ref())?;
    Ok(runtime)
}

/// What part of its memory a sort keeps for reading back what it put on disk.
pub(crate) fn sort_reserve_bytes(settings: &EngineSettings) -> usize {
    (settings.memory_bytes / settings.at_once / SPILL_SHARE).min(SPILL_BYTES_MAX)
}

/// Whether a statement changes nothing.
fn is_reading(statement: &Statement) -> bool {
    match statement {
        Statement::Explain(explained) => is_reading(&explained.statement),
        Statement::Statement(statement) => {
            matches!(**statement, ast::Statement::Query(_) | ast::Statement::ExplainTable { .. })
        }
        _ => false,
    }
}

/// The engine walks a statement's tree by calls within calls. Pages of a stack that nobody touches take no memory.
pub(crate) const STACK_BYTES: usize = 64 << 20;

/// How the engine begins to say that a table is missing.
const NO_TABLE: &str = "table '";
/// What is said of every other statement.
const ONLY_READS: &str =
    "statements only read: SELECT, EXPLAIN, DESCRIBE; `sector table` lists, makes and fills tables";

/// What part of a thread's memory a sort keeps for reading back what it put on disk.
const SPILL_SHARE: usize = 8;
/// More is of no use for that.
const SPILL_BYTES_MAX: usize = 10 << 20;

/// How many of the largest takers of memory an error names.
const CONSUMERS_NAMED: std::num::NonZeroUsize = std::num::NonZeroUsize::new(3).unwrap();

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use datafusion::object_store::memory::InMemory;

    use super::*;

    #[test]
    fn a_worker_reads_no_file_of_its_machine() {
        let settings = EngineSettings {
            memory_bytes: 1 << 20,
            spill_bytes: 0,
            spill_folder: None,
            at_once: 2,
            base: SectorPath::root(),
        };
        let runtime = runtime(&settings, memory_pool(1 << 20), Arc::new(InMemory::new())).unwrap();
        assert!(runtime.object_store(store_url()).is_ok());
        for elsewhere in ["file://", "file:///etc", "http://127.0.0.1", "sector://other"] {
            let elsewhere = ObjectStoreUrl::parse(elsewhere).unwrap_or_else(|_| ObjectStoreUrl::local_filesystem());
            assert!(runtime.object_store(elsewhere).is_err());
        }
    }
}
