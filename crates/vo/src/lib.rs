//! The words in which services of the Virtual Observatory speak. They are what the cutouts of AstroPortal and SQL have in
//! common (IVOA standards DALI 1.1, VOTable 1.4, VOSI 1.1, UWS 1.1, DataLink 1.1). Begin with [`DaliParameters`] and
//! [`Fault`]; long requests are [`uws::Jobs`]. It never knows what a service does, opens no socket and keeps no file.

mod fault;
mod interval;
mod parameters;
mod timestamp;
pub mod uws;
pub mod vosi;
pub mod votable;
mod xml;

pub use fault::Fault;
pub use interval::Interval;
pub use parameters::DaliParameters;
pub use timestamp::Timestamp;
