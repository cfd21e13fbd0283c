//! What every driver of a job does alike. It asks the job what to do, keeps a journal of what the job was told, and
//! checks orders that come from elsewhere. It never moves a message.

pub mod clock;
pub mod driver_core;
pub mod input;
pub mod journal_pages;
