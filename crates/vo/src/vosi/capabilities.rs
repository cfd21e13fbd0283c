//! What a service can do (VOSI 1.1, capability metadata), where nothing further is to say than standards and addresses. It never looks
//! whether an address answers.

use super::namespaces::{VODATASERVICE, XSI};
use crate::xml::Xml;

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
    xml.open(ROOT, &NAMESPACES);
    all.iter().for_each(|capability| write_capability(&mut xml, capability, "1.0"));
    xml.close(ROOT);
    xml.finish()
}

/// One of them, whose interface has this version.
pub(super) fn write_capability(xml: &mut Xml, capability: &Capability, version: &str) {
    let Capability { standard_id, access_url } = capability;
    xml.open("capability", &[("standardID", standard_id)]);
    xml.open("interface", &[("xsi:type", "vs:ParamHTTP"), ("role", "std"), ("version", version)]);
    xml.text("accessURL", &[("use", "full")], access_url);
    // POST is as good; a client that knows one word reads this one.
    xml.text("queryType", &[], "GET");
    xml.close("interface");
    xml.close("capability");
}

/// The root of the document.
pub(super) const ROOT: &str = "vosi:capabilities";
/// What its elements are made of.
pub(super) const NAMESPACES: [(&str, &str); 4] = [
    ("xmlns:vosi", "http://www.ivoa.net/xml/VOSICapabilities/v1.0"),
    ("xmlns:vr", "http://www.ivoa.net/xml/VOResource/v1.0"),
    ("xmlns:vs", VODATASERVICE),
    ("xmlns:xsi", XSI),
];
/// The standard of `capabilities` itself.
pub const CAPABILITIES_ID: &str = "ivo://ivoa.net/std/VOSI#capabilities";
/// The standard of `availability`.
pub const AVAILABILITY_ID: &str = "ivo://ivoa.net/std/VOSI#availability";
/// The standard of `tables`, with an address for each table (VOSI 1.1, table metadata).
pub const TABLES_ID: &str = "ivo://ivoa.net/std/VOSI#tables-1.1";
/// The standard of `examples` (DALI 1.1, 2.3).
pub const EXAMPLES_ID: &str = "ivo://ivoa.net/std/DALI#examples";
