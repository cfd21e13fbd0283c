//! Rows of a VOTable as bytes (VOTable 1.4, 5.2 and 5.3): values of each column one after the other, network byte order. It
//! never knows where the bytes stood.

/// How the values of a column are laid out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BinaryField {
    kind: Kind,
    /// How many make up a value; `None` where each says it itself.
    count: Option<usize>,
    /// A text or a list, and no single value.
    is_array: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Boolean,
    Bit,
    UnsignedByte,
    Short,
    Int,
    Long,
    Char,
    UnicodeChar,
    Float,
    Double,
    /// Pairs of numbers, which are passed over.
    FloatComplex,
    DoubleComplex,
}

impl Kind {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "boolean" => Self::Boolean,
            "bit" => Self::Bit,
            "unsignedByte" => Self::UnsignedByte,
            "short" => Self::Short,
            "int" => Self::Int,
            "long" => Self::Long,
            "char" => Self::Char,
            "unicodeChar" => Self::UnicodeChar,
            "float" => Self::Float,
            "double" => Self::Double,
            "floatComplex" => Self::FloatComplex,
            "doubleComplex" => Self::DoubleComplex,
            _ => return None,
        })
    }

    /// Bytes of so many.
    fn bytes(self, count: usize) -> Option<usize> {
        let each = match self {
            Self::Bit => return Some(count.div_ceil(8)),
            Self::Boolean | Self::UnsignedByte | Self::Char => 1,
            Self::Short | Self::UnicodeChar => 2,
            Self::Int | Self::Float => 4,
            Self::Long | Self::Double | Self::FloatComplex => 8,
            Self::DoubleComplex => 16,
        };
        count.checked_mul(each)
    }

    /// One value as a text.
    fn text(self, bytes: &[u8]) -> String {
        let real = |number: f64, text: String| if number.is_nan() { String::new() } else { text };
        match (self, bytes) {
            (Self::Boolean, [b'T' | b't' | b'1']) => "true".into(),
            (Self::Boolean, [b'F' | b'f' | b'0']) => "false".into(),
            (Self::UnsignedByte, [byte]) => byte.to_string(),
            (Self::Short, &[a, b]) => i16::from_be_bytes([a, b]).to_string(),
            (Self::Int, &[a, b, c, d]) => i32::from_be_bytes([a, b, c, d]).to_string(),
            (Self::Float, &[a, b, c, d]) => {
                let number = f32::from_be_bytes([a, b, c, d]);
                real(number.into(), format!("{number:?}"))
            }
            (Self::Long, &[a, b, c, d, e, f, g, h]) => i64::from_be_bytes([a, b, c, d, e, f, g, h]).to_string(),
            (Self::Double, &[a, b, c, d, e, f, g, h]) => {
                let number = f64::from_be_bytes([a, b, c, d, e, f, g, h]);
                real(number, format!("{number:?}"))
            }
            _ => String::new(),
        }
    }
}

impl BinaryField {
    /// A column of this datatype and `arraysize`.
    pub(super) fn new(datatype: &str, arraysize: &str) -> Result<Self, String> {
        let kind = Kind::named(datatype).ok_or_else(|| format!("the datatype `{datatype}` is none of VOTable's"))?;
        let wrong = || format!("the array size `{arraysize}` makes no sense");
        let count = match arraysize {
            "" => Some(1),
            _ if arraysize.ends_with('*') => None,
            _ => {
                let sides = arraysize.split('x').map(|side| side.trim().parse::<usize>().map_err(|_| wrong()));
                let all = sides.collect::<Result<Vec<_>, _>>()?.into_iter().try_fold(1_usize, usize::checked_mul);
                // A value of no bytes would be a text for nothing: rows of a thousand such would fill the memory.
                Some(all.filter(|&count| count > 0).ok_or_else(wrong)?)
            }
        };
        Ok(Self { kind, count, is_array: !arraysize.is_empty() })
    }

    /// The value at the beginning of these bytes, which are moved on.
    fn take(&self, bytes: &mut &[u8]) -> Option<String> {
        let count = match self.count {
            Some(count) => count,
            None => {
                let (head, rest) = bytes.split_first_chunk::<4>()?;
                *bytes = rest;
                usize::try_from(u32::from_be_bytes(*head)).ok()?
            }
        };
        let (value, rest) = bytes.split_at_checked(self.kind.bytes(count)?)?;
        *bytes = rest;
        Some(match self.kind {
            Kind::Char => until_nul(&String::from_utf8_lossy(value)),
            Kind::UnicodeChar => {
                let units: Vec<u16> =
                    value.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]])).collect();
                until_nul(&String::from_utf16_lossy(&units))
            }
            // Nobody has asked for these yet.
            Kind::Bit | Kind::FloatComplex | Kind::DoubleComplex => String::new(),
            kind if self.is_array && count != 1 => {
                let each = kind.bytes(1)?;
                let all: Vec<_> = value.chunks_exact(each).map(|one| kind.text(one)).collect();
                all.join(" ")
            }
            kind => kind.text(value),
        })
    }
}

/// All rows.
pub(super) fn rows(
    fields: &[BinaryField],
    nulls: &[Option<String>],
    has_mask: bool,
    mut bytes: &[u8],
) -> Result<Vec<Vec<String>>, String> {
    let mut rows = Vec::new();
    let mut values = 0;
    let mask_bytes = if has_mask { fields.len().div_ceil(8) } else { 0 };
    let ended = |row: usize| format!("its bytes end within row {row}");
    while !bytes.is_empty() {
        let number = rows.len() + 1;
        let before = bytes.len();
        let (mask, rest) = bytes.split_at_checked(mask_bytes).ok_or_else(|| ended(number))?;
        bytes = rest;
        let mut row = Vec::with_capacity(fields.len());
        for (at, field) in fields.iter().enumerate() {
            let text = field.take(&mut bytes).ok_or_else(|| ended(number))?;
            let is_masked = mask.get(at / 8).is_some_and(|byte| byte << (at % 8) & 0x80 != 0);
            let is_null = nulls.get(at).is_some_and(|null| null.as_deref() == Some(text.as_str()));
            row.push(if is_masked || is_null { String::new() } else { text });
        }
        if bytes.len() == before {
            return Err("its rows have no bytes".into());
        }
        values += row.len();
        if values > VALUES_MAX {
            return Err(format!("it has more than {VALUES_MAX} values: split it"));
        }
        rows.push(row);
    }
    Ok(rows)
}

/// Values of a table at most. A boolean is a byte there, and a text here.
const VALUES_MAX: usize = if cfg!(test) { 10_000 } else { 16_000_000 };

fn until_nul(text: &str) -> String {
    text.split('\0').next().unwrap_or_default().trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn each_kind_of_value_has_its_text() {
        for (datatype, arraysize, bytes, text) in [
            ("boolean", "", &b"T"[..], "true"),
            ("boolean", "", b"?", ""),
            ("unsignedByte", "", b"\xff", "255"),
            ("short", "", b"\xff\xfe", "-2"),
            ("int", "2", b"\0\0\0\x01\xff\xff\xff\xff", "1 -1"),
            ("long", "", b"\x80\0\0\0\0\0\0\0", "-9223372036854775808"),
            ("float", "", &1.5_f32.to_be_bytes(), "1.5"),
            ("double", "", &0.1_f64.to_be_bytes(), "0.1"),
            ("char", "5", b"ab\0cd", "ab"),
            ("char", "*", b"\0\0\0\x03abc", "abc"),
            ("unicodeChar", "3*", b"\0\0\0\x02\x03\xb1\0b", "\u{3b1}b"),
            ("bit", "9", b"\xff\x80", ""),
            ("doubleComplex", "", &[0; 16], ""),
            ("short", "2x2", b"\0\x01\0\x02\0\x03\0\x04", "1 2 3 4"),
        ] {
            let field = BinaryField::new(datatype, arraysize).unwrap();
            let mut rest = bytes;
            assert_eq!(field.take(&mut rest).as_deref(), Some(text), "{datatype} {arraysize}");
            assert!(rest.is_empty(), "{datatype}");
        }
    }

    #[test]
    fn sizes_that_lie_are_refused() {
        for (datatype, arraysize) in
            [("text", ""), ("int", "x"), ("int", "99999999999x99999999999"), ("int", "-1"), ("int", "0")]
        {
            assert!(BinaryField::new(datatype, arraysize).is_err(), "{datatype} {arraysize}");
        }
        let huge = BinaryField::new("double", "*").unwrap();
        assert_eq!(huge.take(&mut &b"\xff\xff\xff\xff12345678"[..]), None);
        // Rows without a byte would be without end.
        assert!(rows(&[], &[], false, b"x").is_err());
        let boolean = BinaryField::new("boolean", "").unwrap();
        let why = rows(&[boolean], &[None], false, &vec![b'T'; VALUES_MAX + 1]).unwrap_err();
        assert!(why.contains("split it"), "{why}");
    }
}
