//! What one segment knows of sites: for each, how many visitors came new in a week and how many were marked. Sums of
//! these are the answer. It serves `malstone`. It never has a site twice in what one segment sends.

use udf::{FunctionError, Input, Output};

/// A week (0 for the first, and for the whole period), with the visitors or events that count from then on. The last
/// number is those that count as marked from then on.
pub(crate) type Cell = (u8, u64, u64);

/// Sends sites to the buckets of their ranges.
pub(crate) struct PartialWriter {
    /// The first site of each bucket but the first.
    cuts: Vec<u64>,
    bytes: Vec<u8>,
    sites: u64,
    bucket: u64,
}

impl PartialWriter {
    /// A writer by the parameter `cuts`: numbers separated by commas, which ascend.
    pub(crate) fn new(input: &Input<'_>) -> Result<Self, FunctionError> {
        let text = input.parameter("cuts").unwrap_or_default();
        let cuts: Option<Vec<u64>> =
            text.split(',').filter(|word| !word.is_empty()).map(|word| word.parse().ok()).collect();
        let cuts = cuts.filter(|cuts| cuts.is_sorted());
        let wrong = || FunctionError::new("the parameter `cuts` must be numbers that ascend, with commas between them");
        Ok(Self { cuts: cuts.ok_or_else(wrong)?, bytes: Vec::new(), sites: 0, bucket: 0 })
    }

    /// Adds a site; sites must ascend.
    pub(crate) fn add(&mut self, site: u64, cells: &[Cell], output: &mut Output<'_>) -> Result<(), FunctionError> {
        let bucket = self.cuts.partition_point(|cut| *cut <= site) as u64;
        if bucket != self.bucket || self.bytes.len() >= BATCH_BYTES {
            self.emit(output)?;
            self.bucket = bucket;
        }
        push_number(site, &mut self.bytes);
        push_number(cells.len() as u64, &mut self.bytes);
        for (week, visitors, marked) in cells {
            self.bytes.push(*week);
            push_number(*visitors, &mut self.bytes);
            push_number(*marked, &mut self.bytes);
        }
        self.sites += 1;
        Ok(())
    }

    /// Emits what is left.
    pub(crate) fn emit(&mut self, output: &mut Output<'_>) -> Result<(), FunctionError> {
        if self.sites > 0 {
            output.emit_records(self.bucket, &self.bytes, self.sites)?;
        }
        self.bytes.clear();
        self.sites = 0;
        Ok(())
    }
}

/// Calls `each` with the cells of a bucket, and the sites that they are of.
pub(crate) fn read_partials(bytes: &[u8], mut each: impl FnMut(u64, Cell)) -> Result<(), FunctionError> {
    let mut rest = bytes;
    while !rest.is_empty() {
        read_site(&mut rest, &mut each).ok_or_else(|| FunctionError::new("the bucket ends within a site"))?;
    }
    Ok(())
}

fn read_site(rest: &mut &[u8], each: &mut impl FnMut(u64, Cell)) -> Option<()> {
    let site = take_number(rest)?;
    for _ in 0..take_number(rest)? {
        let (week, behind) = rest.split_first()?;
        *rest = behind;
        each(site, (*week, take_number(rest)?, take_number(rest)?));
    }
    Some(())
}

/// Appends a number, seven bits a byte, the lowest first; a byte that is not the last has its highest bit set.
fn push_number(mut number: u64, bytes: &mut Vec<u8>) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

#[inline]
fn take_number(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..u64::BITS).step_by(7) {
        let (byte, behind) = rest.split_first()?;
        *rest = behind;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

/// Bytes of a full batch.
const BATCH_BYTES: usize = 256 << 10;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use udf::{Collected, RecordFormat};

    use super::*;

    fn writer(cuts: &str) -> Result<PartialWriter, FunctionError> {
        let parameters: Vec<(String, String)> = vec![("cuts".into(), cuts.into())];
        PartialWriter::new(&Input::new(b"", RecordFormat::File).with_parameters(&parameters))
    }

    #[test]
    fn sites_go_to_the_bucket_of_their_range_and_come_back() {
        let mut collected = Collected::default();
        let mut writer = writer("10,10,9999999999").unwrap();
        let sites = [
            (0, vec![(0, 1, 0)]),
            (9, vec![(3, 127, 128), (52, u64::MAX, 1)]),
            (10, vec![(0, 3, 1)]),
            (1 << 63, vec![(1, 2, 3)]),
        ];
        for (site, cells) in &sites {
            writer.add(*site, cells, &mut Output::new(&mut collected)).unwrap();
        }
        writer.emit(&mut Output::new(&mut collected)).unwrap();
        let read = |bucket| {
            let mut found = Vec::new();
            read_partials(collected.bucket(bucket), |site, cell| found.push((site, cell))).unwrap();
            found
        };
        assert_eq!(read(0), [(0, (0, 1, 0)), (9, (3, 127, 128)), (9, (52, u64::MAX, 1))]);
        assert_eq!((read(1), read(2), read(3)), (vec![], vec![(10, (0, 3, 1))], vec![(1 << 63, (1, 2, 3))]));
        assert_eq!(collected.records, 4);
        let cut = &collected.bucket(0)[..collected.bucket(0).len() - 1];
        assert_eq!(read_partials(cut, |_, _| ()).unwrap_err().message(), "the bucket ends within a site");
    }

    #[test]
    fn cuts_that_are_none_are_refused() {
        for wrong in ["x", "2,1", "-1", "1;2"] {
            assert!(writer(wrong).is_err(), "{wrong}");
        }
        assert!(writer("").is_ok());
    }
}
