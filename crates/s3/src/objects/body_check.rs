//! The bytes of an upload as they pass: their MD5, which is the entity tag, and the checksums that the client says. An upload
//! whose sums are others is never published.

use std::collections::BTreeMap;

use client::FileContent;
use data_encoding::{BASE64, HEXLOWER};
use md5::{Digest, Md5};
use s3s::{
    S3Result, TrailingHeaders,
    checksum::ChecksumHasher,
    crypto::{Checksum as _, Crc32, Crc32c, Crc64Nvme, Sha1, Sha256},
    dto::Checksum,
    s3_error,
};

use super::metadata::{BYTES, CHECKSUM_PREFIX, ETAG, is_of_bytes};

/// Sums of bytes that pass.
pub(crate) struct BodyCheck {
    md5: Md5,
    hasher: ChecksumHasher,
    bytes: u64,
    said: Said,
}

/// What the client says of the bytes.
#[derive(Default)]
pub(crate) struct Said {
    pub(crate) bytes: Option<i64>,
    pub(crate) md5: Option<String>,
    pub(crate) sums: Checksum,
    /// Further sums, which come after the bytes.
    pub(crate) trailing: Option<TrailingHeaders>,
    /// The names of those, and of the algorithm that the client uses.
    pub(crate) announced: String,
}

/// The sums that a request says, whichever it is.
macro_rules! said_sums {
    ($input:expr) => {
        Checksum {
            checksum_crc32: $input.checksum_crc32.clone(),
            checksum_crc32c: $input.checksum_crc32c.clone(),
            checksum_crc64nvme: $input.checksum_crc64nvme.clone(),
            checksum_sha1: $input.checksum_sha1.clone(),
            checksum_sha256: $input.checksum_sha256.clone(),
            ..Checksum::default()
        }
    };
}
pub(crate) use said_sums;

/// What bytes have proved to be.
pub(crate) struct Checked {
    md5: [u8; 16],
    bytes: u64,
    pub(crate) sums: Checksum,
}

impl BodyCheck {
    pub(crate) fn new(said: Said) -> Self {
        let announced = said.announced.to_ascii_lowercase();
        let wants = |sum: &Option<String>, name: &str| {
            sum.is_some() || announced.split(',').any(|word| word.trim().trim_start_matches("x-amz-checksum-") == name)
        };
        let sums = &said.sums;
        let hasher = ChecksumHasher {
            crc32: wants(&sums.checksum_crc32, "crc32").then(Crc32::new),
            crc32c: wants(&sums.checksum_crc32c, "crc32c").then(Crc32c::new),
            sha1: wants(&sums.checksum_sha1, "sha1").then(Sha1::new),
            sha256: wants(&sums.checksum_sha256, "sha256").then(Sha256::new),
            crc64nvme: wants(&sums.checksum_crc64nvme, "crc64nvme").then(Crc64Nvme::new),
        };
        Self { md5: Md5::new(), hasher, bytes: 0, said }
    }

    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.md5.update(bytes);
        self.hasher.update(bytes);
        self.bytes += bytes.len() as u64;
    }

    /// All bytes have passed. Refused if they are not what the client said.
    pub(crate) fn finish(self) -> S3Result<Checked> {
        let Self { md5, hasher, bytes, said } = self;
        if said.bytes.is_some_and(|said| u64::try_from(said) != Ok(bytes)) {
            return Err(s3_error!(IncompleteBody, "{bytes} bytes came, not as many as were announced"));
        }
        let (md5, sums): ([u8; 16], _) = (md5.finalize().into(), hasher.finalize());
        if said.md5.is_some_and(|said| said != BASE64.encode(&md5)) {
            return Err(s3_error!(BadDigest, "the bytes have another MD5 than `Content-MD5` says"));
        }
        let trailing = |name: &str| {
            let name = format!("x-amz-checksum-{name}");
            let read = |headers: &http::HeaderMap| Some(headers.get(&name)?.to_str().ok()?.to_owned());
            said.trailing.as_ref().and_then(|trailing| trailing.read(read)).flatten()
        };
        for (name, sum) in named(&sums) {
            let stated = named(&said.sums).find(|(of, _)| *of == name).map(|(_, sum)| sum.clone());
            if [stated, trailing(name)].into_iter().flatten().any(|stated| stated != *sum) {
                return Err(s3_error!(BadDigest, "the bytes have another checksum `{name}` than was said"));
            }
        }
        Ok(Checked { md5, bytes, sums })
    }
}

impl Checked {
    /// The entity tag.
    pub(crate) fn etag(&self) -> String {
        HEXLOWER.encode(&self.md5)
    }

    /// What is kept of it with the file.
    pub(crate) fn user(&self) -> BTreeMap<String, String> {
        let sums = named(&self.sums).map(|(name, sum)| (format!("{CHECKSUM_PREFIX}{name}"), sum.clone()));
        sums.chain([(ETAG.to_owned(), self.etag()), (BYTES.to_owned(), self.bytes.to_string())]).collect()
    }
}

/// The sums that are there, with their names.
pub(crate) fn named(sums: &Checksum) -> impl Iterator<Item = (&'static str, &String)> {
    let all = [
        ("crc32", &sums.checksum_crc32),
        ("crc32c", &sums.checksum_crc32c),
        ("sha1", &sums.checksum_sha1),
        ("sha256", &sums.checksum_sha256),
        ("crc64nvme", &sums.checksum_crc64nvme),
    ];
    all.into_iter().filter_map(|(name, sum)| Some((name, sum.as_ref()?)))
}

/// The sums that a file has from its upload.
pub(crate) fn kept_sums(content: &FileContent) -> Checksum {
    let get =
        |name: &str| content.user.get(&format!("{CHECKSUM_PREFIX}{name}")).filter(|_| is_of_bytes(content)).cloned();
    Checksum {
        checksum_crc32: get("crc32"),
        checksum_crc32c: get("crc32c"),
        checksum_sha1: get("sha1"),
        checksum_sha256: get("sha256"),
        checksum_crc64nvme: get("crc64nvme"),
        ..Checksum::default()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use s3s::S3ErrorCode;

    use super::*;

    fn check(said: Said) -> Result<(String, Checksum), S3ErrorCode> {
        let mut check = BodyCheck::new(said);
        check.add(b"123");
        check.add(b"456789");
        check.finish().map(|checked| (checked.etag(), checked.sums)).map_err(|error| error.code().clone())
    }

    #[test]
    fn sums_are_those_of_the_standards_and_only_those_that_are_wanted() {
        let (etag, sums) = check(Said { announced: "CRC32C, x-amz-checksum-crc32".into(), ..Said::default() }).unwrap();
        assert_eq!(etag, "25f9e794323b453885f5181f1b624d0b");
        assert_eq!(sums.checksum_crc32c.as_deref(), Some(BASE64.encode(&[0xe3, 0x06, 0x92, 0x83]).as_str()));
        assert_eq!(sums.checksum_crc32.as_deref(), Some(BASE64.encode(&[0xcb, 0xf4, 0x39, 0x26]).as_str()));
        assert!(sums.checksum_sha256.is_none());
    }

    #[test]
    fn other_bytes_than_were_said_are_refused() {
        let good = BASE64.encode(&HEXLOWER.decode(b"25f9e794323b453885f5181f1b624d0b").unwrap());
        assert!(check(Said { md5: Some(good), bytes: Some(9), ..Said::default() }).is_ok());
        assert_eq!(check(Said { md5: Some("AAAA".into()), ..Said::default() }), Err(S3ErrorCode::BadDigest));
        assert_eq!(check(Said { bytes: Some(8), ..Said::default() }), Err(S3ErrorCode::IncompleteBody));
        let sums = Checksum { checksum_crc32: Some("AAAAAA==".into()), ..Checksum::default() };
        assert_eq!(check(Said { sums, ..Said::default() }), Err(S3ErrorCode::BadDigest));
    }
}
