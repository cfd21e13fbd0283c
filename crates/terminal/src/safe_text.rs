//! What every output to a person goes through: lines on standard error, and text made safe for a terminal. It never
//! writes to standard output.

use std::borrow::Cow;

/// Writes a line to standard error. If that fails the work goes on, and its exit code says how it ended.
#[macro_export]
macro_rules! say {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($text)*);
    }};
}

/// Makes a text safe to show: it cannot send commands to a terminal. Others wrote some of what is shown, such as a
/// job's title or the message of a failed function.
pub fn sanitize(text: &str) -> Cow<'_, str> {
    let commands = |character: char| character.is_control() && character != '\n' && character != '\t';
    if text.contains(commands) { Cow::Owned(text.replace(commands, "\u{fffd}")) } else { Cow::Borrowed(text) }
}
