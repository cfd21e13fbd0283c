//! Where the bytes of a file come from: memory, a local file, or a reader of the cloud. [`Window`] makes a stream of
//! it that reads ahead as far as the next read is likely to be. It never reads the whole file unless it is asked to.

use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom},
    os::unix::fs::FileExt,
    path::Path,
};

/// A file of a known length that can be read anywhere.
pub trait ByteSource: Send {
    /// The length in bytes.
    fn bytes(&self) -> u64;

    /// Fills `buffer` with the bytes from `offset` on.
    ///
    /// # Errors
    /// As the medium says; `UnexpectedEof` beyond the end.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;

    /// The bytes of a range, for who keeps them: a source that has them in memory of their own hands that over.
    ///
    /// # Errors
    /// As [`read_at`](Self::read_at).
    fn read_owned(&self, offset: u64, bytes: usize) -> io::Result<Vec<u8>> {
        let mut buffer = vec![0; bytes];
        self.read_at(offset, &mut buffer)?;
        Ok(buffer)
    }

    /// The bytes of runs alone, one after the other. `None` where that is no cheaper than to read all from the first to the
    /// last: where no bytes cross a network.
    fn read_runs(&self, runs: &Runs) -> Option<io::Result<Vec<u8>>> {
        let _ = runs;
        None
    }

    /// How many bytes are best read at once, since a read has a cost of its own. 0 in memory.
    fn read_ahead_bytes(&self) -> usize {
        0
    }
}

/// Runs of bytes, which are as long and as far from each other as all others: rows of a part of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Runs {
    /// Where the first begins.
    pub from: u64,
    /// Length of each in bytes.
    pub run_bytes: u64,
    /// From the beginning of one to that of the next.
    pub stride_bytes: u64,
    /// How many.
    pub runs: u64,
}

impl ByteSource for &[u8] {
    fn bytes(&self) -> u64 {
        self.len() as u64
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        let bytes = self.get(from..).and_then(|rest| rest.get(..buffer.len())).ok_or(io::ErrorKind::UnexpectedEof)?;
        buffer.copy_from_slice(bytes);
        Ok(())
    }
}

impl ByteSource for Vec<u8> {
    fn bytes(&self) -> u64 {
        self.len() as u64
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.as_slice().read_at(offset, buffer)
    }
}

impl ByteSource for Box<dyn ByteSource + '_> {
    fn bytes(&self) -> u64 {
        (**self).bytes()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        (**self).read_at(offset, buffer)
    }

    fn read_owned(&self, offset: u64, bytes: usize) -> io::Result<Vec<u8>> {
        (**self).read_owned(offset, bytes)
    }

    fn read_runs(&self, runs: &Runs) -> Option<io::Result<Vec<u8>>> {
        (**self).read_runs(runs)
    }

    fn read_ahead_bytes(&self) -> usize {
        (**self).read_ahead_bytes()
    }
}

/// A file of this machine.
#[derive(Debug)]
pub struct LocalFile {
    file: File,
    bytes: u64,
}

impl LocalFile {
    /// Opens a file.
    ///
    /// # Errors
    /// As the system says.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        let file = File::open(path)?;
        let bytes = file.metadata()?.len();
        Ok(Self { file, bytes })
    }
}

impl ByteSource for LocalFile {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset)
    }

    fn read_ahead_bytes(&self) -> usize {
        LOCAL_READ_AHEAD_BYTES
    }
}

/// A stream over a source, for libraries that seek and read. It keeps the bytes that it read ahead.
pub(crate) struct Window<'a> {
    source: Box<dyn ByteSource + 'a>,
    position: u64,
    /// The bytes at hand, and where they begin.
    kept: Vec<u8>,
    kept_from: u64,
    read_ahead_bytes: usize,
    /// What is left of the runs that are expected: nothing is read ahead beyond them.
    expected_bytes: usize,
    /// Runs of which the source may give the bytes alone: the first begins with the next read.
    expected_runs: Option<Runs>,
    /// Runs that it gave, and their bytes.
    kept_runs: Option<(Runs, Vec<u8>)>,
}

impl<'a> Window<'a> {
    pub(crate) fn new(source: Box<dyn ByteSource + 'a>) -> Self {
        let read_ahead_bytes = source.read_ahead_bytes();
        Self {
            source,
            position: 0,
            kept: Vec::new(),
            kept_from: 0,
            read_ahead_bytes,
            expected_bytes: usize::MAX,
            expected_runs: None,
            kept_runs: None,
        }
    }

    /// The source itself.
    pub(crate) fn into_source(self) -> Box<dyn ByteSource + 'a> {
        self.source
    }

    /// What the next reads are: `runs` runs of `run_bytes`, each `stride_bytes` after the one before, and then as many
    /// elsewhere, `planes` times in all. The source gives them alone if it can. Else, where runs lie close together, all
    /// are read at once, with what is between them.
    pub(crate) fn expect_runs(&mut self, planes: u64, runs: u64, run_bytes: u64, stride_bytes: u64) {
        let bytes_of_plane = runs.saturating_mul(run_bytes);
        let is_apart = run_bytes < stride_bytes && runs > 1;
        let is_small = bytes_of_plane <= RUNS_BYTES_MAX && runs.saturating_mul(stride_bytes) <= RUNS_SPAN_BYTES_MAX;
        self.kept_runs = None;
        self.expected_runs = (is_apart && is_small).then_some(Runs { from: 0, run_bytes, stride_bytes, runs });
        let runs = runs.saturating_mul(planes);
        let usual = self.source.read_ahead_bytes();
        if usual == 0 {
            return;
        }
        let gap_bytes = stride_bytes.saturating_sub(run_bytes);
        let span_bytes = runs.saturating_sub(1).saturating_mul(stride_bytes).saturating_add(run_bytes);
        let span_bytes = usize::try_from(span_bytes).unwrap_or(usize::MAX);
        self.expected_bytes = span_bytes;
        self.read_ahead_bytes = if gap_bytes <= usual as u64 {
            // Two quick reads are better than one that waits for another thread.
            if span_bytes <= 2 * QUICK_BYTES_MAX {
                span_bytes.min(QUICK_BYTES_MAX)
            } else {
                span_bytes.min(SPAN_BYTES_MAX)
            }
        } else {
            usize::try_from(run_bytes).unwrap_or(usize::MAX).min(SPAN_BYTES_MAX)
        };
    }

    /// Reads ahead as the source likes it.
    pub(crate) fn expect_anything(&mut self) {
        self.read_ahead_bytes = self.source.read_ahead_bytes();
        self.expected_bytes = usize::MAX;
        self.expected_runs = None;
    }

    /// Has the source give the runs that begin here, if such are expected and it can.
    fn read_runs(&mut self) {
        let Some(runs) = self.expected_runs.map(|runs| Runs { from: self.position, ..runs }) else { return };
        match self.source.read_runs(&runs) {
            Some(Ok(bytes)) => self.kept_runs = Some((runs, bytes)),
            // What is wrong is said where they are read in another way.
            Some(Err(_)) | None => self.expected_runs = None,
        }
    }

    fn at_hand(&self) -> &[u8] {
        let of_runs = self.kept_runs.as_ref().map(|(runs, bytes)| runs.at(bytes, self.position));
        if let Some(found) = of_runs.filter(|found| !found.is_empty()) {
            return found;
        }
        let skip = self.position.checked_sub(self.kept_from).and_then(|skip| usize::try_from(skip).ok());
        skip.and_then(|skip| self.kept.get(skip..)).unwrap_or_default()
    }
}

impl Runs {
    /// The bytes from `position` to the end of its run, of `bytes`, which are those of the runs.
    fn at<'a>(&self, bytes: &'a [u8], position: u64) -> &'a [u8] {
        let Some(behind) = position.checked_sub(self.from) else { return &[] };
        let (run, within) = (behind / self.stride_bytes, behind % self.stride_bytes);
        if run >= self.runs || within >= self.run_bytes {
            return &[];
        }
        let from = usize::try_from(run * self.run_bytes + within).unwrap_or(usize::MAX);
        let until = usize::try_from((run + 1) * self.run_bytes).unwrap_or(usize::MAX);
        bytes.get(from..until).unwrap_or_default()
    }
}

impl Read for Window<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.source.bytes().saturating_sub(self.position);
        let wanted = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
        if wanted == 0 {
            return Ok(0);
        }
        if self.at_hand().is_empty() {
            self.read_runs();
        }
        if self.at_hand().is_empty() {
            let read_ahead = self.read_ahead_bytes.min(self.expected_bytes);
            self.expected_bytes = self.expected_bytes.saturating_sub(read_ahead.max(wanted));
            if wanted >= read_ahead {
                self.source.read_at(self.position, &mut buffer[..wanted])?;
                self.position += wanted as u64;
                return Ok(wanted);
            }
            let ahead = usize::try_from(left).unwrap_or(usize::MAX).min(read_ahead);
            self.kept = Vec::new();
            (self.kept, self.kept_from) = (self.source.read_owned(self.position, ahead)?, self.position);
        }
        let found = self.at_hand();
        let taken = found.len().min(wanted);
        buffer[..taken].copy_from_slice(&found[..taken]);
        self.position += taken as u64;
        Ok(taken)
    }
}

impl Seek for Window<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let position = match to {
            SeekFrom::Start(position) => Some(position),
            SeekFrom::End(from) => self.source.bytes().checked_add_signed(from),
            SeekFrom::Current(from) => self.position.checked_add_signed(from),
        };
        self.position = position.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.position)
    }
}

impl std::fmt::Debug for Window<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Window").field("bytes", &self.source.bytes()).field("position", &self.position).finish()
    }
}

/// Most bytes of runs, and from the first to the last, that a source is asked for at once.
const RUNS_BYTES_MAX: u64 = 4 << 20;
const RUNS_SPAN_BYTES_MAX: u64 = 64 << 20;
/// A local read ahead: a block of the cloud's checksums.
const LOCAL_READ_AHEAD_BYTES: usize = 64 * 1024;
/// Most bytes that the cloud's client reads from memory without another thread.
const QUICK_BYTES_MAX: usize = 256 * 1024;
/// Most bytes that are read at once since the reads in them are near each other.
const SPAN_BYTES_MAX: usize = 4 << 20;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::{Arc, Mutex};

    use super::*;

    /// Remembers what was read.
    struct Watched {
        content: Vec<u8>,
        reads: Reads,
    }

    impl ByteSource for Watched {
        fn bytes(&self) -> u64 {
            self.content.len() as u64
        }

        fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
            self.reads.lock().unwrap().push((offset, buffer.len()));
            self.content.read_at(offset, buffer)
        }

        fn read_ahead_bytes(&self) -> usize {
            100
        }
    }

    /// Where reads began, and their lengths.
    type Reads = Arc<Mutex<Vec<(u64, usize)>>>;

    fn watched() -> (Window<'static>, Reads) {
        let reads = Arc::new(Mutex::new(Vec::new()));
        let content = (0..10_000_u32).map(|byte| byte as u8).collect();
        (Window::new(Box::new(Watched { content, reads: Arc::clone(&reads) })), reads)
    }

    fn read(window: &mut Window<'_>, at: u64, bytes: usize) -> Vec<u8> {
        let mut buffer = vec![0; bytes];
        window.seek(SeekFrom::Start(at)).unwrap();
        window.read_exact(&mut buffer).unwrap();
        buffer
    }

    #[test]
    fn near_runs_are_one_read_and_far_ones_are_read_alone() {
        let (mut window, reads) = watched();
        window.expect_runs(1, 5, 20, 80);
        for run in 0..5 {
            assert_eq!(read(&mut window, 1_000 + run * 80, 20)[0], (1_000 + run * 80) as u8);
        }
        assert_eq!(*reads.lock().unwrap(), [(1_000, 340)]);
        window.expect_runs(3, 1, 20, 500);
        for run in 0..3 {
            read(&mut window, 5_000 + run * 500, 20);
        }
        assert_eq!(reads.lock().unwrap()[1..], [(5_000, 20), (5_500, 20), (6_000, 20)]);
    }

    /// A source that gives runs alone, or fails to.
    struct Apart {
        inner: Watched,
        asked: Arc<Mutex<Vec<Runs>>>,
        fails: bool,
    }

    impl ByteSource for Apart {
        fn bytes(&self) -> u64 {
            self.inner.bytes()
        }

        fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
            self.inner.read_at(offset, buffer)
        }

        fn read_ahead_bytes(&self) -> usize {
            100
        }

        fn read_runs(&self, runs: &Runs) -> Option<io::Result<Vec<u8>>> {
            self.asked.lock().unwrap().push(*runs);
            let run = |run| {
                let from = (runs.from + run * runs.stride_bytes) as usize;
                self.inner.content[from..from + runs.run_bytes as usize].to_vec()
            };
            Some(if self.fails { Err(io::ErrorKind::Other.into()) } else { Ok((0..runs.runs).flat_map(run).collect()) })
        }
    }

    #[test]
    fn a_source_that_gives_runs_alone_is_asked_once_for_each_plane() {
        for fails in [false, true] {
            let (asked, reads) = (Arc::default(), Arc::default());
            let content = (0..10_000_u32).map(|byte| byte as u8).collect();
            let inner = Watched { content, reads: Arc::clone(&reads) };
            let mut window = Window::new(Box::new(Apart { inner, asked: Arc::clone(&asked), fails }));
            window.expect_runs(2, 3, 20, 500);
            for start in [1_000, 5_000] {
                for row in 0..3 {
                    let at = start + row * 500;
                    // In pieces, as libraries read.
                    assert_eq!(read(&mut window, at, 8), (at..at + 8).map(|byte| byte as u8).collect::<Vec<_>>());
                    assert_eq!(read(&mut window, at + 8, 12)[11], (at + 19) as u8);
                }
            }
            let runs = |from| Runs { from, run_bytes: 20, stride_bytes: 500, runs: 3 };
            let expected = if fails { vec![runs(1_000)] } else { vec![runs(1_000), runs(5_000)] };
            assert_eq!(*asked.lock().unwrap(), expected);
            assert_eq!(reads.lock().unwrap().is_empty(), !fails);
        }
    }

    #[test]
    fn what_is_at_hand_is_not_read_again_and_nothing_lies_behind_the_end() {
        let (mut window, reads) = watched();
        read(&mut window, 9_950, 10);
        assert_eq!(read(&mut window, 9_960, 40).len(), 40);
        assert_eq!(*reads.lock().unwrap(), [(9_950, 50)]);
        assert_eq!(window.read(&mut [0; 8]).unwrap(), 0);
        assert!(window.seek(SeekFrom::Current(-20_000)).is_err());
        assert!(
            (&b"abc"[..]).read_at(2, &mut [0; 2]).is_err() && b"abc".as_slice().read_at(u64::MAX, &mut [0]).is_err()
        );
    }
}
