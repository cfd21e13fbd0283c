//! What a metric is: its name, kind, unit, labels, help and roles. It never has a value.

/// A metric: what it is called and what it means, but not how much it is.
#[derive(Debug)]
pub struct Metric {
    /// Its name as it is read: with prefix, unit, and `_total` where it only grows.
    pub name: &'static str,
    /// Whether it only grows.
    pub kind: MetricKind,
    /// Its unit; `None` for a plain number.
    pub unit: Option<MetricUnit>,
    /// Its labels, in the order in which their values are given.
    pub labels: &'static [&'static str],
    /// What it is, in one sentence.
    pub help: &'static str,
    /// The roles that have it.
    pub roles: &'static [MetricRole],
}

/// Whether a metric only grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// It grows from the role's start.
    Counter,
    /// It goes up and down.
    Gauge,
}

/// The unit of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricUnit {
    /// Bytes.
    Bytes,
    /// Seconds.
    Seconds,
    /// A share: 1 is all of it.
    Ratio,
}

/// A role that counts something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricRole {
    /// The master.
    Master,
    /// A node.
    Node,
    /// The security server.
    Security,
    /// A gateway.
    Gateway,
}

impl Metric {
    /// Its name without what the library adds by itself: the prefix, the unit, and `_total`.
    pub(super) fn bare_name(&self) -> &'static str {
        let unit = match self.unit {
            Some(MetricUnit::Bytes) => "_bytes",
            Some(MetricUnit::Seconds) => "_seconds",
            Some(MetricUnit::Ratio) => "_ratio",
            None => "",
        };
        let name = self.name.strip_prefix(PREFIX).unwrap_or(self.name).trim_start_matches('_');
        let name = name.strip_suffix("_total").unwrap_or(name);
        name.strip_suffix(unit).unwrap_or(name)
    }
}

/// What stands before every name.
pub(super) const PREFIX: &str = "sector";
