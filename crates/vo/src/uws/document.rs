//! Jobs in XML (UWS 1.1, appendix A). It never changes one.

use super::UwsJob;
use crate::xml::Xml;

const NAMESPACES: [(&str, &str); 4] = [
    ("xmlns:uws", "http://www.ivoa.net/xml/UWS/v1.0"),
    ("xmlns:xlink", "http://www.w3.org/1999/xlink"),
    ("xmlns:xsi", "http://www.w3.org/2001/XMLSchema-instance"),
    ("version", "1.1"),
];

/// A job, whose results are below this address.
pub(super) fn job(record: &UwsJob, url: &str) -> Vec<u8> {
    let mut xml = Xml::new();
    xml.open("uws:job", &NAMESPACES);
    xml.text("uws:jobId", &[], &record.id);
    if let Some(run) = &record.run_id {
        xml.text("uws:runId", &[], run);
    }
    optional(&mut xml, "uws:ownerId", record.owner.as_deref());
    xml.text("uws:phase", &[], &record.phase.to_string());
    optional(&mut xml, "uws:quote", None);
    xml.text("uws:creationTime", &[], &record.created.to_string());
    optional(&mut xml, "uws:startTime", record.started.map(|time| time.to_string()).as_deref());
    optional(&mut xml, "uws:endTime", record.ended.map(|time| time.to_string()).as_deref());
    xml.text("uws:executionDuration", &[], &record.execution_seconds.to_string());
    xml.text("uws:destruction", &[], &record.destruction.to_string());
    write_parameters(&mut xml, record, &[]);
    write_results(&mut xml, record, url, &[]);
    if let Some(fault) = &record.fault {
        let kind = if fault.is_transient { "transient" } else { "fatal" };
        xml.open("uws:errorSummary", &[("type", kind), ("hasDetail", "true")]);
        xml.text("uws:message", &[], &fault.message);
        xml.close("uws:errorSummary");
    }
    xml.close("uws:job");
    xml.finish()
}

/// Jobs in short, which are below this address.
pub(super) fn list(records: &[UwsJob], url: &str) -> Vec<u8> {
    let mut xml = Xml::new();
    xml.open("uws:jobs", &NAMESPACES);
    for record in records {
        let at = format!("{url}/{}", record.id);
        xml.open("uws:jobref", &[("id", &record.id), ("xlink:type", "simple"), ("xlink:href", &at)]);
        xml.text("uws:phase", &[], &record.phase.to_string());
        if let Some(run) = &record.run_id {
            xml.text("uws:runId", &[], run);
        }
        optional(&mut xml, "uws:ownerId", record.owner.as_deref());
        xml.text("uws:creationTime", &[], &record.created.to_string());
        xml.close("uws:jobref");
    }
    xml.close("uws:jobs");
    xml.finish()
}

/// What a job was asked.
pub(super) fn parameters(record: &UwsJob) -> Vec<u8> {
    let mut xml = Xml::new();
    write_parameters(&mut xml, record, &NAMESPACES);
    xml.finish()
}

/// What a job has made.
pub(super) fn results(record: &UwsJob, url: &str) -> Vec<u8> {
    let mut xml = Xml::new();
    write_results(&mut xml, record, url, &NAMESPACES);
    xml.finish()
}

fn write_parameters(xml: &mut Xml, record: &UwsJob, attributes: &[(&str, &str)]) {
    xml.open("uws:parameters", attributes);
    for (name, value) in &record.parameters {
        xml.text("uws:parameter", &[("id", name)], value);
    }
    xml.close("uws:parameters");
}

fn write_results(xml: &mut Xml, record: &UwsJob, url: &str, attributes: &[(&str, &str)]) {
    xml.open("uws:results", attributes);
    for result in &record.results {
        let at = format!("{url}/results/{}", result.id);
        let bytes = result.bytes.to_string();
        xml.empty(
            "uws:result",
            &[
                ("id", &result.id),
                ("xlink:type", "simple"),
                ("xlink:href", &at),
                ("mime-type", &result.media_type),
                ("size", &bytes),
            ],
        );
    }
    xml.close("uws:results");
}

fn optional(xml: &mut Xml, name: &str, text: Option<&str>) {
    match text {
        Some(text) => xml.text(name, &[], text),
        None => xml.empty(name, &[("xsi:nil", "true")]),
    }
}
