//! Passwords as people give them: on a terminal without echo, or a line of standard input. Serves `login` and `user`. A
//! password is never an argument, since arguments are seen by everyone on the machine.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read, Write},
};

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

use crate::failure::Failure;

/// Where passwords come from.
pub(super) enum Secrets {
    /// Lines of standard input.
    Lines(BufReader<io::Stdin>),
    /// A person at the terminal.
    Terminal(File),
}

impl Secrets {
    /// From standard input where that was asked for, else from the terminal.
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

    /// A password that is there already.
    pub(super) fn known(&mut self, prompt: &str) -> Result<String, Failure> {
        match self {
            Self::Lines(lines) => line_of(lines),
            Self::Terminal(terminal) => ask(terminal, prompt),
        }
    }

    /// A new password; a person types it twice.
    pub(super) fn new_one(&mut self, prompt: &str) -> Result<String, Failure> {
        let first = self.known(prompt)?;
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
        let _silent = Silence::begin(terminal).map_err(failed)?;
        line_of(&mut BufReader::new(&*terminal))
    };
    terminal.write_all(b"\n").map_err(failed)?;
    line
}

/// One line, without its end.
fn line_of(from: &mut impl BufRead) -> Result<String, Failure> {
    let mut line = String::new();
    let read = from.take(LINE_BYTES_MAX).read_line(&mut line);
    read.map_err(|error| Failure::failed(format!("cannot read the password: {error}")))?;
    let line = line.strip_suffix('\n').unwrap_or(&line);
    let line = line.strip_suffix('\r').unwrap_or(line);
    if line.is_empty() {
        return Err(Failure::usage("the password is empty; nothing was done"));
    }
    Ok(line.to_owned())
}

/// A terminal that shows nothing of what is typed, until this is dropped.
struct Silence<'a> {
    terminal: &'a File,
    before: Termios,
}

impl<'a> Silence<'a> {
    fn begin(terminal: &'a File) -> Result<Self, io::Error> {
        let before = tcgetattr(terminal)?;
        let mut silent = before.clone();
        silent.local_modes.remove(LocalModes::ECHO);
        tcsetattr(terminal, OptionalActions::Flush, &silent)?;
        Ok(Self { terminal, before })
    }
}

impl Drop for Silence<'_> {
    fn drop(&mut self) {
        // Best effort: nobody is there who could be told.
        let _ = tcsetattr(self.terminal, OptionalActions::Flush, &self.before);
    }
}

/// Longest line taken, in bytes: the longest password and the end of its line.
const LINE_BYTES_MAX: u64 = 1_026;

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
        assert!(line_of(&mut lines).is_err());
    }
}
