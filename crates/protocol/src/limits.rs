//! Every limit that two roles must agree on, with its unit and its reason. A limit that only one process needs never
//! stands here, but in that process's settings or beside its use.

use std::time::Duration;

/// Longest [`SectorPath`](crate::SectorPath) in bytes; below Linux's `PATH_MAX` with room for the node's own folder.
pub const PATH_BYTES_MAX: usize = 3_500;
/// Longest component of a path in bytes; below Linux's 255 with room for the sidecar's prefix and suffix.
pub const COMPONENT_BYTES_MAX: usize = 240;
/// Deepest path in components: bounds every recursion over the name space.
pub const PATH_COMPONENTS_MAX: usize = 256;
/// Longest node, user, site or rack name in bytes.
pub const NAME_BYTES_MAX: usize = 64;

/// Bytes covered by one checksum of a slice. Small enough that a random read verifies little more than it wants, large
/// enough that checksums take under 0.01 % of the bytes.
pub const BLOCK_BYTES: u64 = 64 * 1024;
/// Largest slice in bytes (16 TiB): its block checksums are then 1 GiB, the most a sidecar may hold.
pub const SLICE_BYTES_MAX: u64 = 1 << 44;
/// Most bytes of user metadata that a sidecar holds, keys and values together.
pub const USER_METADATA_BYTES_MAX: usize = 64 * 1024;

/// Largest bulk-data frame in bytes: a whole number of blocks, large enough that per-frame work is noise.
pub const FRAME_BYTES_MAX: usize = 1024 * 1024;
/// Largest message that is not bulk data on a transfer connection, in bytes.
pub const TRANSFER_MESSAGE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Largest GMP datagram in bytes, header and seal included: fits every path MTU of 1,500 with IPv6 and tunnel headers.
pub const DATAGRAM_BYTES_MAX: usize = 1_400;
/// Largest GMP message in bytes before cutting. Larger content (inventory, listings) is sent in pages.
pub const MESSAGE_BYTES_MAX: usize = 1024 * 1024;
/// Most entries one page of a listing carries: some 300 KB, which a window of GMP holds, and a millisecond of the
/// master's time.
pub const LISTING_PAGE_ENTRIES_MAX: usize = 2_000;
/// Most slices one inventory report carries.
pub const INVENTORY_PAGE_SLICES_MAX: usize = 1_000;

/// Most entries of one access list: some 5 KB. A user who needs more makes a group.
pub const ACL_ENTRIES_MAX: usize = 64;
/// Most slices that one ticket lets a job read at a node: 64 KiB of ids. A task of many small files has fewer.
pub const JOB_INPUTS_MAX: usize = 4_096;

/// Longest time that replaced content may be kept, in seconds: as long as the trash may be.
pub const VERSIONS_SECONDS_MAX: u64 = 31_536_000;
/// Most replaced contents of one path that are kept; the oldest goes first. A file that is written all the time should
/// not fill the cloud.
pub const VERSIONS_KEPT_MAX: usize = 32;
/// Most replaced contents that a cloud keeps: some 250 MB of the master's memory with paths of usual length.
pub const VERSIONS_IN_ALL_MAX: usize = 262_144;
/// Most copies of one file that may be requested.
pub const COPIES_MAX: u8 = 16;
/// Longest life of a ticket (architecture, door 5).
pub const TICKET_LIFE: Duration = Duration::from_secs(60);
/// How long one ticket serves on one connection; then the reader needs another. A master remembers the readers that
/// have left for as long.
pub const READING_TIME_MAX: Duration = Duration::from_secs(60 * 60);
/// Life of a machine's certificate unless the security server's settings say otherwise. A certificate stolen unnoticed
/// is worthless after a season. A machine may be off for a month without coming back as a stranger.
pub const CERTIFICATE_LIFE: Duration = Duration::from_secs(90 * 24 * 3_600);
/// Most bytes of a newcomer's first message: its longest part is a folder's name, or a password.
pub const JOIN_BYTES_MAX: usize = 64 * 1024;
/// How long one of the master's keys signs tickets. Anyone who steals one can use it for a day at most, and nodes hear
/// of a key a day before it is used.
pub const TICKET_KEY_LIFE: Duration = Duration::from_secs(24 * 60 * 60);
/// Life of a write lease that its holder does not renew.
pub const LEASE_LIFE: Duration = Duration::from_secs(60);
/// How long the received part of a broken upload is kept without being asked for. A person needs less to see the error
/// and type the command again, and forgotten parts must not fill the disk.
pub const PARTIAL_LIFE: Duration = Duration::from_secs(60 * 60);
/// Most broken uploads that one node keeps.
pub const PARTIALS_MAX: usize = 64;
/// Most parameters of a function, arguments of a program or modules that it needs, as they are decoded. That is a
/// hundred times what a person writes. It is a megabyte or three of memory where an item has a byte on the wire and 24
/// in memory.
pub const ORDER_WORDS_MAX: usize = 1 << 16;
/// Most segments of one task, as they are decoded: a task of many small files has some thousands.
pub const TASK_SEGMENTS_MAX: usize = 1 << 16;
/// Most tasks whose pieces one bucket has, as they are decoded: at 16 bytes each, as much memory as the message had
/// bytes.
pub const BUCKET_WINNERS_MAX: usize = 1 << 20;
/// Most buckets a Sphere stage may have.
pub const BUCKETS_MAX: u32 = 4_096;
/// Most stages a Sphere job may have.
pub const STAGES_MAX: usize = 64;
/// Most input streams that a Sphere job may read at once: each costs two open files a segment.
pub const STREAMS_MAX: usize = 8;
/// Smallest and largest segment in bytes unless the user says otherwise (Sector/Sphere paper, 3.5.1).
pub const SEGMENT_BYTES_DEFAULT: (u64, u64) = (8 << 20, 128 << 20);
/// Largest dynamic library sent to an SPE, in bytes.
pub const LIBRARY_BYTES_MAX: usize = 12 * 1024 * 1024;
/// Largest side file of a function, in bytes (256 MiB). Each node of the job fetches it before its first task, some
/// seconds over a gigabit. A program's side files lie in an SPE's scratch folder, which by default has as much room. A
/// larger file is an input.
pub const SIDE_FILE_BYTES_MAX: u64 = 256 << 20;
/// Most side files of a stage: each is an open file of every SPE, and they travel to it in one message.
pub const SIDE_FILES_MAX: usize = 16;
/// Most different side files of all stages of a job together. Each stays open, and on disk, at every node until the job
/// ends.
pub const JOB_SIDE_FILES_MAX: usize = 64;
/// Most bytes of what a job requires of Python packages, as text: thousands of lines.
pub const REQUIREMENTS_BYTES_MAX: usize = 64 * 1024;
/// Most segments of one job that may be left out because their function failed. The driver keeps each report, of some 5
/// KB at most, until the end.
pub const FUNCTION_ERRORS_MAX: u32 = 10_000;
/// Most attempts of a job that its history lists, when it has ended.
pub const HISTORY_ATTEMPTS_MAX: usize = 1_000;
/// Most bytes of a job's history as a message: the paths in it may be long, and the master keeps it in memory.
pub const HISTORY_BYTES_MAX: usize = 128 * 1024;
/// Most bytes kept of what a function prints over one segment: the first half, and the last. It is the end of a
/// traceback, and what came before the first mistake.
pub const SEGMENT_LOG_BYTES_MAX: usize = 8 * 1024;
/// Most bytes kept of what the functions of one job print, with [`LOG_ENTRY_BYTES`] for each segment. A job's log is one
/// message, and the master keeps those of some jobs in memory.
pub const JOB_LOG_BYTES_MAX: usize = 256 * 1024;
/// How much of [`JOB_LOG_BYTES_MAX`] is for segments on which a function failed alone: they often come last.
pub const JOB_LOG_BYTES_OF_FAILED: usize = 64 * 1024;
/// What a segment's log counts beside its text, in bytes: so a job's log has some thousands of segments at most.
pub const LOG_ENTRY_BYTES: usize = 128;
/// Most segments of one log, as they are decoded; no log that keeps its bounds has as many.
pub const LOG_SEGMENTS_MAX: usize = 4_096;
/// Most bytes that a report quotes of the record at which a function failed: enough to recognize it, few enough for a
/// log.
pub const FUNCTION_RECORD_BYTES_MAX: usize = 256;
/// Most counter names that the functions of a stage may use: what a person reads, and what a message of every second
/// carries.
pub const COUNTERS_MAX: usize = 64;
/// Most counters that the stages of a job may have together: the master keeps those of a thousand jobs.
pub const JOB_COUNTERS_MAX: usize = 256;
/// Longest name of a counter in bytes.
pub const COUNTER_NAME_BYTES_MAX: usize = 64;
/// Longest text of an error report of a user function, in bytes.
pub const FUNCTION_MESSAGE_BYTES_MAX: usize = 4 * 1024;
/// Most drivers that a detached job may have, one after the other: each lasts until its node is gone.
pub const DRIVERS_MAX: usize = 16;
