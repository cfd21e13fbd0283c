//! What a process logs: lines on standard error, compact, without colours, so that they read the same in a terminal, a
//! file and a journal. If the environment names a collector, spans go there too. It must never write to standard output,
//! which belongs to the answer of a command.

mod export;
mod otlp;
mod spans;

use tracing::{Level, Metadata, Subscriber};
pub use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::{
    EnvFilter, Layer, Registry, filter::filter_fn, fmt, layer::SubscriberExt, registry::LookupSpan,
    util::SubscriberInitExt,
};

use crate::DaemonError;
use export::{ExportSettings, Exporter};
use spans::SpanLayer;

/// The log of this process. What is still to be sent goes out when it is dropped.
#[derive(Debug)]
#[must_use]
pub struct Telemetry {
    /// Only where traces go to a collector.
    _exporter: Option<Exporter>,
}

/// Starts logging for this process. `usual` is what is logged without options: roles say [`LevelFilter::INFO`],
/// commands [`LevelFilter::WARN`]. Each `-v` adds a level, `-q` leaves only errors; the variable `SECTOR_LOG` overrides
/// both. A second call changes nothing, so that an embedded cloud may start in a process that logs already.
///
/// # Errors
/// [`DaemonError::LogFilter`] and [`DaemonError::Traces`] for variables that make no sense.
pub fn start(usual: LevelFilter, verbose: u8, quiet: bool) -> Result<Telemetry, DaemonError> {
    let variable = |name: &str| std::env::var(name).ok();
    let filter = filter(usual, verbose, quiet, variable(VARIABLE).as_deref())?;
    let lines = fmt::layer().compact().with_ansi(false).with_writer(std::io::stderr).with_filter(filter);
    let subscriber = Registry::default().with(lines);
    // `try_init` fails only when someone else logs already; theirs is then in force.
    let exporter = match ExportSettings::read(variable)? {
        None => {
            let _ = subscriber.try_init();
            None
        }
        Some(settings) => {
            let (exporter, layer) = Exporter::start(settings)?;
            let _ = subscriber.with(traced(layer)).try_init();
            Some(exporter)
        }
    };
    Ok(Telemetry { _exporter: exporter })
}

/// Spans and lines of the roles and of clients, whatever is logged.
fn traced<S>(layer: SpanLayer) -> impl Layer<S>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    let is_ours = |metadata: &Metadata<'_>| {
        let role = metadata.target().split("::").next().unwrap_or_default();
        *metadata.level() <= Level::DEBUG && TRACED.contains(&role)
    };
    layer.with_filter(filter_fn(is_ours).with_max_level_hint(LevelFilter::DEBUG))
}

/// What to log; apart from [`start`] because a process can start logging only once.
fn filter(usual: LevelFilter, verbose: u8, quiet: bool, environment: Option<&str>) -> Result<EnvFilter, DaemonError> {
    let own = format!("{},{QUIET}", level(usual, verbose, quiet));
    let text = environment.filter(|text| !text.trim().is_empty()).unwrap_or(&own);
    EnvFilter::try_new(text).map_err(|error| DaemonError::LogFilter { filter: text.into(), why: error.to_string() })
}

fn level(usual: LevelFilter, verbose: u8, quiet: bool) -> LevelFilter {
    if quiet {
        return LevelFilter::ERROR;
    }
    let at = LEVELS.iter().position(|&level| level == usual).unwrap_or(0);
    LEVELS[(at + usize::from(verbose)).min(LEVELS.len() - 1)]
}

/// From silent to chatty; `-v` walks to the right.
/// A library that logs each refusal of a client as an error, and requests with their signatures.
const QUIET: &str = "s3s=off";
const LEVELS: [LevelFilter; 6] = [
    LevelFilter::OFF,
    LevelFilter::ERROR,
    LevelFilter::WARN,
    LevelFilter::INFO,
    LevelFilter::DEBUG,
    LevelFilter::TRACE,
];
/// The crates whose spans are traced.
const TRACED: [&str; 5] = ["client", "gateway", "master", "node", "security"];
/// The variable that overrides the options.
const VARIABLE: &str = "SECTOR_LOG";

#[cfg(test)]
mod trace_tests;
#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn each_v_adds_a_level_and_q_leaves_errors() {
        assert_eq!(level(LevelFilter::WARN, 0, false), LevelFilter::WARN);
        assert_eq!(level(LevelFilter::WARN, 1, false), LevelFilter::INFO);
        assert_eq!(level(LevelFilter::WARN, 200, false), LevelFilter::TRACE);
        assert_eq!(level(LevelFilter::INFO, 3, true), LevelFilter::ERROR);
    }

    #[test]
    fn the_variable_overrides_the_options() {
        let chosen = filter(LevelFilter::INFO, 0, true, Some("debug")).unwrap();
        assert_eq!(chosen.max_level_hint(), Some(LevelFilter::DEBUG));
        let empty = filter(LevelFilter::INFO, 0, false, Some(" ")).unwrap();
        assert_eq!(empty.max_level_hint(), Some(LevelFilter::INFO));
    }

    #[test]
    fn a_filter_that_makes_no_sense_is_refused_with_its_text() {
        let error = filter(LevelFilter::INFO, 0, false, Some("sector=loud")).unwrap_err();
        assert!(error.to_string().contains("sector=loud"), "{error}");
        assert_eq!(error.refusal().status(), protocol::Status::Usage);
    }
}
