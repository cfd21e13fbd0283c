//! Whether a service is there (VOSI 1.1, availability metadata). It never asks the service.

use crate::{Timestamp, xml::Xml};

/// The document of `availability`, with the reason where it is not there.
pub fn availability(up_since: Timestamp, problem: Option<&str>) -> Vec<u8> {
    let mut xml = Xml::new();
    xml.open("vosi:availability", &[("xmlns:vosi", "http://www.ivoa.net/xml/VOSIAvailability/v1.0")]);
    xml.text("vosi:available", &[], if problem.is_none() { "true" } else { "false" });
    xml.text("vosi:upSince", &[], &up_since.to_string());
    if let Some(problem) = problem {
        xml.text("vosi:note", &[], problem);
    }
    xml.close("vosi:availability");
    xml.finish()
}
