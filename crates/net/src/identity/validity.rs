//! When a certificate begins and ends, read from the certificate itself. It serves the renewal: a role looks at its own
//! certificate, and the authority at one that it issued. Never anything that a stranger sent: TLS has checked those.

use std::time::Duration;

use super::{certificate, certificate_error};
use crate::NetError;

/// The life of a certificate, as times since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// Its first moment.
    pub from: Duration,
    /// Its last moment.
    pub until: Duration,
}

/// What is to be done about a certificate at some moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RenewalState {
    /// Nothing for so long.
    NotDue(Duration),
    /// It should be renewed.
    Due,
    /// It has ended: nobody takes it any more, also not to renew it.
    Expired,
}

impl Validity {
    /// The life of the first certificate of a PEM text.
    ///
    /// # Errors
    /// [`NetError::Certificate`] when the text is no certificate of the shape that the cloud's authority issues.
    pub fn of(certificate_pem: &str) -> Result<Self, NetError> {
        let operation = "read a certificate's end";
        let der = certificate(certificate_pem, operation)?;
        Self::of_der(&der).ok_or_else(|| certificate_error(operation, "it was not made by sector"))
    }

    /// When it should be renewed: when two thirds of the time from its issue to its end are over. It was issued a day
    /// behind its first moment, which lies in the past for clocks that are late (`AUTHORITY`'s `CLOCK_SKEW`).
    pub fn renew_at(&self) -> Duration {
        let issued = (self.from + super::authority::CLOCK_SKEW).min(self.until);
        issued + (self.until - issued) * 2 / 3
    }

    /// What is to be done about it at `now`, a time since 1970.
    pub fn renewal_state(&self, now: Duration) -> RenewalState {
        match self.renew_at().checked_sub(now) {
            _ if now > self.until => RenewalState::Expired,
            Some(wait) if !wait.is_zero() => RenewalState::NotDue(wait),
            _ => RenewalState::Due,
        }
    }

    /// Its last moment in milliseconds since 1970.
    pub fn until_unix_millis(&self) -> u64 {
        u64::try_from(self.until.as_millis()).unwrap_or(u64::MAX)
    }

    /// RFC 5280, 4.1: the fifth part of the certificate's inside, behind version, number, algorithm and issuer.
    fn of_der(der: &[u8]) -> Option<Self> {
        let (certificate, _) = value(der, SEQUENCE)?;
        let (mut inside, _) = value(certificate, SEQUENCE)?;
        for tag in [VERSION, INTEGER, SEQUENCE, SEQUENCE] {
            inside = value(inside, tag)?.1;
        }
        let (validity, _) = value(inside, SEQUENCE)?;
        let (from, rest) = time(validity)?;
        let (until, _) = time(rest)?;
        (from <= until).then_some(Self { from, until })
    }
}

/// The content of a DER value of this tag, and what stands behind it.
fn value(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (&first, rest) = der.split_first()?;
    let (&length, rest) = rest.split_first()?;
    if first != tag {
        return None;
    }
    let (length, rest) = match length {
        0..=0x7f => (usize::from(length), rest),
        // Two bytes of length are 64 KiB, more than any certificate.
        0x81 | 0x82 => {
            let (length, rest) = rest.split_at_checked(usize::from(length & 0x7f))?;
            (length.iter().fold(0, |sum, &byte| sum << 8 | usize::from(byte)), rest)
        }
        _ => return None,
    };
    rest.split_at_checked(length)
}

/// A time in one of its two forms, `YYMMDDhhmmssZ` until 2049 and `YYYYMMDDhhmmssZ` after, and what stands behind it.
fn time(der: &[u8]) -> Option<(Duration, &[u8])> {
    let (text, rest, year_digits) = match *der.first()? {
        UTC_TIME => {
            let (text, rest) = value(der, UTC_TIME)?;
            (text, rest, 2)
        }
        _ => {
            let (text, rest) = value(der, GENERALIZED_TIME)?;
            (text, rest, 4)
        }
    };
    let digits = text.strip_suffix(b"Z")?;
    if digits.len() != year_digits + 10 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = |from: usize, count: usize| {
        digits[from..from + count].iter().fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0'))
    };
    let year = match (year_digits, number(0, year_digits)) {
        (2, year) if year >= 50 => 1900 + year,
        (2, year) => 2000 + year,
        (_, year) => year,
    };
    let part = |at: usize| number(year_digits + 2 * at, 2);
    let days = days_since_1970(year, part(0), part(1))?;
    Some((Duration::from_secs(((days * 24 + part(2)) * 60 + part(3)) * 60 + part(4)), rest))
}

/// Days from 1970-01-01 to this day of the Gregorian calendar.
fn days_since_1970(year: u64, month: u64, day: u64) -> Option<u64> {
    if !(1970..=9999).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let is_leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let leap_days = (1970..year).filter(|&year| is_leap(year)).count() as u64;
    let before = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334][month as usize - 1];
    let this_leap_day = u64::from(month > 2 && is_leap(year));
    Some((year - 1970) * 365 + leap_days + before + this_leap_day + day - 1)
}

const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 0x02;
/// Context tag 0: the version of the certificate's form.
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::time::{SystemTime, UNIX_EPOCH};

    use super::*;
    use crate::identity::{Authority, NewKey, ProvedKey, Subject, authority::CLOCK_SKEW};

    #[test]
    fn a_certificate_tells_its_end_and_when_to_renew_it() {
        let authority = Authority::create("cloud").unwrap();
        let key = NewKey::generate().unwrap();
        let proved = ProvedKey::check(&key.request(None).unwrap(), None).unwrap();
        for (days, year_is_past_2050) in [(90, false), (36_500, true)] {
            let life = Duration::from_secs(days * 86_400);
            let subject = Subject { name: "node-1", role: "node-1" };
            let before = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
            let certificate_pem = authority.certify(&subject, &proved, life).unwrap();
            let after = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
            let validity = Validity::of(&certificate_pem).unwrap();
            let second = Duration::from_secs(1);
            assert!(validity.until + second > before + life && validity.until <= after + life);
            assert_eq!(validity.until > Duration::from_secs(80 * 31_556_952), year_is_past_2050);
            let renewed_after = validity.renew_at() - before + second;
            assert!(renewed_after >= life * 2 / 3 && renewed_after <= life * 2 / 3 + (after - before) + 2 * second);
        }
    }

    #[test]
    fn a_certificate_is_young_then_due_and_in_the_end_worth_nothing() {
        let second = Duration::from_secs;
        let day = CLOCK_SKEW;
        // Issued at day 10, for 90 seconds.
        let validity = Validity { from: day * 9, until: day * 10 + second(90) };
        let at = |seconds| validity.renewal_state(day * 10 + second(seconds));
        assert_eq!((at(0), at(59)), (RenewalState::NotDue(second(60)), RenewalState::NotDue(second(1))));
        assert_eq!((at(60), at(90)), (RenewalState::Due, RenewalState::Due));
        assert_eq!(at(91), RenewalState::Expired);
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (text, seconds) in [
            (&b"700101000000Z"[..], 0),
            (b"000229235959Z", 951_868_799),
            (b"260101000000Z", 1_767_225_600),
            (b"21000301000000Z", 4_107_542_400),
        ] {
            let tag = if text.len() == 13 { UTC_TIME } else { GENERALIZED_TIME };
            let der = [&[tag, text.len() as u8], text, b"rest"].concat();
            assert_eq!(time(&der), Some((Duration::from_secs(seconds), &b"rest"[..])), "{text:?}");
        }
        for text in [&b"001301000000Z"[..], b"000132000000Z", b"0001010000Z", b"0001010000zzZ", b"000101000000"] {
            assert_eq!(time(&[&[UTC_TIME, text.len() as u8], text].concat()), None, "{text:?}");
        }
    }

    #[test]
    fn what_is_cut_short_or_is_no_certificate_has_no_end() {
        let pem = Authority::create("cloud").unwrap().certificate_pem().to_owned();
        let der = certificate(&pem, "test").unwrap();
        assert!(Validity::of_der(&der).is_some());
        for cut in 0..der.len() {
            assert_eq!(Validity::of_der(&der[..cut]), None);
        }
        assert!(Validity::of("no certificate").is_err());
    }
}
