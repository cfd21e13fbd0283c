//! Runs a built-in function in a test, over one segment, and collects what it emits. It is never compiled outside
//! tests.

#![allow(clippy::unwrap_used)]

use udf::{Collected, FunctionError, Input, Output, RecordFormat};

/// The output of `name` over `bytes`.
pub(crate) fn run(
    name: &str,
    bytes: &[u8],
    format: RecordFormat,
    buckets: u32,
    parameters: &[(&str, &str)],
) -> Result<Collected, FunctionError> {
    let input = Input::new(bytes, format).at("/in put", 4, 800).with_buckets(buckets);
    run_on(name, input, parameters)
}

/// The output of `name` over a segment.
pub(crate) fn run_on(name: &str, input: Input<'_>, parameters: &[(&str, &str)]) -> Result<Collected, FunctionError> {
    let parameters: Vec<(String, String)> =
        parameters.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let mut collected = Collected::with_buckets(u64::from(input.buckets()));
    let function = crate::find(name).ok_or_else(|| FunctionError::new("no such function"))?;
    function(&input.with_parameters(&parameters), &mut Output::new(&mut collected))?;
    Ok(collected)
}

/// The output of `name` over lines, into one bucket.
pub(crate) fn run_on_lines(name: &str, text: &str, parameters: &[(&str, &str)]) -> String {
    let collected = run(name, text.as_bytes(), RecordFormat::Lines, 1, parameters).unwrap();
    String::from_utf8(collected.bucket(0).to_vec()).unwrap()
}

/// Random bytes, the same for the same seed.
pub(crate) fn random_bytes(seed: u64, length: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    (0..length).map(|_| random.u8(..)).collect()
}
