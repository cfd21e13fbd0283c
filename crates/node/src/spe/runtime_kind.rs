//! Who is to live in an SPE: a library, in the process itself; or a program or a Python, which the process starts and
//! which is locked in further. It serves the path *job*: what is readable in the sandbox differs, so an SPE is started
//! for one of them and never turns into another.

use std::{path::PathBuf, sync::Arc};

use protocol::{Refusal, message::spe::FunctionCode};

use super::{Sandbox, interpreter::Interpreter};

/// Who is to live in an SPE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuntimeKind {
    /// A function that is built in or in a library: it starts nothing.
    Library,
    /// Programs of the machine, one process a segment.
    Program,
    /// Functions in Python, one process a stage.
    Python(Arc<Interpreter>),
}

impl RuntimeKind {
    /// Whether the SPE starts processes for it.
    pub(super) fn is_spawned(&self) -> bool {
        !matches!(self, Self::Library)
    }

    /// Whether a function of this kind can be loaded into its SPE.
    pub(super) fn may_load(&self, code: &FunctionCode) -> bool {
        match code {
            FunctionCode::BuiltIn(_) | FunctionCode::Native { .. } => *self == Self::Library,
            FunctionCode::Program { .. } => *self == Self::Program,
            FunctionCode::Python(_) => matches!(self, Self::Python(_)),
        }
    }

    /// What it reads beside the system's libraries.
    pub(super) fn read_paths(&self) -> Vec<PathBuf> {
        match self {
            Self::Library => Vec::new(),
            Self::Program => PROGRAMS.iter().map(PathBuf::from).collect(),
            Self::Python(interpreter) => interpreter.read_paths.clone(),
        }
    }
}

impl Sandbox {
    /// Who lives in the SPE for a function of this kind. The first function in Python asks the interpreter who it is.
    ///
    /// # Errors
    /// `Unavailable` when this node has no Python, or none that will do.
    pub async fn runtime_kind(&self, code: &FunctionCode) -> Result<RuntimeKind, Refusal> {
        match code {
            FunctionCode::BuiltIn(_) | FunctionCode::Native { .. } => Ok(RuntimeKind::Library),
            FunctionCode::Program { .. } => Ok(RuntimeKind::Program),
            FunctionCode::Python(_) => self.interpreter().await.map(RuntimeKind::Python),
        }
    }
}

/// Where the machine's programs lie, and the links by which a system chooses between several of a name.
const PROGRAMS: &[&str] = &["/usr/local/bin", "/usr/bin", "/bin", "/etc/alternatives"];
