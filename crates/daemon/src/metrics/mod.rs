//! What a role counts, in the text format of Prometheus. All metrics are [defined](definitions) in one table. A role's
//! driver reads the state at the moment that someone asks, into [`Readings`]; the library writes it. It never counts by
//! user, path or address, and no rule-keeper knows of it.

pub mod definitions;
mod label_counts;
mod metric;
mod page;
mod port;
mod readings;

pub use definitions::METRICS;
pub use label_counts::LabelCounts;
pub use metric::{Metric, MetricKind, MetricRole, MetricUnit};
pub use page::page;
pub use port::{MetricsPort, MetricsQuestion};
pub use readings::Readings;
