//! The program that started this one (`sector up --until-stdin-ends`): it holds the other end of standard input, and
//! when it is gone, however it went, that is at its end. What it says there is not looked at.

use std::io::{self, Read};

use tokio::sync::oneshot::{self, Receiver};

/// Who started this process, if it is to end with him.
#[derive(Debug)]
pub(crate) struct Parent {
    exit: Option<Receiver<()>>,
}

impl Parent {
    /// Watches standard input.
    pub(crate) fn watch() -> Self {
        Self::watch_on(io::stdin())
    }

    /// Nobody who is watched.
    pub(crate) fn none() -> Self {
        Self { exit: None }
    }

    /// Returns once he is gone.
    pub(crate) async fn exited(&mut self) {
        match &mut self.exit {
            // The thread that would tell can only end by having read to the end.
            Some(gone) => drop(gone.await),
            None => std::future::pending().await,
        }
    }

    fn watch_on(mut input: impl Read + Send + 'static) -> Self {
        let (tell, gone) = oneshot::channel();
        // Not one of the runtime's threads: it may read for ever, and must not keep the process from ending.
        std::thread::spawn(move || {
            // What cannot be read has no other end.
            let _ = io::copy(&mut input, &mut io::sink());
            // Nobody listens where the process ends already.
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
