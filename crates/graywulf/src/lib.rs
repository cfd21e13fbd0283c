//! GrayWulf: tables of Parquet slices in the cloud, and SQL over them (paper *GrayWulf*, sections 3 to 5). The engine is
//! DataFusion. Ours is what no engine has: tables of whole files with copies at several sites, verified reads, and the
//! rights of folders. It is a client like any other and never links a role.

// Only `terminal::show` and `terminal::say!` print: they handle output that cannot be written.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod adql;
mod arguments;
mod commands;
mod crossmatch;
mod engine;
mod failure;
mod output;
mod sky;
mod slices;
mod storage;
mod tables;
mod tap;
mod workers;

pub use commands::main;
