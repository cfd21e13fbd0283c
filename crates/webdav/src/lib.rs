//! WebDAV over the cloud (RFC 4918): below `/dav/` every file and folder is a resource. Third-party copies fetch from other
//! storage elements and send to them (HDFS over the wide area, section 2). It is a thin coat over `client`, as the other
//! web doors are. The protocol's methods and XML are the crate `dav-server`, whose types stay in here. It never keeps a
//! byte of a file, and never acts with other rights than those of who sends a request.

mod digests;
mod download;
mod failure;
mod files;
mod listing;
mod locks;
mod properties;
mod propfind;
mod request;
mod room;
mod strict_bodies;
mod strict_headers;
mod transfer;
mod upload;

pub use room::DavRoom;
