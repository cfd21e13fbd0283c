//! The cuts between the key ranges of buckets (Sector/Sphere paper, Figure 3: T0, T1, …). Serves `partition` and
//! callers that choose the cuts from a sample. It never takes the sample: the caller passes it in.

use std::{fmt, str::FromStr};

/// Ascending keys; with n − 1 of them there are n buckets. A key's bucket is the number of cuts that are not above
/// the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cuts(Vec<Vec<u8>>);

impl Cuts {
    /// Chooses cuts that give `buckets` buckets about the same number of keys. The sample is keys of `key_bytes`
    /// bytes, one after the other. Without a sample, the first two bytes of the keys are taken as evenly spread.
    pub fn choose(sample: &[u8], key_bytes: usize, buckets: u32) -> Self {
        let buckets = u64::from(buckets.max(1));
        let mut keys: Vec<&[u8]> = sample.chunks_exact(key_bytes.max(1)).collect();
        keys.sort_unstable();
        let cut = |bucket: u64| match keys.len() as u64 {
            0 => {
                let even = (bucket * 0x1_0000 / buckets) as u16;
                even.to_be_bytes()[..key_bytes.clamp(1, 2)].to_vec()
            }
            count => keys[(bucket * count / buckets) as usize].to_vec(),
        };
        Self((1..buckets).map(cut).collect())
    }

    /// The cuts, in ascending order.
    pub fn keys(&self) -> &[Vec<u8>] {
        &self.0
    }

    /// A table that finds buckets quickly.
    pub(crate) fn table(self) -> CutTable {
        let mut starts = vec![0u32; 0x1_0001];
        for cut in &self.0 {
            starts[usize::from(first_two(cut)) + 1] += 1;
        }
        for at in 1..starts.len() {
            starts[at] += starts[at - 1];
        }
        CutTable { starts, cuts: self.0 }
    }
}

impl FromStr for Cuts {
    type Err = String;

    /// Reads keys in hexadecimal, separated by commas; an empty text means no cuts.
    fn from_str(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Ok(Self(Vec::new()));
        }
        let cuts: Vec<Vec<u8>> = text.split(',').map(from_hex).collect::<Result<_, _>>()?;
        match cuts.windows(2).position(|pair| pair[0] > pair[1]) {
            Some(at) => Err(format!("cut {} is below the one before it: cuts must ascend", at + 1)),
            None => Ok(Self(cuts)),
        }
    }
}

impl fmt::Display for Cuts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, cut) in self.0.iter().enumerate() {
            write!(f, "{}{}", if number == 0 { "" } else { "," }, to_hex(cut))?;
        }
        Ok(())
    }
}

/// Cuts behind a table on the first two bytes of a key. The table leaves few cuts to compare with, mostly none.
pub(crate) struct CutTable {
    /// For each value of the first two bytes, the number of cuts that begin with less.
    starts: Vec<u32>,
    cuts: Vec<Vec<u8>>,
}

impl CutTable {
    /// The bucket of a key.
    pub(crate) fn bucket(&self, key: &[u8]) -> u64 {
        let first = usize::from(first_two(key));
        let (below, not_above) = (self.starts[first] as usize, self.starts[first + 1] as usize);
        if below == not_above {
            return below as u64;
        }
        (below + self.cuts[below..not_above].partition_point(|cut| cut.as_slice() <= key)) as u64
    }
}

/// The first two bytes of a key as a number; a missing one counts as 0, which keeps the order.
fn first_two(key: &[u8]) -> u16 {
    u16::from_be_bytes([key.first().copied().unwrap_or(0), key.get(1).copied().unwrap_or(0)])
}

/// Bytes as hexadecimal digits.
pub(crate) fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Bytes from hexadecimal digits, at least one.
pub(crate) fn from_hex(text: &str) -> Result<Vec<u8>, String> {
    let error = || format!("`{}` is not a key in hexadecimal", text.chars().take(64).collect::<String>());
    if text.is_empty() || !text.len().is_multiple_of(2) || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(error());
    }
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).map_err(|_| error())).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::testing::random_bytes;

    #[test]
    fn cuts_print_and_parse_and_bad_ones_are_named() {
        let cuts: Cuts = "00ff,1234,1234,ff".parse().unwrap();
        assert_eq!(cuts.to_string().parse(), Ok(cuts));
        assert_eq!("".parse::<Cuts>().unwrap().keys().len(), 0);
        assert!("12,11".parse::<Cuts>().unwrap_err().contains("cut 1 is below"));
        for text in [",", "1", "zz", "12,", "+1", "é1"] {
            assert!(text.parse::<Cuts>().unwrap_err().contains("hexadecimal"), "{text}");
        }
    }

    #[test]
    fn chosen_cuts_divide_the_sample_evenly() {
        let sample = random_bytes(7, 10 * 10_000);
        let cuts = Cuts::choose(&sample, 10, 16);
        assert_eq!(cuts.keys().len(), 15);
        let table = cuts.table();
        let mut counts = [0; 16];
        for key in sample.chunks(10) {
            counts[table.bucket(key) as usize] += 1;
        }
        assert!(counts.iter().all(|count| *count == 625), "{counts:?}");
    }

    #[test]
    fn without_a_sample_the_key_space_is_divided_and_one_key_makes_empty_buckets() {
        assert_eq!(Cuts::choose(b"", 10, 4).to_string(), "4000,8000,c000");
        assert_eq!(Cuts::choose(b"", 1, 2).to_string(), "80");
        assert_eq!(Cuts::choose(b"", 10, 1).to_string(), "");
        assert_eq!(Cuts::choose(b"same", 4, 3).to_string(), "73616d65,73616d65");
    }

    #[test]
    fn the_table_agrees_with_counting_cuts() {
        for (seed, cut_bytes, count, mask) in [(1, 10, 40, 0xff), (2, 1, 9, 0xff), (3, 3, 300, 0x03), (4, 2, 0, 0xff)] {
            let mut keys: Vec<Vec<u8>> = random_bytes(seed, cut_bytes * count)
                .chunks(cut_bytes)
                .map(|cut| cut.iter().map(|byte| byte & mask).collect())
                .collect();
            keys.sort();
            let table = Cuts(keys.clone()).table();
            for key in random_bytes(seed + 100, 50_000)
                .chunks(5)
                .map(|key| [key[0] & mask, key[1] & mask, key[2] & mask, 0, key[4]])
            {
                let slow = keys.iter().filter(|cut| cut.as_slice() <= &key[..]).count() as u64;
                assert_eq!(table.bucket(&key), slow);
            }
        }
    }
}
