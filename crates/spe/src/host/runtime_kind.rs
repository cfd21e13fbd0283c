//! The kind of code an SPE is made for. A library runs in the process itself; a program or a Python is started by the
//! process and locked in further. It serves the path *job*. The readable files in the sandbox differ, so an SPE is
//! started for one kind and never turns into another.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use protocol::{Refusal, message::spe::FunctionCode};

use super::{interpreter::Interpreter, sandbox_pool::Sandbox};

/// The kind of code that an SPE runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuntimeKind {
    /// A function that is built in or in a library; it starts no process.
    Library,
    /// Programs of the machine, one process a segment.
    Program,
    /// Functions in Python, one process a stage.
    Python(Arc<Interpreter>),
}

impl RuntimeKind {
    /// The same with the Python packages in this folder, if it is Python.
    #[must_use]
    pub fn in_environment(self, folder: &Path) -> Self {
        match self {
            Self::Python(interpreter) => Self::Python(Arc::new(interpreter.in_environment(folder))),
            other => other,
        }
    }

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

    /// The files it reads besides the system's libraries.
    pub(super) fn read_paths(&self) -> Vec<PathBuf> {
        match self {
            Self::Library => Vec::new(),
            Self::Program => PROGRAMS.iter().map(PathBuf::from).collect(),
            Self::Python(interpreter) => interpreter.read_paths.clone(),
        }
    }
}

impl Sandbox {
    /// The kind of SPE for a function's code. The first function in Python asks the interpreter about itself.
    ///
    /// # Errors
    /// `Unavailable` if this node has no Python, or none that is usable.
    pub async fn runtime_kind(&self, code: &FunctionCode) -> Result<RuntimeKind, Refusal> {
        match code {
            FunctionCode::BuiltIn(_) | FunctionCode::Native { .. } => Ok(RuntimeKind::Library),
            FunctionCode::Program { .. } => Ok(RuntimeKind::Program),
            FunctionCode::Python(_) => self.interpreter().await.map(RuntimeKind::Python),
        }
    }
}

/// The folders of the machine's programs, and the links by which a system chooses between several of one name.
const PROGRAMS: &[&str] = &["/usr/local/bin", "/usr/bin", "/bin", "/etc/alternatives"];
