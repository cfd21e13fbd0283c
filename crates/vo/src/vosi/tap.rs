//! What a service of TAP can do (TAPRegExt 1.0, 2): its language, formats and limits, and where the rest of
//! it lies. It never enforces a limit.

use super::capabilities::{
    AVAILABILITY_ID, CAPABILITIES_ID, Capability, EXAMPLES_ID, NAMESPACES, ROOT, TABLES_ID, write_capability,
};
use crate::xml::Xml;

/// A service of TAP (TAPRegExt 1.0, `tr:TableAccess`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TapCapabilities {
    /// Its address without a stroke at the end. Its resources, such as `/sync` and `/tables`, are below.
    pub base_url: String,
    /// What is to say of its ADQL; may be empty.
    pub language_description: String,
    /// What its ADQL can do beyond the least (TAPRegExt 1.0, 2.3).
    pub features: Vec<LanguageFeatures>,
    /// Which formats it writes (TAPRegExt 1.0, 2.4). The first is what it writes unasked.
    pub output_formats: Vec<OutputFormat>,
    /// How a table can be sent to it, such as [`UPLOAD_INLINE_ID`] (TAPRegExt 1.0, 2.5); none for not at all.
    pub upload_methods: Vec<String>,
    /// How long a job is kept, in seconds.
    pub retention_seconds: TapLimit,
    /// How long a job may run, in seconds.
    pub execution_seconds: TapLimit,
    /// How many rows an answer has.
    pub output_rows: TapLimit,
    /// How many bytes of tables may be sent to it.
    pub upload_bytes: TapLimit,
}

/// Features of one type (TAPRegExt 1.0, 2.3).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LanguageFeatures {
    /// Which type, such as [`FEATURES_UDF_ID`].
    pub type_id: String,
    /// The form and the description of each; a description may be empty.
    pub features: Vec<(String, String)>,
}

/// A format that a service writes (TAPRegExt 1.0, 2.4).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutputFormat {
    /// Its media type, which RESPONSEFORMAT takes.
    pub media_type: String,
    /// What RESPONSEFORMAT takes, too.
    pub aliases: Vec<String>,
    /// What it is more exactly, such as [`OUTPUT_BINARY2_ID`].
    pub ivo_id: Option<String>,
}

/// A limit (TAPRegExt 1.0, 2.6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TapLimit {
    /// Where a request says nothing.
    pub default: Option<u64>,
    /// Whatever a request says.
    pub hard: Option<u64>,
}

/// The document of `capabilities` of a service of TAP (VOSI 1.1, capability metadata).
pub fn tap_capabilities(service: &TapCapabilities) -> Vec<u8> {
    let mut xml = Xml::new();
    let namespaces = [&NAMESPACES[..], &[("xmlns:tr", "http://www.ivoa.net/xml/TAPRegExt/v1.0")]].concat();
    xml.open(ROOT, &namespaces);
    write_table_access(&mut xml, service);
    let at = |resource: &str| format!("{}/{resource}", service.base_url);
    for (standard_id, resource, version) in [
        (CAPABILITIES_ID, "capabilities", "1.0"),
        (AVAILABILITY_ID, "availability", "1.0"),
        (TABLES_ID, "tables", "1.1"),
    ] {
        write_capability(&mut xml, &Capability { standard_id, access_url: at(resource) }, version);
    }
    xml.open("capability", &[("standardID", EXAMPLES_ID)]);
    // It is a page for people, which programs read as well (DALI 1.1, 2.3).
    xml.open("interface", &[("xsi:type", "vr:WebBrowser")]);
    xml.text("accessURL", &[("use", "full")], &at("examples"));
    xml.close("interface");
    xml.close("capability");
    xml.close(ROOT);
    xml.finish()
}

/// The capability of TAP itself. Its schema demands this order.
fn write_table_access(xml: &mut Xml, service: &TapCapabilities) {
    xml.open("capability", &[("standardID", TAP_ID), ("xsi:type", "tr:TableAccess")]);
    xml.open("interface", &[("xsi:type", "vs:ParamHTTP"), ("role", "std"), ("version", "1.1")]);
    xml.text("accessURL", &[("use", "base")], &service.base_url);
    xml.close("interface");
    write_language(xml, service);
    for format in &service.output_formats {
        let ivo_id = format.ivo_id.as_deref().map(|id| ("ivo-id", id));
        xml.open("outputFormat", ivo_id.as_slice());
        xml.text("mime", &[], &format.media_type);
        format.aliases.iter().for_each(|alias| xml.text("alias", &[], alias));
        xml.close("outputFormat");
    }
    service.upload_methods.iter().for_each(|id| xml.empty("uploadMethod", &[("ivo-id", id)]));
    write_limit(xml, "retentionPeriod", service.retention_seconds, &[]);
    write_limit(xml, "executionDuration", service.execution_seconds, &[]);
    write_limit(xml, "outputLimit", service.output_rows, &[("unit", "row")]);
    write_limit(xml, "uploadLimit", service.upload_bytes, &[("unit", "byte")]);
    xml.close("capability");
}

/// The languages (TAPRegExt 1.0, 2.3).
fn write_language(xml: &mut Xml, service: &TapCapabilities) {
    xml.open("language", &[]);
    xml.text("name", &[], "ADQL");
    for (version, id) in ADQL_VERSIONS {
        xml.text("version", &[("ivo-id", id)], version);
    }
    xml.optional("description", &service.language_description);
    for group in &service.features {
        xml.open("languageFeatures", &[("type", &group.type_id)]);
        for (form, description) in &group.features {
            xml.open("feature", &[]);
            xml.text("form", &[], form);
            xml.optional("description", description);
            xml.close("feature");
        }
        xml.close("languageFeatures");
    }
    xml.close("language");
}

fn write_limit(xml: &mut Xml, name: &str, limit: TapLimit, attributes: &[(&str, &str)]) {
    if limit == TapLimit::default() {
        return;
    }
    xml.open(name, &[]);
    for (which, value) in [("default", limit.default), ("hard", limit.hard)] {
        if let Some(value) = value {
            xml.text(which, attributes, &value.to_string());
        }
    }
    xml.close(name);
}

/// The versions of ADQL, the newest last (TAPRegExt 1.0, 2.3).
const ADQL_VERSIONS: [(&str, &str); 2] =
    [("2.0", "ivo://ivoa.net/std/ADQL#v2.0"), ("2.1", "ivo://ivoa.net/std/ADQL#v2.1")];
/// The standard of TAP.
pub const TAP_ID: &str = "ivo://ivoa.net/std/TAP";
/// Features that are functions of the service's own.
pub const FEATURES_UDF_ID: &str = "ivo://ivoa.net/std/TAPRegExt#features-udf";
/// Features that are functions of geometry.
pub const FEATURES_GEOMETRY_ID: &str = "ivo://ivoa.net/std/TAPRegExt#features-adqlgeo";
/// VOTable with rows as BINARY2.
pub const OUTPUT_BINARY2_ID: &str = "ivo://ivoa.net/std/TAPRegExt#output-votable-binary2";
/// VOTable with rows as TABLEDATA.
pub const OUTPUT_TABLEDATA_ID: &str = "ivo://ivoa.net/std/TAPRegExt#output-votable-td";
/// Tables that come with the request.
pub const UPLOAD_INLINE_ID: &str = "ivo://ivoa.net/std/TAPRegExt#upload-inline";
/// Tables that the service fetches by HTTP.
pub const UPLOAD_HTTP_ID: &str = "ivo://ivoa.net/std/TAPRegExt#upload-http";
