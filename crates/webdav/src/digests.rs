//! Sums of a file's bytes under the names that storage elements and clients use (RFC 3230, RFC 9530): Adler-32, CRC-32C, MD5
//! and SHA-256. What is computed once is kept in the file's user metadata. It never takes the place of the cloud's own
//! digest, by which every read is verified.

use std::collections::BTreeMap;

use client::{Client, ClientError, Entry, EntryKind, FileContent, FileReader, Reason, Refusal};
use data_encoding::{BASE64, HEXLOWER};
use http::HeaderMap;
use md5::{Digest as _, Md5};
use ring::digest::{Context, SHA256};
use simd_adler32::Adler32;
use tokio::sync::Semaphore;

/// A kind of sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Adler32,
    Crc32c,
    Md5,
    Sha256,
}

impl Kind {
    /// In the order in which they are preferred where a client takes any.
    pub(crate) const ALL: [Self; 4] = [Self::Adler32, Self::Crc32c, Self::Md5, Self::Sha256];

    /// As headers have it (RFC 3230).
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Adler32 => "adler32",
            Self::Crc32c => "crc32c",
            Self::Md5 => "md5",
            Self::Sha256 => "sha-256",
        }
    }

    fn named(name: &str) -> Option<Self> {
        let name = name.trim().to_ascii_lowercase();
        Self::ALL.into_iter().find(|kind| kind.name() == name || kind.name().replace('-', "") == name)
    }

    /// The key of a file's user metadata.
    fn key(self) -> String {
        format!("{KEY_PREFIX}{}", self.name())
    }

    /// Whether it is written in hexadecimal digits. The others are written in base 64.
    fn is_hex(self) -> bool {
        matches!(self, Self::Adler32 | Self::Crc32c)
    }

    /// The bytes of a written sum, in whichever way it is written.
    fn read(self, text: &str) -> Option<Vec<u8>> {
        let text = text.trim().trim_matches(':');
        let hex = || data_encoding::HEXLOWER_PERMISSIVE.decode(text.as_bytes()).ok();
        let padded = || format!("{text:0>8}");
        let bytes = match self {
            Self::Adler32 | Self::Crc32c => data_encoding::HEXLOWER_PERMISSIVE.decode(padded().as_bytes()).ok(),
            Self::Md5 if text.len() == 32 => hex(),
            Self::Sha256 if text.len() == 64 => hex(),
            Self::Md5 | Self::Sha256 => BASE64.decode(text.as_bytes()).ok(),
        };
        bytes.filter(|bytes| bytes.len() == self.bytes())
    }

    fn bytes(self) -> usize {
        match self {
            Self::Adler32 | Self::Crc32c => 4,
            Self::Md5 => 16,
            Self::Sha256 => 32,
        }
    }
}

/// A sum as it is written.
fn written(kind: Kind, sum: &[u8]) -> String {
    if kind.is_hex() { HEXLOWER.encode(sum) } else { BASE64.encode(sum) }
}

/// Sums, by kind.
pub(crate) type Sums = BTreeMap<Kind, Vec<u8>>;

/// What a request says that the bytes have.
#[derive(Clone, Debug, Default)]
pub(crate) struct Announced(Sums);

impl Announced {
    /// From `Digest`, `Repr-Digest`, `Content-MD5` and `OC-Checksum`. Kinds that nobody here knows are left out.
    pub(crate) fn of(headers: &HeaderMap) -> Result<Self, String> {
        let mut sums = Sums::new();
        let texts = |name: &str| headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
        let lists = ["digest", "repr-digest", "content-digest"].into_iter().flat_map(texts);
        let pairs = lists.flat_map(|list| list.split(',')).filter_map(|pair| pair.split_once('='));
        let pairs = pairs.chain(texts("oc-checksum").filter_map(|text| text.split_once(':')));
        let pairs = pairs.chain(texts("content-md5").map(|sum| ("md5", sum)));
        for (name, sum) in pairs {
            let Some(kind) = Kind::named(name) else { continue };
            let sum =
                kind.read(sum).ok_or_else(|| format!("`{}` is no sum of the kind {}", sum.trim(), kind.name()))?;
            sums.insert(kind, sum);
        }
        Ok(Self(sums))
    }

    /// The kinds of its sums.
    pub(crate) fn kinds(&self) -> impl Iterator<Item = Kind> {
        self.0.keys().copied()
    }

    /// Says these, too. What was said first of a kind stays.
    pub(crate) fn add(&mut self, more: Self) {
        for (kind, sum) in more.0 {
            self.0.entry(kind).or_insert(sum);
        }
    }

    /// Refuses bytes that have other sums.
    pub(crate) fn check(&self, found: &Sums) -> Result<(), String> {
        let wrong =
            self.0.iter().find_map(|(kind, said)| Some((kind, said, found.get(kind).filter(|sum| *sum != said)?)));
        match wrong {
            Some((kind, said, found)) => Err(format!(
                "the bytes have another {} than was said: {} and not {}",
                kind.name(),
                written(*kind, found),
                written(*kind, said)
            )),
            None => Ok(()),
        }
    }
}

/// The kinds that `Want-Digest` or `Want-Repr-Digest` asks for, those first that are liked best. What is not wanted at all
/// has a quality of 0.
pub(crate) fn wanted(headers: &HeaderMap) -> Vec<Kind> {
    let mut wanted = Vec::new();
    for name in ["want-digest", "want-repr-digest"] {
        let texts = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
        for item in texts.flat_map(|text| text.split(',')) {
            let (kind, quality) = match item.split_once([';', '=']) {
                Some((kind, quality)) => (kind, quality.trim().trim_start_matches("q=").parse().unwrap_or(1.0)),
                None => (item, 1.0),
            };
            wanted.extend(Kind::named(kind).filter(|_| quality > 0.0).map(|kind| (kind, quality)));
        }
    }
    wanted.sort_by(|a: &(Kind, f64), b| b.1.total_cmp(&a.1));
    wanted.into_iter().map(|(kind, _)| kind).collect()
}

/// As the header `Digest` has them.
pub(crate) fn digest_header(sums: &Sums) -> String {
    sums.iter().map(|(kind, sum)| format!("{}={}", kind.name(), written(*kind, sum))).collect::<Vec<_>>().join(",")
}

/// As the header `Repr-Digest` has them, which knows two of the kinds.
pub(crate) fn repr_digest_header(sums: &Sums) -> Option<String> {
    let sums = sums.iter().filter(|(kind, _)| !kind.is_hex());
    let items: Vec<_> = sums.map(|(kind, sum)| format!("{}=:{}:", kind.name(), BASE64.encode(sum))).collect();
    (!items.is_empty()).then(|| items.join(", "))
}

/// Sums up bytes as they pass.
pub(crate) struct Summing {
    adler32: Option<Adler32>,
    crc32c: Option<u32>,
    md5: Option<Md5>,
    sha256: Option<Context>,
    bytes: u64,
}

impl Summing {
    /// Sums of these kinds.
    pub(crate) fn new(kinds: impl IntoIterator<Item = Kind>) -> Self {
        let mut summing = Self { adler32: None, crc32c: None, md5: None, sha256: None, bytes: 0 };
        for kind in kinds {
            match kind {
                Kind::Adler32 => summing.adler32 = Some(Adler32::new()),
                Kind::Crc32c => summing.crc32c = Some(0),
                Kind::Md5 => summing.md5 = Some(Md5::new()),
                Kind::Sha256 => summing.sha256 = Some(Context::new(&SHA256)),
            }
        }
        summing
    }

    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        if let Some(sum) = &mut self.adler32 {
            sum.write(bytes);
        }
        if let Some(sum) = &mut self.crc32c {
            *sum = crc32c::crc32c_append(*sum, bytes);
        }
        if let Some(sum) = &mut self.md5 {
            sum.update(bytes);
        }
        if let Some(sum) = &mut self.sha256 {
            sum.update(bytes);
        }
    }

    /// How many bytes have passed.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn finish(self) -> Sums {
        let adler32 = self.adler32.map(|sum| (Kind::Adler32, sum.finish().to_be_bytes().to_vec()));
        let crc32c = self.crc32c.map(|sum| (Kind::Crc32c, sum.to_be_bytes().to_vec()));
        let md5 = self.md5.map(|sum| (Kind::Md5, sum.finalize().to_vec()));
        let sha256 = self.sha256.map(|sum| (Kind::Sha256, sum.finish().as_ref().to_vec()));
        [adler32, crc32c, md5, sha256].into_iter().flatten().collect()
    }
}

/// Sums of so many bytes, as keys and values of a file. Each says of how many, since an append keeps the metadata of a file.
pub(crate) fn as_user_metadata(sums: &Sums, bytes: u64) -> BTreeMap<String, String> {
    sums.iter().map(|(kind, sum)| (kind.key(), format!("{bytes}:{}", written(*kind, sum)))).collect()
}

/// The sum that is kept with a file.
pub(crate) fn kept(content: &FileContent, kind: Kind) -> Option<Vec<u8>> {
    sum_in(content.user.get(&kind.key())?, content.bytes, kind)
}

fn sum_in(value: &str, bytes: u64, kind: Kind) -> Option<Vec<u8>> {
    let (of, sum) = value.split_once(':')?;
    (of == bytes.to_string()).then(|| kind.read(sum)).flatten()
}

/// The sum of a file: the one that is kept, or a new one over all of its bytes. With `keeps` that one is kept, if the reader
/// may write. It goes on when nobody waits any more, so that the next one who asks finds it.
pub(crate) async fn of_file(
    client: &Client,
    file: &FileReader,
    kind: Kind,
    keeps: bool,
) -> Result<Vec<u8>, ClientError> {
    let Some(content) = content_of(file.entry()) else { return Ok(Vec::new()) };
    if let Some(sum) = kept(content, kind) {
        return Ok(sum);
    }
    let (client, file, slice) = (client.clone(), file.clone(), content.slice);
    let summing = tokio::spawn(async move {
        // The semaphore is never closed.
        let _place = AT_ONCE.acquire().await;
        let mut summing = Summing::new([kind]);
        let mut pieces = file.stream(0..file.bytes());
        while let Some(piece) = pieces.next().await {
            summing.add(&piece?);
        }
        let sums = summing.finish();
        let changes =
            as_user_metadata(&sums, file.bytes()).into_iter().map(|(key, value)| (key, Some(value))).collect();
        if keeps && let Err(error) = client.change_metadata(&file.entry().path, slice, changes).await {
            // It is right all the same, and computed again next time.
            tracing::debug!(%error, path = %file.entry().path, "a sum is not kept with its file");
        }
        Ok(sums.into_values().next().unwrap_or_default())
    });
    summing.await.unwrap_or_else(|error| Err(Refusal::new(Reason::Failed, error.to_string()).into()))
}

/// The content of an entry that is a file.
pub(crate) fn content_of(entry: &Entry) -> Option<&FileContent> {
    match &entry.kind {
        EntryKind::File(content) => Some(content),
        EntryKind::Folder => None,
    }
}

/// The entity tag of a file: half of its digest, since some clients have little room for one.
pub(crate) fn tag_of(content: &FileContent) -> String {
    content.digest.to_string()[..32].to_owned()
}

/// What we ask others for: what storage elements keep, before what they would have to compute.
pub(crate) const WANTED: &str = "adler32,sha-256;q=0.5,md5;q=0.4,crc32c;q=0.3";

const KEY_PREFIX: &str = "dav.sum.";
/// Files that are summed up at once, for all who ask.
static AT_ONCE: Semaphore = Semaphore::const_new(4);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    /// Of the digits 1 to 9, of which everyone says theirs.
    fn sums() -> Sums {
        let mut summing = Summing::new(Kind::ALL);
        for piece in ["1234", "", "56789"] {
            summing.add(piece.as_bytes());
        }
        assert_eq!(summing.bytes(), 9);
        summing.finish()
    }

    #[test]
    fn sums_are_those_of_others_and_written_as_storage_elements_do() {
        assert_eq!(
            digest_header(&sums()),
            "adler32=091e01de,crc32c=e3069283,md5=JfnnlDI7RTiF9RgfG2JNCw==,sha-256=FeKw08M4keuw8e9gnsQZQgwg4yDOlMZfvIwzEkSOsiU="
        );
        assert_eq!(repr_digest_header(&sums()).unwrap().split(':').nth(1), Some("JfnnlDI7RTiF9RgfG2JNCw=="));
    }

    #[test]
    fn what_is_announced_is_compared_in_whichever_way_it_is_written() {
        let check = |name, value: &str| Announced::of(&headers(&[(name, value)])).map(|said| said.check(&sums()));
        for (name, value) in [
            ("digest", "adler32=091e01de"),
            ("digest", "ADLER32=091E01DE,unixsum=7"),
            ("oc-checksum", "ADLER32:091e01de"),
        ] {
            assert_eq!(check(name, value), Ok(Ok(())), "{value}");
        }
        assert!(check("digest", "adler32=00000001").unwrap().unwrap_err().contains("091e01de"));
        assert!(check("content-md5", "AAAAAAAAAAAAAAAAAAAAAA==").unwrap().is_err());
        assert!(check("digest", "md5=short").is_err());
        assert!(check("digest", "unixsum=7").unwrap().is_ok());
    }

    #[test]
    fn the_kinds_that_are_wanted_come_in_the_order_of_their_quality() {
        let of = |value| wanted(&headers(&[("want-digest", value)]));
        assert_eq!(of("sha;q=1, md5;q=0.3, ADLER32"), [Kind::Adler32, Kind::Md5]);
        assert_eq!(of("sha-256;q=0,sha256"), [Kind::Sha256]);
        assert!(of("").is_empty());
    }

    #[test]
    fn sums_of_fewer_bytes_are_not_of_the_file_any_more() {
        let user = as_user_metadata(&sums(), 9);
        assert_eq!(user["dav.sum.adler32"], "9:091e01de");
        assert!(sum_in("9:091e01de", 9, Kind::Adler32).is_some());
        assert!(sum_in("9:091e01de", 10, Kind::Adler32).is_none() && sum_in("091e01de", 9, Kind::Adler32).is_none());
    }
}
