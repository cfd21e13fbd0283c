//! What a user function for Sphere is compiled against (Sector/Sphere paper, 3.1 to 3.3); [`Function`] has an
//! example. It serves the path *job*: a function sees one [segment](Input) at a time and gives its results to the
//! [buckets](Output) of the job's output. This crate never gets a dependency: what a user's library links against
//! stays small and stable. It never opens a file or a socket: bytes come and go through the host alone.

pub mod abi;
mod error;
mod hash;
mod input;
mod output;
mod records;

pub use error::{FunctionError, Stopped};
pub use hash::key_hash;
pub use input::{Beside, Input, Parameters, RecordFormat, SideFiles};
pub use output::{Collected, Output, Sink};
pub use records::Records;

/// A function as Sphere calls it: once for each segment.
///
/// ```
/// use udf::{FunctionError, Input, Output};
///
/// /// Gives each line to the bucket of its first word.
/// fn by_first_word(input: &Input, output: &mut Output) -> Result<(), FunctionError> {
///     for (number, line) in (0..).zip(input.records()) {
///         let word = line.split(|byte| *byte == b' ').next().unwrap_or_default();
///         if word.is_empty() {
///             return Err(FunctionError::new("the line begins with a blank").at_record(number));
///         }
///         output.emit_key(word, line)?;
///     }
///     Ok(())
/// }
///
/// udf::export!(by_first_word => by_first_word);
/// # fn main() {}
/// ```
///
/// Compile it as a `cdylib` and run it with `sector run --udf target/release/libmine.so:by_first_word …`. In C,
/// include `include/sector_udf.h`; both use the same ABI, in [`abi`].
pub type Function = fn(&Input<'_>, &mut Output<'_>) -> Result<(), FunctionError>;
