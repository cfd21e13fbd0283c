//! Buckets and keys as paths. A bucket is a folder below `/`, and a key is a path in it. A key that ends with `/` names a
//! folder. It never maps two keys to one path: what is no path of a file is refused.

use client::SectorPath;
use s3s::{S3Result, s3_error};

/// The folder of unfinished uploads beside what they become. No key names it, and no list shows it.
pub(crate) const UPLOADS: &str = ".s3-uploads";

/// What a key names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Named {
    /// A file.
    Object(SectorPath),
    /// A folder, by its name with a `/`.
    Folder(SectorPath),
}

/// Whether a bucket may be called so. Folders whose names begin with a point are not shown as buckets.
pub(crate) fn is_bucket_name(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('.') && !name.contains('/') && SectorPath::root().join(name).is_ok()
}

/// The folder of a bucket.
pub(crate) fn bucket_path(bucket: &str) -> S3Result<SectorPath> {
    if !is_bucket_name(bucket) {
        return Err(s3_error!(InvalidBucketName, "no folder may be called so"));
    }
    SectorPath::root().join(bucket).map_err(|error| s3_error!(InvalidBucketName, "{error}"))
}

/// What a key names.
pub(crate) fn named(bucket: &str, key: &str) -> S3Result<Named> {
    let bucket = bucket_path(bucket)?;
    let (name, is_folder) = match key.strip_suffix('/') {
        Some(name) => (name, true),
        None => (key, false),
    };
    let mut path = bucket;
    for component in name.split('/') {
        if component == UPLOADS {
            return Err(s3_error!(InvalidArgument, "`{UPLOADS}` is where unfinished uploads are"));
        }
        if component.is_empty() {
            return Err(s3_error!(InvalidArgument, "the key `{key}` is no path of a file: it has an empty name"));
        }
        let joined = path.join(component);
        path = joined.map_err(|error| s3_error!(InvalidArgument, "the key `{key}` is no path of a file: {error}"))?;
    }
    Ok(if is_folder { Named::Folder(path) } else { Named::Object(path) })
}

/// The file that a key names.
pub(crate) fn object_path(bucket: &str, key: &str) -> S3Result<SectorPath> {
    match named(bucket, key)? {
        Named::Object(path) => Ok(path),
        Named::Folder(_) => Err(s3_error!(InvalidArgument, "the key `{key}` names a folder, which has no bytes")),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn keys_are_paths_and_nothing_else_is() {
        assert_eq!(named("b", "a/b.txt").unwrap(), Named::Object(SectorPath::parse("/b/a/b.txt").unwrap()));
        assert_eq!(named("b", "a/").unwrap(), Named::Folder(SectorPath::parse("/b/a").unwrap()));
        for key in ["", "/", "/a", "a//b", "a//", "..", "a/../b", "./a", "a\0b", ".s3-uploads/x", "a/.s3-uploads"] {
            assert!(named("b", key).is_err(), "{key:?}");
        }
        for bucket in ["", ".trash", "a/b", "..", "."] {
            assert!(bucket_path(bucket).is_err(), "{bucket:?}");
        }
        assert!(is_bucket_name("A_b") && is_bucket_name("sdss-dr7"));
    }
}
