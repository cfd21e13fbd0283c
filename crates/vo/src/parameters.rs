//! The parameters of a request (DALI 1.1, 2.1). Names have no case, and values keep their order. The query and a form in
//! the body are alike. It never refuses a name that it does not know: services must ignore those.

use std::str::FromStr;

use percent_encoding::percent_decode_str;

use crate::Fault;

/// The parameters of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DaliParameters {
    pairs: Vec<(String, String)>,
}

impl DaliParameters {
    /// Those of a query or of a body of type `application/x-www-form-urlencoded`. What is no text becomes `\u{fffd}`.
    pub fn parse(encoded: &str) -> Self {
        let decode = |text: &str| percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned();
        let pairs = encoded.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(name), decode(value))
        });
        Self { pairs: pairs.collect() }
    }

    /// Adds others behind these.
    #[must_use]
    pub fn and(mut self, others: Self) -> Self {
        self.pairs.extend(others.pairs);
        self
    }

    /// All of them, as they were written.
    pub fn pairs(&self) -> &[(String, String)] {
        &self.pairs
    }

    /// All values of a name, without those that are empty.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let named = self.pairs.iter().filter(move |(known, _)| known.eq_ignore_ascii_case(name));
        named.map(|(_, value)| value.trim()).filter(|value| !value.is_empty())
    }

    /// The value of a name that may be given once.
    ///
    /// # Errors
    /// `MultiValued` if it is given several times.
    pub fn one<'a>(&'a self, name: &'a str) -> Result<Option<&'a str>, Fault> {
        let mut values = self.all(name);
        match (values.next(), values.next()) {
            (value, None) => Ok(value),
            (_, Some(_)) => Err(Fault::MultiValued(name.to_owned())),
        }
    }

    /// All values of a name, read.
    ///
    /// # Errors
    /// `Usage` if one cannot be read, with its name.
    pub fn read<T: FromStr<Err: ToString>>(&self, name: &str) -> Result<Vec<T>, Fault> {
        self.all(name).map(|value| read(name, value)).collect()
    }

    /// The one value of a name, read.
    ///
    /// # Errors
    /// `MultiValued` or `Usage`, with its name.
    pub fn read_one<T: FromStr<Err: ToString>>(&self, name: &str) -> Result<Option<T>, Fault> {
        self.one(name)?.map(|value| read(name, value)).transpose()
    }
}

impl FromIterator<(String, String)> for DaliParameters {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(pairs: I) -> Self {
        Self { pairs: pairs.into_iter().collect() }
    }
}

fn read<T: FromStr<Err: ToString>>(name: &str, value: &str) -> Result<T, Fault> {
    value.parse().map_err(|error: T::Err| {
        let why = error.to_string();
        Fault::Usage(format!("{name}: {}", why.strip_prefix("UsageError: ").unwrap_or(&why)))
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::Interval;

    #[test]
    fn names_have_no_case_and_values_keep_their_order() {
        let given = DaliParameters::parse("ID=%2Fsky%2Fa.fits%231&circle=1+2%203&Circle=4&x&POS=&=y&&RUNID=a=b");
        assert_eq!(given.one("id"), Ok(Some("/sky/a.fits#1")));
        assert_eq!(given.all("CIRCLE").collect::<Vec<_>>(), ["1 2 3", "4"]);
        assert_eq!(given.one("CIRCLE"), Err(Fault::MultiValued("CIRCLE".into())));
        assert_eq!((given.one("pos"), given.one("none")), (Ok(None), Ok(None)));
        assert_eq!(given.one("runid"), Ok(Some("a=b")));
        let both = DaliParameters::parse("A=1").and(DaliParameters::parse("a=2"));
        assert_eq!(both.all("a").collect::<Vec<_>>(), ["1", "2"]);
        assert_eq!(DaliParameters::parse("a=%ff%zz").one("a").unwrap(), Some("\u{fffd}%zz"));
    }

    #[test]
    fn a_value_that_cannot_be_read_is_named() {
        let given = DaliParameters::parse("BAND=2+1&MAXREC=x&TIME=1+2");
        assert_eq!(given.read_one::<Interval>("TIME").unwrap(), Some(Interval { low: 1.0, high: 2.0 }));
        let text = |fault: Fault| fault.to_string();
        assert!(
            text(given.read::<Interval>("BAND").unwrap_err()).starts_with("UsageError: BAND: `2 1` is no interval")
        );
        assert!(text(given.read_one::<u64>("MAXREC").unwrap_err()).starts_with("UsageError: MAXREC: "));
    }
}
