//! Sites and links on one machine, so that anyone can try, and measure, a cloud over wide-area links without having one
//! (Open Cloud Testbed, section 2).

pub mod link;
