//! The SQL engine, which is DataFusion: what it may use, what names mean to it, and what its errors mean to people. It
//! never plans or executes anything itself.

mod failure;
mod files_table;
mod names;
mod session;

pub(crate) use failure::{TableFailure, failure_of};
pub(crate) use files_table::{FileKind, FilesTable};
pub(crate) use names::{GivenTables, Names};
pub(crate) use session::{Engine, EngineSettings, STACK_BYTES};
