//! The network for words: loses, doubles, delays and so reorders datagrams, and cuts off whole processes, as its weather
//! and the seed say. Never looks into a datagram.

use std::{collections::BTreeSet, time::Duration};

use fastrand::Rng;

use crate::queue::{Event, Queue, Who};

/// See the module.
#[derive(Debug)]
pub(crate) struct Network {
    weather: Weather,
    /// Who can neither be heard nor hear.
    cut: BTreeSet<Who>,
    /// What it did to datagrams.
    pub(crate) counts: Counts,
}

/// How bad it is; shares in 1,000.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Weather {
    loss: u32,
    doubled: u32,
    /// Shares of datagrams that take up to [`DELAY_MAX`].
    late: u32,
    /// Usual delay, from and to, in microseconds.
    delay_micros: (u64, u64),
}

/// Proof that the network was bad.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Datagrams that were sent.
    pub sent: u64,
    /// Of these, lost.
    pub lost: u64,
    /// Of these, delivered twice.
    pub doubled: u64,
}

impl Weather {
    /// Nothing is lost.
    pub(crate) const CALM: Self = Self { loss: 0, doubled: 0, late: 0, delay_micros: (200, 2_000) };

    /// Anything from a good day to a storm.
    pub(crate) fn draw(rng: &mut Rng) -> Self {
        let delay = rng.u64(100..40_000);
        let is_bad = rng.u8(..3) == 0;
        Self {
            loss: if is_bad { rng.u32(50..300) } else { rng.u32(..50) },
            doubled: rng.u32(..60),
            late: rng.u32(..20),
            delay_micros: (delay, delay + rng.u64(100..60_000)),
        }
    }
}

impl Network {
    pub(crate) fn new(weather: Weather) -> Self {
        Self { weather, cut: BTreeSet::new(), counts: Counts::default() }
    }

    pub(crate) fn set_weather(&mut self, weather: Weather) {
        self.weather = weather;
    }

    /// Sends a datagram on its way, if it gets anywhere.
    pub(crate) fn launch(
        &mut self,
        now: Duration,
        rng: &mut Rng,
        queue: &mut Queue,
        from: Who,
        to: Who,
        datagram: Vec<u8>,
    ) {
        self.counts.sent += 1;
        if self.is_cut(from, to) || rng.u32(..1000) < self.weather.loss {
            self.counts.lost += 1;
            return;
        }
        if rng.u32(..1000) < self.weather.doubled {
            self.counts.doubled += 1;
            queue.push(now + self.delay(rng), Event::Datagram { to, datagram: datagram.clone() });
        }
        queue.push(now + self.delay(rng), Event::Datagram { to, datagram });
    }

    /// How long something takes now.
    pub(crate) fn delay(&self, rng: &mut Rng) -> Duration {
        if rng.u32(..1000) < self.weather.late {
            return Duration::from_micros(rng.u64(..DELAY_MAX.as_micros() as u64));
        }
        let (from, to) = self.weather.delay_micros;
        Duration::from_micros(rng.u64(from..=to))
    }

    /// Cuts someone off, or ends that.
    pub(crate) fn set_cut(&mut self, who: Who, is_cut: bool) {
        if is_cut {
            self.cut.insert(who);
        } else {
            self.cut.remove(&who);
        }
    }

    /// Whether nothing passes between two.
    pub(crate) fn is_cut(&self, a: Who, b: Who) -> bool {
        self.cut.contains(&a) || self.cut.contains(&b)
    }

    /// All links work again, and nothing is lost any more.
    pub(crate) fn heal(&mut self) {
        self.cut.clear();
        self.weather = Weather::CALM;
    }
}

/// The longest that a datagram is on its way. Whoever gave up a session and waited for so long knows that nothing of
/// it will arrive any more.
pub(crate) const DELAY_MAX: Duration = Duration::from_secs(2);
