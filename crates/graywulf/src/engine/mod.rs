//! The SQL engine, which is DataFusion: what it may use, and what names mean to it. It never plans or executes anything itself.

mod files_table;
mod names;
mod session;

pub(crate) use files_table::{FileKind, FilesTable};
pub(crate) use names::{GivenTables, Names};
pub(crate) use session::{Engine, EngineSettings, STACK_BYTES, memory_pool, runtime, sort_reserve_bytes};
