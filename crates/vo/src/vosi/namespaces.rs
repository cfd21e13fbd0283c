//! Namespaces that several documents of VOSI name 1.1. It never fetches a schema.

/// The namespace of types of elements.
pub(super) const XSI: &str = "http://www.w3.org/2001/XMLSchema-instance";
/// The namespace of services with parameters, and of tables. Version 1.2 of its standard has kept it.
pub(super) const VODATASERVICE: &str = "http://www.ivoa.net/xml/VODataService/v1.1";
