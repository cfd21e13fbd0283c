//! The program that started this one (`sector up --until-stdin-ends`). It holds the other end of standard input. When
//! that program is gone, however it ended, standard input is at its end. What it writes there is never interpreted.

use std::io::{self, Read};

use tokio::sync::oneshot::{self, Receiver};

/// The program that started this process, if this process should end with it.
#[derive(Debug)]
pub(crate) struct Parent {
    exit: Option<Receiver<()>>,
}

impl Parent {
    /// Watches standard input.
    pub(crate) fn watch() -> Self {
        Self::watch_on(io::stdin())
    }

    /// Watches no program.
    pub(crate) fn none() -> Self {
        Self { exit: None }
    }

    /// Returns once that program is gone.
    pub(crate) async fn exited(&mut self) {
        match &mut self.exit {
            // The thread that reports the end can only finish by reading to the end.
            Some(gone) => drop(gone.await),
            None => std::future::pending().await,
        }
    }

    fn watch_on(mut input: impl Read + Send + 'static) -> Self {
        let (tell, gone) = oneshot::channel();
        // Not one of the runtime's threads: it may read for ever, and must not keep the process from ending.
        std::thread::spawn(move || {
            // An input that cannot be read has no other end.
            let _ = io::copy(&mut input, &mut io::sink());
            // Nothing receives this if the process is already ending.
            let _ = tell.send(());
        });
        Self { exit: Some(gone) }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::io::Write;

    use super::*;

    #[tokio::test]
    async fn a_parent_is_gone_when_its_end_of_the_pipe_is_and_not_for_what_it_says() {
        let (input, mut end) = io::pipe().unwrap();
        let mut parent = Parent::watch_on(input);
        end.write_all(b"words").unwrap();
        tokio::select! {
            biased;
            () = parent.exited() => panic!("it is there still"),
            () = std::future::ready(()) => {}
        }
        drop(end);
        parent.exited().await;
    }
}
