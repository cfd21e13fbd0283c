//! The hash by which keys find their bucket. Serves the path *job*. It is part of the interface: it never changes,
//! since functions in other languages and other releases must bring equal keys to the same bucket.

/// FNV-1a with 64 bits: offset basis `0xcbf29ce484222325`, prime `0x100000001b3`, one byte after the other.
pub fn key_hash(key: &[u8]) -> u64 {
    key.iter().fold(OFFSET_BASIS, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(PRIME))
}

/// FNV's 64-bit offset basis.
const OFFSET_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
/// FNV's 64-bit prime.
const PRIME: u64 = 0x0000_0100_0000_01b3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_vectors_of_fnv_1a_hold() {
        assert_eq!(key_hash(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(key_hash(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(key_hash(b"foobar"), 0x8594_4171_f739_67e8);
    }
}
