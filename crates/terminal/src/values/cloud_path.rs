//! A path in the cloud as people write it, for commands that work in one cloud: `/folder/file`, or
//! `sector://folder/file` as Python's file systems do. It never asks whether something is there.

use client::{
    ClientError, Profile,
    names::location::{CloudName, Location},
};

/// The path without `sector://`. A slash at the end stays, since it says that a folder is meant. The address of a cloud
/// is taken where it is that of the profile in use.
///
/// # Errors
/// A sentence, if the path names another cloud.
pub fn cloud_path(text: &str) -> Result<String, String> {
    let Location { cloud, path } = Location::parse(text).map_err(|error| error.to_string())?;
    let profile = match cloud {
        None => return Ok(path),
        Some(CloudName::Profile(name)) => name,
        Some(CloudName::At(address)) => {
            let said = |error: ClientError| error.to_string();
            let own = Profile::default_file().map_err(said)?;
            let file = Profile::file_at(&address, &own).map_err(said)?;
            if file == own {
                return Ok(path);
            }
            Profile::shown_file(&file)
        }
    };
    Err(format!(
        "only `sector cp` and `sector sync` take another cloud in a path: write `--profile {profile}` and `{path}`"
    ))
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
