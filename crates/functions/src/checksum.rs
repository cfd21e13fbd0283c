//! Record hashes for checksums. A sum over all records does not depend on their order, so a sort does not change it.
//! Serves the verification of terasort and of the demo. These hashes never choose buckets (`udf::key_hash` does) and
//! never protect against an adversary.

/// A 64-bit hash of a record. It takes the length, then eight bytes at a time, little-endian, the last filled up with
/// zeros. Each step is a bijection of the state.
pub(crate) fn record_hash(record: &[u8]) -> u64 {
    let (words, rest) = record.as_chunks::<8>();
    let mut hash = mix(record.len() as u64 ^ SEED);
    for word in words {
        hash = mix(hash ^ u64::from_le_bytes(*word));
    }
    if !rest.is_empty() {
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        hash = mix(hash ^ u64::from_le_bytes(last));
    }
    hash
}

/// A bijection of 64 bits that spreads each bit over the others: it multiplies by an odd number and folds the upper
/// half down.
pub(crate) fn mix(value: u64) -> u64 {
    let value = value.wrapping_mul(MULTIPLIER);
    value ^ (value >> 32)
}

/// The fraction of the golden ratio, which is odd and without pattern.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
/// So that an empty record does not hash to 0.
const SEED: u64 = 0x5ec7_0a5e_c70a_5eed;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn one_flipped_bit_a_zero_more_or_two_swapped_words_change_the_hash() {
        let record: Vec<u8> = (0..100).collect();
        let mut hashes = BTreeSet::from([record_hash(&record)]);
        for bit in 0..800 {
            let mut other = record.clone();
            other[bit / 8] ^= 1 << (bit % 8);
            hashes.insert(record_hash(&other));
        }
        let mut swapped = record.clone();
        swapped.rotate_left(8);
        hashes.insert(record_hash(&swapped));
        hashes.insert(record_hash(&[&record[..], &[0]].concat()));
        assert_eq!(hashes.len(), 803);
    }
}
