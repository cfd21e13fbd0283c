//! What a service says of itself (VOSI 1.1): what it can do, and whether it is there. It never promises an answer.

use crate::{Timestamp, xml::Xml};

/// One thing that a service can do.
#[derive(Clone, Debug)]
pub struct Capability {
    /// The standard, such as `ivo://ivoa.net/std/SODA#sync-1.0`.
    pub standard_id: &'static str,
    /// Where.
    pub access_url: String,
}

/// The document of `capabilities`.
pub fn capabilities(all: &[Capability]) -> Vec<u8> {
    let mut xml = Xml::new();
    xml.open(
        "vosi:capabilities",
        &[
            ("xmlns:vosi", "http://www.ivoa.net/xml/VOSICapabilities/v1.0"),
            ("xmlns:vr", "http://www.ivoa.net/xml/VOResource/v1.0"),
            ("xmlns:vs", "http://www.ivoa.net/xml/VODataService/v1.1"),
            ("xmlns:xsi", XSI),
        ],
    );
    for Capability { standard_id, access_url } in all {
        xml.open("capability", &[("standardID", standard_id)]);
        xml.open("interface", &[("xsi:type", "vs:ParamHTTP"), ("role", "std"), ("version", "1.0")]);
        xml.text("accessURL", &[("use", "full")], access_url);
        // POST is as good; a client that knows one word reads this one.
        xml.text("queryType", &[], "GET");
        xml.close("interface");
        xml.close("capability");
    }
    xml.close("vosi:capabilities");
    xml.finish()
}

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

/// The namespace of types of elements.
const XSI: &str = "http://www.w3.org/2001/XMLSchema-instance";
/// The standard of `capabilities` itself.
pub const CAPABILITIES_ID: &str = "ivo://ivoa.net/std/VOSI#capabilities";
/// The standard of `availability`.
pub const AVAILABILITY_ID: &str = "ivo://ivoa.net/std/VOSI#availability";
