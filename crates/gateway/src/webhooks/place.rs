//! How far a webhook is: a number in a small file, replaced as a whole. It is saved after events were taken, so a restart
//! sends some again and skips none. It never goes back.

use std::{
    fs,
    io::{self, Write},
    path::PathBuf,
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};

/// The place of one webhook.
pub(super) struct Place {
    file: PathBuf,
    saved: Option<u64>,
    now: Option<u64>,
    saved_at: Instant,
}

#[derive(Serialize, Deserialize)]
struct Saved {
    after: u64,
}

impl Place {
    /// The place in a file; one that is not there yet has none.
    pub(super) fn load(file: PathBuf) -> Result<Self, String> {
        let number = match fs::read(&file) {
            Ok(bytes) => {
                let saved: Saved =
                    serde_json::from_slice(&bytes).map_err(|error| format!("`{}`: {error}", file.display()))?;
                Some(saved.after)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(format!("`{}`: {error}", file.display())),
        };
        Ok(Self { file, saved: number, now: number, saved_at: Instant::now() })
    }

    /// The number of the last event that was taken.
    pub(super) fn number(&self) -> Option<u64> {
        self.now
    }

    /// All up to here was taken.
    pub(super) fn advance(&mut self, number: u64) {
        self.now = self.now.max(Some(number));
    }

    /// Whether the last save is long enough ago.
    pub(super) fn is_due(&self) -> bool {
        self.saved_at.elapsed() >= SAVE_EVERY
    }

    /// Saves the place if it has changed.
    pub(super) fn save(&mut self) -> io::Result<()> {
        let Some(after) = self.now.filter(|_| self.now != self.saved) else { return Ok(()) };
        let beside = self.file.with_extension("new");
        let mut file = fs::File::create(&beside)?;
        file.write_all(serde_json::to_string(&Saved { after })?.as_bytes())?;
        file.sync_all()?;
        fs::rename(&beside, &self.file)?;
        (self.saved, self.saved_at) = (self.now, Instant::now());
        Ok(())
    }
}

/// While events follow each other without a pause.
const SAVE_EVERY: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_place_outlives_the_process_and_never_goes_back() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("webhook-a.json");
        let mut place = Place::load(file.clone()).unwrap();
        assert_eq!(place.number(), None);
        place.advance(7);
        place.advance(5);
        place.save().unwrap();
        assert_eq!(Place::load(file.clone()).unwrap().number(), Some(7));
        fs::write(&file, "{").unwrap();
        assert!(Place::load(file).is_err_and(|why| why.contains("webhook-a.json")), "not taken for a new one");
    }
}
