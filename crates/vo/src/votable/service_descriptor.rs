//! How a program is to call a service with a row of a table (DataLink 1.1, 4). It never calls one.

use super::Datatype;
use crate::xml::Xml;

/// A service, and what it takes.
#[derive(Clone, Debug)]
pub struct ServiceDescriptor {
    /// Its name within the document.
    pub id: &'static str,
    /// The standard that it follows.
    pub standard_id: &'static str,
    /// Where it is.
    pub access_url: String,
    /// What it takes.
    pub parameters: Vec<InputParameter>,
}

/// A parameter of a service. Its meaning is its name, UCD and unit together (SODA 1.0, 3).
#[derive(Clone, Debug)]
pub struct InputParameter {
    /// Its name.
    pub name: &'static str,
    /// What it holds.
    pub datatype: Datatype,
    /// Numbers in one value; empty for one, or for text.
    pub arraysize: &'static str,
    /// What it means.
    pub ucd: &'static str,
    /// The unit; empty for none.
    pub unit: &'static str,
    /// The type beyond the datatype; empty for none.
    pub xtype: &'static str,
    /// The column of the table whose value it is; empty for what the caller chooses.
    pub of_column: &'static str,
    /// A value that it always has here.
    pub value: String,
    /// The largest value that makes sense.
    pub largest: Option<String>,
    /// The values that it can have; empty for any.
    pub choices: &'static [&'static str],
}

impl InputParameter {
    /// A parameter of which nothing further is said.
    pub const fn new(name: &'static str, datatype: Datatype, ucd: &'static str) -> Self {
        Self {
            name,
            datatype,
            arraysize: "",
            ucd,
            unit: "",
            xtype: "",
            of_column: "",
            value: String::new(),
            largest: None,
            choices: &[],
        }
    }
}

impl ServiceDescriptor {
    pub(super) fn write(&self, xml: &mut Xml) {
        xml.open("RESOURCE", &[("type", "meta"), ("utype", "adhoc:service"), ("ID", self.id), ("name", self.id)]);
        let text = |xml: &mut Xml, name, value| {
            xml.empty("PARAM", &[("name", name), ("datatype", "char"), ("arraysize", "*"), ("value", value)]);
        };
        text(xml, "standardID", self.standard_id);
        text(xml, "accessURL", &self.access_url);
        xml.open("GROUP", &[("name", "inputParams")]);
        for parameter in &self.parameters {
            parameter.write(xml);
        }
        xml.close("GROUP");
        xml.close("RESOURCE");
    }
}

impl InputParameter {
    fn write(&self, xml: &mut Xml) {
        let kind = self.datatype.kind();
        let mut attributes = vec![("name", self.name), ("datatype", kind.datatype())];
        let is_array = !self.arraysize.is_empty();
        let arraysize = if is_array { self.arraysize } else { kind.arraysize().unwrap_or_default() };
        let further = [
            ("arraysize", arraysize),
            ("ucd", self.ucd),
            ("unit", self.unit),
            ("xtype", self.xtype),
            ("ref", self.of_column),
        ];
        attributes.extend(further.into_iter().filter(|(_, value)| !value.is_empty()));
        attributes.push(("value", &self.value));
        if self.largest.is_none() && self.choices.is_empty() {
            return xml.empty("PARAM", &attributes);
        }
        xml.open("PARAM", &attributes);
        xml.open("VALUES", &[]);
        if let Some(largest) = &self.largest {
            xml.empty("MAX", &[("value", largest)]);
        }
        for choice in self.choices {
            xml.empty("OPTION", &[("value", choice)]);
        }
        xml.close("VALUES");
        xml.close("PARAM");
    }
}
