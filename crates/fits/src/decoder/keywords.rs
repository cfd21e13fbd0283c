//! The keywords of a header, for who writes an index. It never fails: what cannot be read is not there.

use fits_well::header::Header;

/// The keywords of one header.
#[derive(Clone, Copy, Debug)]
pub struct Keywords<'a> {
    header: &'a Header,
}

impl<'a> Keywords<'a> {
    pub(crate) fn new(header: &'a Header) -> Self {
        Self { header }
    }

    /// A text, without the blanks around it; `None` if it is empty.
    pub fn text(&self, name: &str) -> Option<&'a str> {
        self.header.get_text(name).ok().flatten().map(str::trim).filter(|text| !text.is_empty())
    }

    /// A finite number.
    pub fn real(&self, name: &str) -> Option<f64> {
        self.header.get_real(name).ok().flatten().filter(|number| number.is_finite())
    }

    /// A whole number.
    pub fn integer(&self, name: &str) -> Option<i64> {
        self.header.get_integer(name).ok().flatten()
    }
}
