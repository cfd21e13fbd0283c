//! When a certificate begins and ends, read from the certificate itself. It serves the renewal: a role looks at its own
//! certificate, and the authority at one that it issued. Never anything that a stranger sent: TLS has checked those.

use std::time::Duration;

use x509_parser::{certificate::X509Certificate, prelude::FromDer, time::ASN1Time};

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

    fn of_der(der: &[u8]) -> Option<Self> {
        let (_, certificate) = X509Certificate::from_der(der).ok()?;
        let validity = certificate.validity();
        let (from, until) = (since_1970(validity.not_before)?, since_1970(validity.not_after)?);
        (from <= until).then_some(Self { from, until })
    }
}

fn since_1970(time: ASN1Time) -> Option<Duration> {
    u64::try_from(time.timestamp()).ok().map(Duration::from_secs)
}

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

    /// A certificate that is valid from this day to 2200, in DER.
    fn beginning(year: i32, month: u8, day: u8) -> Vec<u8> {
        let mut params = rcgen::CertificateParams::new(["node-1".to_owned()]).unwrap();
        params.not_before = rcgen::date_time_ymd(year, month, day);
        params.not_after = rcgen::date_time_ymd(2200, 1, 1);
        params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        for ((year, month, day), seconds) in [
            ((1970, 1, 1), 0),
            ((2000, 2, 29), 951_782_400),
            ((2026, 1, 1), 1_767_225_600),
            ((2100, 3, 1), 4_107_542_400),
        ] {
            let validity = Validity::of_der(&beginning(year, month, day)).unwrap();
            assert_eq!(validity.from, Duration::from_secs(seconds), "{year}-{month}-{day}");
        }
    }

    #[test]
    fn a_certificate_with_a_date_that_is_none_has_no_end() {
        let der = beginning(2001, 3, 4);
        let written = b"010304000000Z";
        let at = der.windows(written.len()).position(|part| part == written).unwrap();
        for text in [b"011304000000Z", b"010332000000Z", b"0103040000zzZ", b"690304000000Z"] {
            let mut forged = der.clone();
            forged[at..at + text.len()].copy_from_slice(text);
            assert_eq!(Validity::of_der(&forged), None, "{text:?}");
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
