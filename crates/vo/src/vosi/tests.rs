//! The documents are read again, and have the elements and attributes that their schemas demand, in their order.
#![allow(clippy::unwrap_used)]

use quick_xml::{
    Reader,
    events::{BytesStart, Event},
};

use super::*;
use crate::votable::{Column, ColumnKind};

/// An element of a document.
#[derive(Debug, Default)]
struct Element {
    name: String,
    attributes: Vec<(String, String)>,
    text: String,
    children: Vec<Self>,
}

impl Element {
    fn read(document: &[u8]) -> Self {
        let mut reader = Reader::from_reader(document);
        let mut open = vec![Self::default()];
        loop {
            match reader.read_event_into(&mut Vec::new()).unwrap() {
                Event::Start(start) => open.push(Self::begin(&start)),
                Event::Empty(start) => open.last_mut().unwrap().children.push(Self::begin(&start)),
                Event::End(_) => {
                    let element = open.pop().unwrap();
                    open.last_mut().unwrap().children.push(element);
                }
                Event::Text(text) => open.last_mut().unwrap().text.push_str(text.xml10_content().trim()),
                Event::GeneralRef(name) => {
                    let text = quick_xml::escape::resolve_predefined_entity(&name).unwrap();
                    open.last_mut().unwrap().text.push_str(text);
                }
                Event::Eof => break,
                _ => {}
            }
        }
        assert_eq!(open.len(), 1);
        open.pop().unwrap().children.pop().unwrap()
    }

    fn begin(start: &BytesStart<'_>) -> Self {
        let attribute = |attribute: quick_xml::events::attributes::Attribute<'_>| {
            let value = attribute.normalized_value(quick_xml::XmlVersion::Implicit1_0).unwrap();
            (attribute.key.as_ref().to_owned(), value.into_owned())
        };
        let attributes = start.attributes().map(|found| attribute(found.unwrap())).collect();
        Self { name: start.name().as_ref().to_owned(), attributes, ..Self::default() }
    }

    fn children<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Self> {
        self.children.iter().filter(move |child| child.name == name)
    }

    fn child<'a>(&'a self, name: &'a str) -> &'a Self {
        self.children(name).next().unwrap()
    }

    fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    /// Names and texts of what is within.
    fn outline(&self) -> Vec<(&str, &str)> {
        self.children.iter().map(|child| (child.name.as_str(), child.text.as_str())).collect()
    }
}

fn photometry() -> TableDescription {
    let ra = Column {
        unit: "deg".into(),
        ucd: "pos.eq.ra".into(),
        utype: "a:b".into(),
        description: "Right <ascension> & more".into(),
        ..Column::new("ra", ColumnKind::Double)
    };
    let shape = Column { xtype: "polygon".into(), ..Column::new("shape", ColumnKind::Doubles) };
    let columns = vec![
        TableColumn { is_indexed: true, is_primary: true, is_standard: true, ..ra.into() },
        shape.into(),
        TableColumn { is_indexed: true, ..Column::new("name", ColumnKind::Text).into() },
    ];
    TableDescription {
        name: "sky.photometry".into(),
        description: "All of it".into(),
        rows: Some(7),
        columns,
        ..TableDescription::default()
    }
}

fn check_photometry(table: &Element) {
    assert_eq!(table.outline()[..3], [("name", "sky.photometry"), ("description", "All of it"), ("nrows", "7")]);
    let columns: Vec<_> = table.children("column").collect();
    assert_eq!(columns.len() + 3, table.children.len());
    let expected = [
        ("name", "ra"),
        ("description", "Right<ascension>&more"),
        ("unit", "deg"),
        ("ucd", "pos.eq.ra"),
        ("utype", "a:b"),
        ("dataType", "double"),
        ("flag", "indexed"),
        ("flag", "primary"),
    ];
    assert_eq!(columns[0].outline(), expected);
    assert_eq!(columns[1].outline(), [("name", "shape"), ("dataType", "double")]);
    assert_eq!(columns[2].outline(), [("name", "name"), ("dataType", "unicodeChar"), ("flag", "indexed")]);
    for (column, standard, arraysize, xtype) in
        [(0, "true", None, None), (1, "false", Some("*"), Some("polygon")), (2, "false", Some("*"), None)]
    {
        assert_eq!(columns[column].attribute("std"), Some(standard));
        let datatype = columns[column].child("dataType");
        assert_eq!(datatype.attribute("xsi:type"), Some("vs:VOTableType"));
        assert_eq!((datatype.attribute("arraysize"), datatype.attribute("extendedType")), (arraysize, xtype));
    }
}

fn check_namespaces(root: &Element, expected: &[(&str, &str)]) {
    for (prefix, namespace) in expected {
        assert_eq!(root.attribute(&format!("xmlns:{prefix}")), Some(*namespace));
    }
    assert_eq!(root.attribute("xmlns:vs"), Some("http://www.ivoa.net/xml/VODataService/v1.1"));
    assert_eq!(root.attribute("xmlns:xsi"), Some("http://www.w3.org/2001/XMLSchema-instance"));
}

#[test]
fn tables_are_described_in_their_schemas() {
    let bare = TableDescription { name: "sky.other".into(), ..TableDescription::default() };
    let sky = SchemaDescription {
        name: "sky".into(),
        description: "What is up there".into(),
        tables: vec![photometry(), bare],
    };
    let empty = SchemaDescription { name: "empty".into(), ..SchemaDescription::default() };
    let root = Element::read(&tableset(&[sky, empty]));
    assert_eq!((root.name.as_str(), root.attribute("version")), ("vosi:tableset", None));
    check_namespaces(&root, &[("vosi", "http://www.ivoa.net/xml/VOSITables/v1.0")]);
    let schemas: Vec<_> = root.children("schema").collect();
    let outline = [("name", "sky"), ("description", "What is up there"), ("table", ""), ("table", "")];
    assert_eq!(schemas[0].outline(), outline);
    check_photometry(schemas[0].child("table"));
    assert_eq!(schemas[0].children[3].outline(), [("name", "sky.other")]);
    assert_eq!(schemas[1].outline(), [("name", "empty")]);
}

#[test]
fn a_table_has_a_document_of_its_own() {
    let root = Element::read(&table_document(&photometry()));
    assert_eq!((root.name.as_str(), root.attribute("version")), ("vosi:table", None));
    check_namespaces(&root, &[("vosi", "http://www.ivoa.net/xml/VOSITables/v1.0")]);
    check_photometry(&root);
}

fn service() -> TapCapabilities {
    let format = |media_type: &str, aliases: &[&str], ivo_id: Option<&str>| OutputFormat {
        media_type: media_type.into(),
        aliases: aliases.iter().map(|&alias| alias.into()).collect(),
        ivo_id: ivo_id.map(Into::into),
    };
    TapCapabilities {
        base_url: "https://sky.example/tap".into(),
        language_description: "ADQL".into(),
        features: vec![
            LanguageFeatures {
                type_id: FEATURES_GEOMETRY_ID.into(),
                features: vec![("POINT".into(), String::new()), ("CIRCLE".into(), String::new())],
            },
            LanguageFeatures {
                type_id: FEATURES_UDF_ID.into(),
                features: vec![("f(a REAL) -> REAL".into(), "Twice.".into())],
            },
        ],
        output_formats: vec![
            format("application/x-votable+xml;serialization=binary2", &["votable"], Some(OUTPUT_BINARY2_ID)),
            format("text/csv", &["csv", "text/csv;header=present"], None),
        ],
        upload_methods: vec![UPLOAD_INLINE_ID.into(), UPLOAD_HTTP_ID.into()],
        retention_seconds: TapLimit { default: Some(86_400), hard: Some(604_800) },
        execution_seconds: TapLimit { default: Some(600), hard: Some(3_600) },
        output_rows: TapLimit { default: Some(10_000), hard: Some(1_000_000) },
        upload_bytes: TapLimit { default: None, hard: Some(1 << 26) },
    }
}

#[test]
fn a_service_of_tap_says_all_that_it_can_do() {
    let root = Element::read(&tap_capabilities(&service()));
    assert_eq!(root.name, "vosi:capabilities");
    check_namespaces(
        &root,
        &[
            ("vosi", "http://www.ivoa.net/xml/VOSICapabilities/v1.0"),
            ("vr", "http://www.ivoa.net/xml/VOResource/v1.0"),
            ("tr", "http://www.ivoa.net/xml/TAPRegExt/v1.0"),
        ],
    );
    let tap = &root.children[0];
    assert_eq!((tap.attribute("standardID"), tap.attribute("xsi:type")), (Some(TAP_ID), Some("tr:TableAccess")));
    let names: Vec<_> = tap.outline().into_iter().map(|(name, _)| name).collect();
    let expected = [
        "interface",
        "language",
        "outputFormat",
        "outputFormat",
        "uploadMethod",
        "uploadMethod",
        "retentionPeriod",
        "executionDuration",
        "outputLimit",
        "uploadLimit",
    ];
    assert_eq!(names, expected);
    let interface = tap.child("interface");
    let attributes = ["xsi:type", "role", "version"].map(|name| interface.attribute(name).unwrap());
    assert_eq!(attributes, ["vs:ParamHTTP", "std", "1.1"]);
    assert_eq!(interface.outline(), [("accessURL", "https://sky.example/tap")]);
    assert_eq!(interface.child("accessURL").attribute("use"), Some("base"));
}

#[test]
fn the_language_is_adql_with_its_features() {
    let root = Element::read(&tap_capabilities(&service()));
    let language = root.children[0].child("language");
    let expected = [
        ("name", "ADQL"),
        ("version", "2.0"),
        ("version", "2.1"),
        ("description", "ADQL"),
        ("languageFeatures", ""),
        ("languageFeatures", ""),
    ];
    assert_eq!(language.outline(), expected);
    let ids: Vec<_> = language.children("version").map(|version| version.attribute("ivo-id").unwrap()).collect();
    assert_eq!(ids, ["ivo://ivoa.net/std/ADQL#v2.0", "ivo://ivoa.net/std/ADQL#v2.1"]);
    let groups: Vec<_> = language.children("languageFeatures").collect();
    let types: Vec<_> = groups.iter().map(|group| group.attribute("type").unwrap()).collect();
    assert_eq!(types, [FEATURES_GEOMETRY_ID, FEATURES_UDF_ID]);
    assert_eq!(groups[0].outline(), [("feature", ""), ("feature", "")]);
    assert_eq!(groups[0].children[1].outline(), [("form", "CIRCLE")]);
    assert_eq!(groups[1].children[0].outline(), [("form", "f(a REAL) ->REAL"), ("description", "Twice.")]);
}

#[test]
fn formats_and_limits_have_their_units_and_names() {
    let root = Element::read(&tap_capabilities(&service()));
    let tap = &root.children[0];
    let formats: Vec<_> = tap.children("outputFormat").collect();
    let binary = "application/x-votable+xml;serialization=binary2";
    assert_eq!(formats[0].outline(), [("mime", binary), ("alias", "votable")]);
    assert_eq!(formats[1].outline(), [("mime", "text/csv"), ("alias", "csv"), ("alias", "text/csv;header=present")]);
    let ids: Vec<_> = formats.iter().map(|format| format.attribute("ivo-id")).collect();
    assert_eq!(ids, [Some(OUTPUT_BINARY2_ID), None]);
    let methods: Vec<_> = tap.children("uploadMethod").map(|method| method.attribute("ivo-id").unwrap()).collect();
    assert_eq!(methods, [UPLOAD_INLINE_ID, UPLOAD_HTTP_ID]);
    for (name, unit, expected) in [
        ("retentionPeriod", None, &[("default", "86400"), ("hard", "604800")][..]),
        ("executionDuration", None, &[("default", "600"), ("hard", "3600")]),
        ("outputLimit", Some("row"), &[("default", "10000"), ("hard", "1000000")]),
        ("uploadLimit", Some("byte"), &[("hard", "67108864")]),
    ] {
        let limit = tap.child(name);
        assert_eq!(limit.outline(), expected);
        assert!(limit.children.iter().all(|child| child.attribute("unit") == unit), "{name}");
    }
}

#[test]
fn what_a_service_of_tap_does_not_have_is_not_there() {
    let root = Element::read(&tap_capabilities(&TapCapabilities::default()));
    let names: Vec<_> = root.children[0].outline().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["interface", "language"]);
    assert_eq!(root.children[0].child("language").children.len(), 3);
}

#[test]
fn the_rest_of_a_service_of_tap_is_below_its_address() {
    let root = Element::read(&tap_capabilities(&service()));
    let others = root.children("capability").skip(1).map(|capability| {
        let interface = capability.child("interface");
        let address = interface.child("accessURL");
        assert_eq!(address.attribute("use"), Some("full"));
        let kind = interface.attribute("xsi:type").unwrap();
        (capability.attribute("standardID").unwrap(), kind, interface.attribute("version"), address.text.as_str())
    });
    let expected = [
        (CAPABILITIES_ID, "vs:ParamHTTP", Some("1.0"), "https://sky.example/tap/capabilities"),
        (AVAILABILITY_ID, "vs:ParamHTTP", Some("1.0"), "https://sky.example/tap/availability"),
        (TABLES_ID, "vs:ParamHTTP", Some("1.1"), "https://sky.example/tap/tables"),
        (EXAMPLES_ID, "vr:WebBrowser", None, "https://sky.example/tap/examples"),
    ];
    assert_eq!(others.collect::<Vec<_>>(), expected);
}

#[test]
fn other_services_say_their_standards_and_addresses() {
    let soda = Capability { standard_id: "ivo://ivoa.net/std/SODA#sync-1.0", access_url: "https://a/?b&c".into() };
    let root = Element::read(&capabilities(&[soda]));
    check_namespaces(&root, &[("vosi", "http://www.ivoa.net/xml/VOSICapabilities/v1.0")]);
    let interface = root.children[0].child("interface");
    assert_eq!(root.children[0].attribute("standardID"), Some("ivo://ivoa.net/std/SODA#sync-1.0"));
    assert_eq!(interface.outline(), [("accessURL", "https://a/?b&c"), ("queryType", "GET")]);
}
