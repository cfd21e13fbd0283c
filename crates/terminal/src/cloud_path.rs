//! A path in the cloud as people write it: `/folder/file`, or `sector://folder/file` as Python's file systems do. It
//! never asks whether something is there.

use std::convert::Infallible;

/// The path without `sector://`. A slash at the end stays, since it says that a folder is meant.
pub fn cloud_path(text: &str) -> Result<String, Infallible> {
    Ok(match text.strip_prefix(SCHEME) {
        Some(rest) => format!("/{}", rest.trim_start_matches('/')),
        None => text.to_owned(),
    })
}

const SCHEME: &str = "sector://";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_the_path_below_the_root() {
        for (text, path) in
            [("sector://a/b", "/a/b"), ("sector:///a/", "/a/"), ("sector://", "/"), ("/a", "/a"), ("a", "a")]
        {
            assert_eq!(cloud_path(text), Ok(path.to_owned()));
        }
    }
}
