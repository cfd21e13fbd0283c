//! What is asked of a query over TAP (1.1, 2.7): the query, how many rows, in which format, with which uploaded tables. It
//! never reads an upload.

use vo::{DaliParameters, Fault};

use crate::{adql::AdqlQuery, output::ResultFormat};

/// A query with what belongs to it.
#[derive(Debug)]
pub(super) struct TapQuery {
    pub(super) adql: AdqlQuery,
    /// Rows of the answer at most.
    pub(super) rows_max: usize,
    pub(super) format: TapFormat,
    pub(super) uploads: Vec<UploadedTable>,
}

/// How an answer is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TapFormat {
    pub(super) format: ResultFormat,
    /// Its type, as answers say it.
    pub(super) media_type: &'static str,
    /// What else it is called.
    pub(super) aliases: &'static [&'static str],
}

impl TapFormat {
    /// Whether it can say at its end that rows are missing.
    pub(super) fn tells_its_end(self) -> bool {
        matches!(self.format, ResultFormat::Votable | ResultFormat::VotableTd)
    }

    fn named(name: &str) -> Result<Self, Fault> {
        let plain = |text: &str| text.to_ascii_lowercase().replace(' ', "");
        let name = plain(name);
        let is_it = |format: &&Self| {
            plain(format.media_type) == name || format.aliases.iter().any(|alias| plain(alias) == name)
        };
        let known = FORMATS.iter().find(is_it).copied();
        known.ok_or_else(|| {
            let names: Vec<_> = FORMATS.iter().filter_map(|format| format.aliases.first().copied()).collect();
            Fault::Usage(format!("RESPONSEFORMAT `{name}` is not known: there are {}", names.join(", ")))
        })
    }
}

/// A table that came with a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UploadedTable {
    /// What the query calls it, behind `TAP_UPLOAD`.
    pub(super) table: String,
    pub(super) from: UploadedFrom,
}

/// Where such a table is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum UploadedFrom {
    /// In this part of the form.
    Part(String),
    /// At this address.
    Url(String),
}

impl TapQuery {
    /// Reads a query.
    ///
    /// # Errors
    /// What is missing or makes no sense.
    pub(super) fn read(parameters: &DaliParameters) -> Result<Self, Fault> {
        if let Some(request) = parameters.one("REQUEST")?
            && !request.eq_ignore_ascii_case("doQuery")
        {
            return Err(Fault::Usage(format!("REQUEST is doQuery, not `{request}`")));
        }
        let missing = |name: &str| Fault::Usage(format!("the parameter {name} is missing"));
        let language = parameters.one("LANG")?.ok_or_else(|| missing("LANG"))?;
        if !LANGUAGES.iter().any(|known| known.eq_ignore_ascii_case(language)) {
            return Err(Fault::Usage(format!("LANG `{language}` is not known: there is ADQL, up to 2.1")));
        }
        let text = parameters.one("QUERY")?.ok_or_else(|| missing("QUERY"))?;
        let adql = AdqlQuery::parse(text).map_err(|error| Fault::Usage(format!("QUERY: {error}")))?;
        let rows_max = parameters.read_one::<usize>("MAXREC")?.unwrap_or(ROWS_DEFAULT).min(ROWS_MAX);
        Ok(Self { adql, rows_max, format: format(parameters)?, uploads: uploads(parameters)? })
    }
}

fn format(parameters: &DaliParameters) -> Result<TapFormat, Fault> {
    // FORMAT is what TAP 1.0 called it.
    let wanted = parameters.one("RESPONSEFORMAT")?.or(parameters.one("FORMAT")?);
    wanted.map_or(Ok(FORMATS[0]), TapFormat::named)
}

/// `UPLOAD=name,param:part`, several by semicolons or by several values.
pub(super) fn uploads(parameters: &DaliParameters) -> Result<Vec<UploadedTable>, Fault> {
    let mut all: Vec<UploadedTable> = Vec::new();
    for one in parameters.all("UPLOAD").flat_map(|value| value.split(';')).filter(|one| !one.trim().is_empty()) {
        let wrong = || Fault::Usage(format!("UPLOAD is NAME,param:PART or NAME,http://…, not `{one}`"));
        let (table, from) = one.trim().split_once(',').ok_or_else(wrong)?;
        let table = table.trim().to_ascii_lowercase();
        let from = match from.trim() {
            part if part.len() > "param:".len() && part.starts_with("param:") => {
                UploadedFrom::Part(part["param:".len()..].to_owned())
            }
            url if url.starts_with("http://") || url.starts_with("https://") => UploadedFrom::Url(url.to_owned()),
            _ => return Err(wrong()),
        };
        let is_name = table.starts_with(|c: char| c.is_ascii_alphabetic())
            && table.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if !is_name {
            return Err(wrong());
        }
        if all.iter().any(|known| known.table == table) {
            return Err(Fault::Usage(format!("UPLOAD: two tables are called `{table}`")));
        }
        all.push(UploadedTable { table, from });
    }
    if all.len() > UPLOADS_MAX {
        return Err(Fault::TooLarge(format!("a query brings {UPLOADS_MAX} tables at most")));
    }
    Ok(all)
}

/// What answers can be; the first one unless another is asked for.
pub(super) const FORMATS: [TapFormat; 8] = [
    TapFormat {
        format: ResultFormat::Votable,
        media_type: "application/x-votable+xml",
        aliases: &["votable", "application/x-votable+xml;serialization=BINARY2", "votable/b2", "text/xml"],
    },
    TapFormat {
        format: ResultFormat::VotableTd,
        media_type: "application/x-votable+xml;serialization=TABLEDATA",
        aliases: &["votable/td"],
    },
    TapFormat { format: ResultFormat::Fits, media_type: "application/fits", aliases: &["fits"] },
    TapFormat { format: ResultFormat::Csv, media_type: "text/csv;header=present", aliases: &["csv", "text/csv"] },
    TapFormat { format: ResultFormat::Tsv, media_type: "text/tab-separated-values", aliases: &["tsv"] },
    TapFormat {
        format: ResultFormat::Parquet,
        media_type: "application/vnd.apache.parquet",
        aliases: &["parquet", "application/x-parquet"],
    },
    TapFormat { format: ResultFormat::Arrow, media_type: "application/vnd.apache.arrow.stream", aliases: &["arrow"] },
    TapFormat { format: ResultFormat::Json, media_type: "application/json", aliases: &["json"] },
];
const LANGUAGES: [&str; 3] = ["ADQL", "ADQL-2.0", "ADQL-2.1"];
/// Rows of an answer unless MAXREC says it.
pub(super) const ROWS_DEFAULT: usize = 100_000;
/// Rows of an answer at most.
pub(super) const ROWS_MAX: usize = 50_000_000;
const UPLOADS_MAX: usize = 20;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn read(query: &str) -> Result<TapQuery, Fault> {
        TapQuery::read(&DaliParameters::parse(query))
    }

    #[test]
    fn a_query_is_read_with_what_it_leaves_out() {
        let query = read("LANG=ADQL&QUERY=SELECT+1+AS+a").unwrap();
        assert_eq!((query.rows_max, query.format), (ROWS_DEFAULT, FORMATS[0]));
        let query = read("request=doQuery&lang=adql-2.1&query=SELECT+1&maxrec=7&format=text/csv").unwrap();
        assert_eq!((query.rows_max, query.format.format), (7, ResultFormat::Csv));
        let td = read("LANG=ADQL&QUERY=SELECT+1&RESPONSEFORMAT=application/x-votable%2bxml;+serialization=tabledata");
        assert_eq!(td.unwrap().format.format, ResultFormat::VotableTd);
        let uploads = read("LANG=ADQL&QUERY=SELECT+1&UPLOAD=A,param:x;b,param:y&UPLOAD=c,http://h/z").unwrap().uploads;
        let part = |part: &str| UploadedFrom::Part(part.into());
        let from = [("a", part("x")), ("b", part("y")), ("c", UploadedFrom::Url("http://h/z".into()))];
        let wanted = from.map(|(table, from)| UploadedTable { table: table.into(), from });
        assert_eq!(uploads, wanted);
    }

    #[test]
    fn what_makes_no_sense_is_said() {
        for (query, why) in [
            ("QUERY=SELECT+1", "LANG is missing"),
            ("LANG=ADQL", "QUERY is missing"),
            ("LANG=PQL&QUERY=SELECT+1", "`PQL`"),
            ("LANG=ADQL&QUERY=SELEC", "QUERY: "),
            ("LANG=ADQL&QUERY=SELECT+1&MAXREC=-1", "MAXREC"),
            ("LANG=ADQL&QUERY=SELECT+1&FORMAT=pdf", "`pdf`"),
            ("LANG=ADQL&QUERY=SELECT+1&REQUEST=getCapabilities", "REQUEST"),
            ("LANG=ADQL&QUERY=SELECT+1&UPLOAD=x", "UPLOAD is"),
            ("LANG=ADQL&QUERY=SELECT+1&UPLOAD=x,file:///etc/passwd", "UPLOAD is"),
            ("LANG=ADQL&QUERY=SELECT+1&UPLOAD=x,param:", "UPLOAD is"),
            ("LANG=ADQL&QUERY=SELECT+1&UPLOAD=1x,param:y", "UPLOAD is"),
            ("LANG=ADQL&QUERY=SELECT+1&UPLOAD=x,param:y;X,param:z", "two tables"),
        ] {
            let said = read(query).unwrap_err().to_string();
            assert!(said.contains(why), "{query}: {said}");
        }
    }
}
