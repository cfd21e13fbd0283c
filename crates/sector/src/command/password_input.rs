//! Reads passwords: on a terminal without echo, or from a line of standard input. Serves `login` and `user`. A
//! password is never an argument, since everyone on the machine can see arguments.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read, Write},
};

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use terminal::failure::Failure;

/// Where passwords come from.
pub(super) enum PasswordInput {
    /// Lines of standard input.
    Lines(BufReader<io::Stdin>),
    /// A person at the terminal.
    Terminal(File),
}

impl PasswordInput {
    /// Opens standard input if requested, else the terminal.
    pub(super) fn open(from_stdin: bool) -> Result<Self, Failure> {
        if from_stdin {
            return Ok(Self::Lines(BufReader::new(io::stdin())));
        }
        let terminal = File::options().read(true).write(true).open("/dev/tty");
        terminal.map(Self::Terminal).map_err(|_| {
            Failure::usage(
                "there is no terminal to ask for the password; give it on standard input with --password-stdin",
            )
        })
    }

    /// An existing password.
    pub(super) fn current_password(&mut self, prompt: &str) -> Result<String, Failure> {
        let password = match self {
            Self::Lines(lines) => line_of(lines)?,
            Self::Terminal(terminal) => ask(terminal, prompt)?,
        };
        if password.is_empty() {
            return Err(Failure::usage("the password is empty; nothing was done"));
        }
        Ok(password)
    }

    /// A new password; a person types it twice.
    pub(super) fn new_password(&mut self, prompt: &str) -> Result<String, Failure> {
        let first = self.current_password(prompt)?;
        if let Self::Terminal(terminal) = self
            && ask(terminal, "The same once more: ")? != first
        {
            return Err(Failure::usage("the two are not the same; nothing was changed"));
        }
        Ok(first)
    }
}

/// Asks without echo.
fn ask(terminal: &mut File, prompt: &str) -> Result<String, Failure> {
    let failed = |error: io::Error| Failure::failed(format!("cannot ask for the password on the terminal: {error}"));
    terminal.write_all(prompt.as_bytes()).map_err(failed)?;
    let line = {
        let _silent = EchoOff::begin(terminal).map_err(failed)?;
        typed(&mut BufReader::new(&*terminal))
    };
    terminal.write_all(b"\n").map_err(failed)?;
    line
}

/// One line, without its end.
fn line_of(from: &mut impl BufRead) -> Result<String, Failure> {
    let mut line = String::new();
    from.take(LINE_BYTES_MAX).read_line(&mut line).map_err(unread)?;
    let line = line.strip_suffix('\n').unwrap_or(&line);
    Ok(line.strip_suffix('\r').unwrap_or(line).to_owned())
}

/// What a person types up to the end of the line, key by key. While echo is off, the terminal itself neither
/// edits lines nor turns keys into signals. So Ctrl-C ends the question only after the terminal is restored.
fn typed(keys: &mut impl Read) -> Result<String, Failure> {
    let mut line = Vec::new();
    let mut key = [0];
    loop {
        if keys.read(&mut key).map_err(unread)? == 0 {
            break;
        }
        match key[0] {
            b'\n' | b'\r' => break,
            CTRL_C | CTRL_BACKSLASH => return Err(Failure::interrupted("interrupted; nothing was changed")),
            CTRL_D if line.is_empty() => break,
            CTRL_U => line.clear(),
            BACKSPACE | DELETE => {
                // Removes a whole character: a continuation byte is 10xxxxxx.
                while line.pop().is_some_and(|byte: u8| byte & 0xC0 == 0x80) {}
            }
            other if line.len() < LINE_BYTES_MAX as usize => line.push(other),
            _ => {}
        }
    }
    String::from_utf8(line).map_err(|_| Failure::usage("the password is not text in UTF-8; nothing was changed"))
}

fn unread(error: io::Error) -> Failure {
    Failure::failed(format!("cannot read the password: {error}"))
}

/// A terminal that shows nothing of what is typed and delivers each key at once, until this is dropped.
struct EchoOff<'a> {
    terminal: &'a File,
    before: Termios,
}

impl<'a> EchoOff<'a> {
    fn begin(terminal: &'a File) -> Result<Self, io::Error> {
        let before = tcgetattr(terminal)?;
        let mut silent = before.clone();
        silent.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG | LocalModes::IEXTEN);
        tcsetattr(terminal, OptionalActions::Flush, &silent)?;
        Ok(Self { terminal, before })
    }
}

impl Drop for EchoOff<'_> {
    fn drop(&mut self) {
        // Best effort: nobody could be told.
        let _ = tcsetattr(self.terminal, OptionalActions::Flush, &self.before);
    }
}

/// Longest accepted line, in bytes: the longest password and the end of its line.
const LINE_BYTES_MAX: u64 = 1_026;
/// What a terminal sends for these keys.
const CTRL_C: u8 = 0x03;
const CTRL_D: u8 = 0x04;
const BACKSPACE: u8 = 0x08;
const CTRL_U: u8 = 0x15;
const CTRL_BACKSLASH: u8 = 0x1C;
const DELETE: u8 = 0x7F;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_password_is_one_line_without_its_end() {
        let mut lines = io::Cursor::new("correct horse \r\nbattery staple\nlast");
        assert_eq!(line_of(&mut lines).unwrap(), "correct horse ");
        assert_eq!(line_of(&mut lines).unwrap(), "battery staple");
        assert_eq!(line_of(&mut lines).unwrap(), "last");
        assert_eq!(line_of(&mut lines).unwrap(), "");
    }

    #[test]
    fn a_person_who_mistypes_takes_back_a_character_or_all_of_them() {
        let typed = |keys: &str| typed(&mut keys.as_bytes()).unwrap();
        assert_eq!(typed("horze\u{7f}\u{7f}se\nmore"), "horse");
        assert_eq!(typed("pfär\u{7f}\u{8}erd\r"), "pferd");
        assert_eq!(typed("\u{7f}\u{7f}wrong\u{15}right\n"), "right");
        assert_eq!(typed("\u{4}never read\n"), "");
        assert_eq!(typed(&"x".repeat(5_000)).len(), 1_026);
    }

    #[test]
    fn who_presses_ctrl_c_at_a_password_has_changed_nothing() {
        for key in ["\u{3}", "half\u{3}rest\n", "\u{1c}"] {
            assert!(typed(&mut key.as_bytes()).unwrap_err().message.contains("nothing was changed"));
        }
    }
}
