//! Lists that are decoded up to a length and no further. An element takes far more memory than bytes on the wire. So a
//! message's length says little about the memory that its reader needs. It never keeps what it refuses.

use std::{fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{Error, SeqAccess, Visitor},
};

/// Decodes a list of at most `MOST` elements, for `#[serde(deserialize_with = "…")]`.
pub fn few<'de, const MOST: usize, T, D>(from: D) -> Result<Vec<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    from.deserialize_seq(Few::<MOST, T>(PhantomData))
}

struct Few<const MOST: usize, T>(PhantomData<T>);

impl<'de, const MOST: usize, T: Deserialize<'de>> Visitor<'de> for Few<MOST, T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at most {MOST} elements")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Self::Value, A::Error> {
        let announced = from.size_hint().unwrap_or_default();
        if announced > MOST {
            return Err(A::Error::invalid_length(announced, &self));
        }
        // Room for the rest is reserved when it comes.
        let mut all = Vec::with_capacity(announced.min(AT_FIRST));
        while let Some(element) = from.next_element()? {
            if all.len() == MOST {
                return Err(A::Error::invalid_length(all.len() + 1, &self));
            }
            all.push(element);
        }
        Ok(all)
    }
}

/// Elements for which there is room before the first has come.
const AT_FIRST: usize = 256;

#[cfg(test)]
mod tests {
    use serde::Serialize;

    use super::*;
    use crate::wire::codec::{self, CodecError};

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Three(#[serde(deserialize_with = "few::<3, _, _>")] Vec<u8>);

    #[test]
    fn a_list_is_decoded_up_to_its_bound_and_one_more_is_malformed() {
        for count in 0..=3 {
            let list = Three(vec![7; count]);
            assert_eq!(codec::decode::<Three>(&codec::encode(&list)), Ok(list));
        }
        assert_eq!(codec::decode::<Three>(&codec::encode(&Three(vec![7; 4]))), Err(CodecError::Malformed));
        // An announced length is not believed before its elements have come.
        let mut endless = codec::encode(&Three(vec![]));
        endless.pop();
        endless.extend([0xff, 0xff, 0xff, 0xff, 0x0f]);
        assert_eq!(codec::decode::<Three>(&endless), Err(CodecError::Malformed));
    }
}
