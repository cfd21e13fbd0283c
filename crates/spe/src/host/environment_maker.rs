//! The function that makes the Python environment of a job in the sandbox of an SPE, from an archive of wheels
//! (path *job*). It is ours and no user's. What it gives back is believed as little as any results: the node checks every
//! name in it. It never runs anything of the user's.

use protocol::message::spe::{FunctionCode, FunctionSpec, PythonCode, PythonFunction};

/// The function, for these requirements as pip reads them. Its input is one segment: an archive of wheels (`tar`). Its
/// output has the buckets [`ENVIRONMENT_BUCKET`] and [`FAULT_BUCKET`], of which one is empty.
pub fn environment_maker(requirements: &str) -> FunctionSpec {
    let code = PythonCode::Source { file: "make_environment.py".into(), text: MAKER.into() };
    let function = PythonFunction { name: "make".into(), code, requires: Vec::new() };
    let parameters = vec![("requirements".to_owned(), requirements.to_owned())];
    FunctionSpec { code: FunctionCode::Python(function), parameters }
}

/// The archive of what was made (`tar`): files alone, by their paths below the environment's folder.
pub const ENVIRONMENT_BUCKET: u32 = 0;
/// What pip said, where nothing was made.
pub const FAULT_BUCKET: u32 = 1;
/// How many buckets its output has.
pub const MAKER_BUCKETS: u32 = 2;

const MAKER: &str = include_str!("python/make_environment.py");
