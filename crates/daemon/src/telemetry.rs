//! What a process logs: lines on standard error, compact, without colours, so that they read the same in a terminal, a
//! file and a journal. It must never write to standard output, which belongs to the answer of a command.

pub use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::{EnvFilter, fmt, util::SubscriberInitExt};

use crate::DaemonError;

/// Starts logging for this process. `usual` is what is logged without options: roles say [`LevelFilter::INFO`],
/// commands [`LevelFilter::WARN`]. Each `-v` adds a level, `-q` leaves only errors; the variable `SECTOR_LOG` overrides
/// both. A second call changes nothing, so that an embedded cloud may start in a process that logs already.
pub fn start(usual: LevelFilter, verbose: u8, quiet: bool) -> Result<(), DaemonError> {
    let from_environment = std::env::var(VARIABLE).ok();
    let filter = filter(usual, verbose, quiet, from_environment.as_deref())?;
    let subscriber = fmt().compact().with_ansi(false).with_env_filter(filter).with_writer(std::io::stderr).finish();
    // It fails only when someone else logs already; theirs is then in force.
    let _ = subscriber.try_init();
    Ok(())
}

/// What to log; apart from [`start`] because a process can start logging only once.
fn filter(usual: LevelFilter, verbose: u8, quiet: bool, environment: Option<&str>) -> Result<EnvFilter, DaemonError> {
    if let Some(text) = environment.filter(|text| !text.trim().is_empty()) {
        return EnvFilter::try_new(text)
            .map_err(|error| DaemonError::LogFilter { filter: text.into(), why: error.to_string() });
    }
    Ok(EnvFilter::default().add_directive(level(usual, verbose, quiet).into()))
}

fn level(usual: LevelFilter, verbose: u8, quiet: bool) -> LevelFilter {
    if quiet {
        return LevelFilter::ERROR;
    }
    let at = LEVELS.iter().position(|&level| level == usual).unwrap_or(0);
    LEVELS[(at + usize::from(verbose)).min(LEVELS.len() - 1)]
}

/// From silent to chatty; `-v` walks to the right.
const LEVELS: [LevelFilter; 6] = [
    LevelFilter::OFF,
    LevelFilter::ERROR,
    LevelFilter::WARN,
    LevelFilter::INFO,
    LevelFilter::DEBUG,
    LevelFilter::TRACE,
];
/// The variable that overrides the options.
const VARIABLE: &str = "SECTOR_LOG";

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
