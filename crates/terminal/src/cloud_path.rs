//! A path in the cloud as people write it, for commands that work in one cloud: `/folder/file`, or
//! `sector://folder/file` as Python's file systems do. It never asks whether something is there.

use client::names::location::Location;

/// The path without `sector://`. A slash at the end stays, since it says that a folder is meant.
///
/// # Errors
/// A sentence, if the path names a cloud.
pub fn cloud_path(text: &str) -> Result<String, String> {
    let Location { cloud, path } = Location::parse(text).map_err(|error| error.to_string())?;
    match cloud {
        None => Ok(path),
        Some(cloud) => Err(format!(
            "only `sector cp` and `sector sync` take the name of a cloud in a path: write `--profile {cloud}` and `{path}`"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_the_path_below_the_root_and_no_other_cloud() {
        for (text, path) in
            [("sector://a/b", "/a/b"), ("sector:///a/", "/a/"), ("sector://", "/"), ("/a", "/a"), ("a", "a")]
        {
            assert_eq!(cloud_path(text), Ok(path.to_owned()));
        }
        let refused = cloud_path("sector://@chicago/a").unwrap_or_else(|sentence| sentence);
        assert!(refused.contains("`--profile chicago` and `/a`"), "{refused}");
    }
}
