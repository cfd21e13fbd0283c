//! S3 over the cloud: buckets are the folders below `/`, and objects are files. It is a thin coat over `client`, as the
//! other web doors are. Every request acts with the rights of the user whose access key has signed it. The protocol itself
//! (signatures, XML, headers) is the crate `s3s`, whose types stay in here. It never keeps a byte of an object, and never
//! answers a request without a signature.

mod buckets;
mod errors;
mod key_ring;
mod lists;
mod objects;
mod operations;
mod room;
mod unsupported;
mod uploads;

pub use room::S3Room;
