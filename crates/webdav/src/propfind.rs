//! What clients ask of files and folders: `PROPFIND` (RFC 4918, 9.1). The answer grows entry by entry, says of each property
//! that is missing that it is, and breaks off rather than look whole. It never goes down more than one folder.

use std::io;

use axum::{
    body::{Body, to_bytes},
    extract::Request,
    response::Response,
};
use client::{Client, Entry, QuotaOf, SectorPath, namespace::is_folder};
use dav_server::{davpath::DavPath, ls::DavLock, ls::DavLockSystem};
use futures_util::{StreamExt, stream};
use http::{HeaderValue, StatusCode, header};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use xmltree::Element;

use crate::{
    digests::{Kind, Sums, content_of, digest_header, kept, tag_of},
    download::httpdate,
    failure::DavFailure,
    listing,
    locks::Locks,
    properties::kept_of,
    request::{DavRequest, path_of},
};

/// Answers `PROPFIND` of what is at a path, below this prefix.
pub(crate) async fn answer(
    about: DavRequest,
    (locks, user): (Locks, String),
    prefix: &'static str,
    path: SectorPath,
    request: Request,
) -> Result<Response, DavFailure> {
    let depth = request.headers().get("depth").and_then(|depth| depth.to_str().ok()).unwrap_or("1").to_owned();
    if depth == "infinity" {
        return Ok(finite_depth());
    }
    let body = to_bytes(request.into_body(), QUESTION_BYTES_MAX).await;
    let asked = Asked::parse(&body.map_err(|error| DavFailure::invalid(error.to_string()))?)?;
    let entry = about.client.stat(&path).await?.entry;
    let quota = if asked.wants_quota() { Quota::of(&about.client).await } else { Quota::default() };
    // Without a depth all that is below would be meant.
    let is_listed = depth != "0" && is_folder(&entry);
    let writer = Writer { asked, locks, user, prefix, quota };
    let first = if is_listed && depth == "1,noroot" { String::new() } else { writer.response(&entry) };
    let head = stream::iter([Ok(HEAD.to_owned() + &first)]);
    let children = if is_listed { listing::entries(about, path).boxed() } else { stream::empty().boxed() };
    let children = children.map(move |entry| match entry {
        Ok(entry) => Ok(writer.response(&entry)),
        Err(_) => Err(io::Error::other("the folder could not be listed to its end")),
    });
    let body = Body::from_stream(head.chain(children).chain(stream::iter([Ok(TAIL.to_owned())])));
    Ok(multistatus(StatusCode::MULTI_STATUS, body))
}

fn finite_depth() -> Response {
    let error = r#"<?xml version="1.0" encoding="utf-8"?><D:error xmlns:D="DAV:"><D:propfind-finite-depth/></D:error>"#;
    multistatus(StatusCode::FORBIDDEN, Body::from(error))
}

fn multistatus(status: StatusCode, body: Body) -> Response {
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    let kind = HeaderValue::from_static("application/xml; charset=utf-8");
    answer.headers_mut().insert(header::CONTENT_TYPE, kind);
    answer
}

/// The name of a property.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Name {
    namespace: String,
    local: String,
}

/// Which properties are asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Asked {
    /// All, and these too.
    All(Vec<Name>),
    /// The names of all.
    Names,
    /// These.
    Named(Vec<Name>),
}

impl Asked {
    fn parse(body: &[u8]) -> Result<Self, DavFailure> {
        if body.iter().all(u8::is_ascii_whitespace) {
            return Ok(Self::All(Vec::new()));
        }
        let wrong = |why: &str| DavFailure::invalid(format!("the body is no question about properties: {why}"));
        let root = Element::parse(body).map_err(|error| wrong(&error.to_string()))?;
        if root.name != "propfind" || root.namespace.as_deref() != Some(DAV) {
            return Err(wrong("it is no `propfind`"));
        }
        let child = |name: &str| elements(&root).find(|child| child.name == name && is_of_dav(child));
        let names = |of: &Element| {
            let mut names: Vec<Name> = Vec::new();
            for child in elements(of) {
                let name = Name { namespace: child.namespace.clone().unwrap_or_default(), local: child.name.clone() };
                if !names.contains(&name) {
                    names.push(name);
                }
            }
            names
        };
        let asked = match (child("prop"), child("propname"), child("allprop")) {
            (Some(prop), None, None) => Ok(Self::Named(names(prop))),
            (None, Some(_), None) => Ok(Self::Names),
            (None, None, Some(_)) => Ok(Self::All(child("include").map(names).unwrap_or_default())),
            _ => Err(wrong("it has one of `prop`, `propname` and `allprop`")),
        }?;
        // Each is written for each entry.
        if asked.names().iter().map(|name| name.namespace.len() + name.local.len()).sum::<usize>() > NAMES_BYTES_MAX {
            return Err(wrong("its names are too long"));
        }
        Ok(asked)
    }

    fn names(&self) -> &[Name] {
        match self {
            Self::All(names) | Self::Named(names) => names,
            Self::Names => &[],
        }
    }

    fn wants_quota(&self) -> bool {
        self.names().iter().any(|name| name.local.starts_with("quota-"))
    }
}

fn elements(of: &Element) -> impl Iterator<Item = &Element> {
    of.children.iter().filter_map(|child| child.as_element())
}

fn is_of_dav(element: &Element) -> bool {
    element.namespace.as_deref() == Some(DAV)
}

/// How much the user keeps, and may keep.
#[derive(Clone, Copy, Debug, Default)]
struct Quota {
    used: Option<u64>,
    left: Option<u64>,
}

impl Quota {
    /// Of the user who asks. Where that cannot be known, nothing is said of it.
    async fn of(client: &Client) -> Self {
        let Ok(quotas) = client.quotas().await else { return Self::default() };
        let mine = quotas.into_iter().find(|quota| quota.of == QuotaOf::User(client.user().clone()));
        let left = mine.as_ref().and_then(|quota| Some(quota.bytes?.saturating_sub(quota.used_bytes)));
        Self { used: mine.map(|quota| quota.used_bytes), left }
    }
}

/// Writes what is asked of each entry.
struct Writer {
    asked: Asked,
    locks: Locks,
    /// Who asks.
    user: String,
    prefix: &'static str,
    quota: Quota,
}

impl Writer {
    /// The `response` of an entry.
    fn response(&self, entry: &Entry) -> String {
        let (mut found, mut missing) = (String::new(), String::new());
        let mut add = |name: &Name| match self.property(entry, name) {
            Some(xml) => found.push_str(&xml),
            None => missing.push_str(&element(name, "")),
        };
        match &self.asked {
            Asked::Named(names) => names.iter().for_each(&mut add),
            Asked::Names => {
                let live = ALWAYS.iter().map(|name| dav(name)).filter(|name| self.live(entry, name).is_some());
                let own = kept_of(entry).map(|(namespace, local, _)| Name { namespace, local });
                live.chain(own).for_each(|name| found.push_str(&element(&name, "")));
            }
            Asked::All(more) => {
                let live = ALWAYS.iter().map(|name| dav(name)).filter(|name| self.live(entry, name).is_some());
                live.for_each(|name| add(&name));
                more.iter().filter(|name| !is_always(name)).for_each(&mut add);
                kept_of(entry).for_each(|(_, _, xml)| found.push_str(&xml));
            }
        }
        let mut response = format!("<D:response><D:href>{}</D:href>", self.href(entry));
        for (properties, status) in [(&found, "200 OK"), (&missing, "404 Not Found")] {
            // A client waits for one at least.
            if !properties.is_empty() || (status.starts_with("200") && missing.is_empty()) {
                response += &format!(
                    "<D:propstat><D:prop>{properties}</D:prop><D:status>HTTP/1.1 {status}</D:status></D:propstat>"
                );
            }
        }
        response + "</D:response>\n"
    }

    fn href(&self, entry: &Entry) -> String {
        let path = entry.path.as_str();
        let slash = if is_folder(entry) && !entry.path.is_root() { "/" } else { "" };
        format!("{}{}{slash}", self.prefix, utf8_percent_encode(path, ESCAPED))
    }

    /// A property as XML, if the entry has it.
    fn property(&self, entry: &Entry, name: &Name) -> Option<String> {
        if let Some(value) = self.live(entry, name) {
            return Some(element(name, &value));
        }
        let mut kept = kept_of(entry);
        kept.find(|(namespace, local, _)| *namespace == name.namespace && *local == name.local).map(|(_, _, xml)| xml)
    }

    /// The inner XML of a property that the entry has by itself.
    fn live(&self, entry: &Entry, name: &Name) -> Option<String> {
        let content = content_of(entry);
        let sums = || -> Option<Sums> {
            let content = content?;
            let sums: Sums = Kind::ALL.into_iter().filter_map(|kind| Some((kind, kept(content, kind)?))).collect();
            (!sums.is_empty()).then_some(sums)
        };
        match (&*name.namespace, &*name.local) {
            (DAV, "creationdate") => Some(client::views::rfc3339(entry.modified_unix_millis)),
            (DAV, "getlastmodified") => Some(httpdate(entry.modified_unix_millis)),
            (DAV, "getcontentlength") => content.map(|content| content.bytes.to_string()),
            (DAV, "getcontenttype") => Some(match content {
                Some(_) => mime_guess::from_path(entry.path.as_str()).first_or_octet_stream().to_string(),
                None => "httpd/unix-directory".to_owned(),
            }),
            (DAV, "getetag") => content.map(|content| format!("&quot;{}&quot;", tag_of(content))),
            (DAV, "resourcetype") => Some(if content.is_none() { "<D:collection/>".to_owned() } else { String::new() }),
            (DAV, "supportedlock") => Some(SUPPORTED_LOCKS.to_owned()),
            (DAV, "lockdiscovery") => Some(self.locks_of(entry)),
            (DAV, "quota-used-bytes") => self.quota.used.map(|bytes| bytes.to_string()),
            (DAV, "quota-available-bytes") => self.quota.left.map(|bytes| bytes.to_string()),
            // The names under which storage elements ask for sums.
            (DCACHE, "Checksums") => sums().map(|sums| digest_header(&sums)),
            (OWNCLOUD, "checksums") => sums().map(|sums| {
                let sums = digest_header(&sums).replace('=', ":").replace(',', " ").to_ascii_uppercase();
                format!("<oc:checksum xmlns:oc=\"{OWNCLOUD}\">{sums}</oc:checksum>")
            }),
            _ => None,
        }
    }

    fn locks_of(&self, entry: &Entry) -> String {
        let Ok(path) = DavPath::new(&utf8_percent_encode(entry.path.as_str(), ESCAPED).to_string()) else {
            return String::new();
        };
        let found = futures_util::FutureExt::now_or_never(self.locks.discover(&path)).unwrap_or_default();
        found.iter().take(LOCKS_SHOWN).map(|lock| self.active_lock(lock)).collect()
    }

    fn active_lock(&self, lock: &DavLock) -> String {
        let (scope, depth) =
            (if lock.shared { "shared" } else { "exclusive" }, if lock.deep { "infinity" } else { "0" });
        let seconds = lock.timeout.unwrap_or_default().as_secs();
        let mut owner = Vec::new();
        let config = xmltree::EmitterConfig::new().write_document_declaration(false);
        let is_written = lock.owner.as_ref().is_some_and(|it| it.write_with_config(&mut owner, config).is_ok());
        let owner = if is_written { String::from_utf8(owner).unwrap_or_default() } else { String::new() };
        // Who knows it can give the lock back, or write.
        let token = if lock.principal.as_deref() == Some(&self.user) {
            format!("<D:locktoken><D:href>{}</D:href></D:locktoken>", lock.token)
        } else {
            String::new()
        };
        let root = path_of(&lock.path).map(|path| utf8_percent_encode(path.as_str(), ESCAPED).to_string());
        format!(
            "<D:activelock><D:lockscope><D:{scope}/></D:lockscope><D:locktype><D:write/></D:locktype>\
             <D:depth>{depth}</D:depth>{owner}<D:timeout>Second-{seconds}</D:timeout>\
             {token}<D:lockroot><D:href>{}{}</D:href></D:lockroot></D:activelock>",
            self.prefix,
            root.unwrap_or_default()
        )
    }
}

fn dav(local: &str) -> Name {
    Name { namespace: DAV.to_owned(), local: local.to_owned() }
}

fn is_always(name: &Name) -> bool {
    name.namespace == DAV && ALWAYS.contains(&&*name.local)
}

/// A property with its inner XML.
fn element(Name { namespace, local }: &Name, inner: &str) -> String {
    match &**namespace {
        DAV => format!("<D:{local}>{inner}</D:{local}>"),
        // No prefix stands for no namespace.
        "" => format!("<{local}>{inner}</{local}>"),
        namespace => format!("<x:{local} xmlns:x=\"{}\">{inner}</x:{local}>", escaped(namespace)),
    }
}

/// Text as it may stand in an attribute.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

const DAV: &str = "DAV:";
const DCACHE: &str = "http://www.dcache.org/2013/webdav";
const OWNCLOUD: &str = "http://owncloud.org/ns";
/// What is said where all is asked for.
const ALWAYS: [&str; 8] = [
    "creationdate",
    "getlastmodified",
    "getcontentlength",
    "getcontenttype",
    "getetag",
    "resourcetype",
    "supportedlock",
    "lockdiscovery",
];
const SUPPORTED_LOCKS: &str = "<D:lockentry><D:lockscope><D:exclusive/></D:lockscope><D:locktype><D:write/></D:locktype>\
                               </D:lockentry><D:lockentry><D:lockscope><D:shared/></D:lockscope><D:locktype><D:write/>\
                               </D:locktype></D:lockentry>";
const HEAD: &str = "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<D:multistatus xmlns:D=\"DAV:\">\n";
const TAIL: &str = "</D:multistatus>\n";
/// Of all names that are asked for.
const NAMES_BYTES_MAX: usize = 16 << 10;
/// Locks that are told of one entry.
const LOCKS_SHOWN: usize = 16;
/// Of a question.
const QUESTION_BYTES_MAX: usize = 64 << 10;
/// All but what stands for itself in a path (RFC 3986).
pub(crate) const ESCAPED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~').remove(b'/');

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn questions_are_read_and_what_is_none_is_refused() {
        let parse = |body: &str| Asked::parse(body.as_bytes());
        let other = Name { namespace: "http://e.org".into(), local: "a".into() };
        assert_eq!(parse(" \n").unwrap(), Asked::All(Vec::new()));
        assert_eq!(parse(r#"<propfind xmlns="DAV:"><propname/></propfind>"#).unwrap(), Asked::Names);
        assert_eq!(
            parse(
                r#"<D:propfind xmlns:D="DAV:" xmlns:e="http://e.org"><D:prop><D:getetag/><e:a/></D:prop></D:propfind>"#
            )
            .unwrap(),
            Asked::Named(vec![dav("getetag"), other.clone()])
        );
        assert_eq!(
            parse(r#"<D:propfind xmlns:D="DAV:"><D:allprop/><D:include><a xmlns="http://e.org"/></D:include></D:propfind>"#)
                .unwrap(),
            Asked::All(vec![other])
        );
        for wrong in [
            "<",
            "<propfind/>",
            r#"<D:propfind xmlns:D="DAV:"/>"#,
            r#"<D:propfind xmlns:D="DAV:"><D:prop/><D:allprop/></D:propfind>"#,
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn names_of_others_are_written_with_their_namespace() {
        let name = Name { namespace: "a\"<&".into(), local: "b".into() };
        assert_eq!(element(&name, ""), r#"<x:b xmlns:x="a&quot;&lt;&amp;"></x:b>"#);
        assert_eq!(element(&dav("getetag"), "1"), "<D:getetag>1</D:getetag>");
    }
}
