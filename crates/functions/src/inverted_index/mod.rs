//! The inverted index (Sector/Sphere paper, 3.6): its two stages, and a plain program to compare it with. It never
//! knows where a bucket lies.

pub(crate) mod blocks;
pub(crate) mod index;
pub mod reference;
pub(crate) mod word_set;
pub(crate) mod words;
