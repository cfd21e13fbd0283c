//! Why a function did not process a segment. Serves the path *job*, door 7; in the SPE process alone. It never decides
//! whether the segment is tried again.

use udf::FunctionError;

/// Why a function did not process a segment.
#[derive(Debug)]
pub(super) enum CallError {
    /// Its own fault, or its input's.
    Function(FunctionError),
    /// Not its fault, in one sentence: the segment may be tried again.
    Broken(String),
}

impl From<FunctionError> for CallError {
    fn from(error: FunctionError) -> Self {
        Self::Function(error)
    }
}
