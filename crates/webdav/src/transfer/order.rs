//! What a request for a third-party copy says. It never takes a header along that would change how the request itself is
//! read.

use client::{Client, ClientError, Condition, Reason, Refusal, SectorPath};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use url::Url;

use crate::{failure::DavFailure, request::tags_in, upload::version_with};

/// A third-party copy.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    /// Whether the bytes come here.
    pub(crate) is_pull: bool,
    /// The file there.
    pub(super) url: Url,
    /// Headers for the other storage element.
    pub(super) headers: HeaderMap,
    /// Whether a file that is there may be replaced.
    pub(super) may_replace: bool,
    /// Tags of which a file that is replaced must have one, if there are any.
    pub(super) if_match: Vec<String>,
    /// Connections at once.
    pub(super) streams: usize,
    /// Whether a copy of which the other side says no sum fails.
    pub(super) needs_sum: bool,
}

impl Order {
    /// From a request for a copy; `None` if it is none, or stays within the cloud.
    pub(crate) fn of(asked: &Uri, headers: &HeaderMap, method: &Method) -> Result<Option<Self>, DavFailure> {
        let is_copy = method.as_str() == "COPY";
        if !is_copy && method.as_str() != "MOVE" {
            return Ok(None);
        }
        let text = |name: &str| {
            let value = headers.get(name).map(|value| value.to_str().map(str::trim));
            value.transpose().map_err(|_| DavFailure::invalid(format!("the header `{name}` is no text")))
        };
        let (source, destination) = (text("source")?, text("destination")?);
        let (is_pull, named) = match (source, destination) {
            (Some(_), Some(_)) => return Err(DavFailure::invalid("give `Source` or `Destination`, not both")),
            (Some(source), None) => (true, source),
            (None, Some(destination)) if is_elsewhere(destination, asked, headers) => (false, destination),
            (None, _) => return Ok(None),
        };
        if !is_copy {
            return Err(DavFailure::new(StatusCode::BAD_GATEWAY, "what goes to another server is copied, not moved"));
        }
        if let Some(credential) = text("credential")?.filter(|kind| !kind.eq_ignore_ascii_case("none")) {
            let message = format!(
                "`Credential: {credential}` is not spoken here: say who you are there by `TransferHeaderAuthorization`"
            );
            return Err(DavFailure::invalid(message));
        }
        let streams = match text("x-number-of-streams")? {
            None => STREAMS,
            Some(text) => match text.parse() {
                Ok(streams @ 1..) => STREAMS_MAX.min(streams),
                _ => return Err(DavFailure::invalid(format!("`X-Number-Of-Streams: {text}` is no number of them"))),
            },
        };
        let flag = |name: &str, otherwise: bool| match text(name)? {
            None => Ok(otherwise),
            Some(text) if ["t", "true", "yes"].iter().any(|yes| text.eq_ignore_ascii_case(yes)) => Ok(true),
            Some(text) if ["f", "false", "no"].iter().any(|no| text.eq_ignore_ascii_case(no)) => Ok(false),
            Some(text) => Err(DavFailure::invalid(format!("`{name}: {text}` is neither yes nor no"))),
        };
        Ok(Some(Self {
            is_pull,
            url: address(named)?,
            headers: taken_along(headers)?,
            may_replace: flag("overwrite", true)? && !headers.contains_key(header::IF_NONE_MATCH),
            if_match: tags_in(headers),
            streams,
            needs_sum: flag("requirechecksumverification", false)?,
        }))
    }

    /// What must hold here of a file that comes.
    pub(super) async fn condition(&self, client: &Client, path: &SectorPath) -> Result<Condition, ClientError> {
        match (&self.if_match[..], self.may_replace) {
            ([], true) => Ok(Condition::Any),
            ([], false) => Ok(Condition::Absent),
            (tags, _) => version_with(client, path, tags).await,
        }
    }

    /// Refuses at once what cannot be done here.
    pub(super) async fn check_here(&self, client: &Client, path: &SectorPath) -> Result<(), DavFailure> {
        let found = client.find(path).await?;
        let is_folder = found.as_ref().is_some_and(client::namespace::is_folder);
        let refuse = |reason, message: String| Err(Refusal::new(reason, message).into());
        match (self.is_pull, found) {
            (_, Some(_)) if is_folder => {
                refuse(Reason::IsFolder, format!("`{path}` is a folder: copy its files one by one"))
            }
            (true, Some(_)) if !self.may_replace => refuse(Reason::Exists, format!("`{path}` exists already")),
            (false, None) => refuse(Reason::NotFound, format!("there is no file `{path}`")),
            (true, _) => Ok(self.condition(client, path).await.map(drop)?),
            _ => Ok(()),
        }
    }
}

/// Whether a destination is not of this gateway: its host is not the one that was asked.
fn is_elsewhere(destination: &str, asked: &Uri, headers: &HeaderMap) -> bool {
    let Ok(url) = Url::parse(destination) else { return false };
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    // Requests of HTTP/2 have it in their address.
    let host = asked.authority().map(http::uri::Authority::as_str).or(host);
    let Some(host) = host else { return false };
    let asked = Url::parse(&format!("{}://{host}", url.scheme())).ok();
    let place = |url: &Url| (url.host_str().map(str::to_owned), url.port_or_known_default());
    asked.is_none_or(|asked| place(&asked) != place(&url))
}

/// The address of a file elsewhere. The names of WebDAV for the two schemes are taken, too.
fn address(text: &str) -> Result<Url, DavFailure> {
    let plain = text.strip_prefix("dav").map(|rest| format!("http{rest}"));
    let url = Url::parse(plain.as_deref().unwrap_or(text));
    let url = url.map_err(|error| DavFailure::invalid(format!("`{text}` is no address: {error}")))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err(DavFailure::invalid(format!("`{text}` is no address of `https://`")));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(DavFailure::invalid("an address holds no login: give `TransferHeaderAuthorization`"));
    }
    Ok(url)
}

/// The headers that are sent on.
fn taken_along(headers: &HeaderMap) -> Result<HeaderMap, DavFailure> {
    let mut taken = HeaderMap::new();
    for (name, value) in headers {
        let Some(name) = name.as_str().strip_prefix(TAKEN_PREFIX) else { continue };
        let name = HeaderName::try_from(name);
        let name = name.map_err(|_| DavFailure::invalid("`TransferHeader` is followed by the name of a header"))?;
        if KEPT_BACK.contains(&name) {
            return Err(DavFailure::invalid(format!("the header `{name}` is not sent on")));
        }
        let mut value: HeaderValue = value.clone();
        value.set_sensitive(true);
        taken.append(name, value);
        if taken.len() > TAKEN_MAX {
            return Err(DavFailure::invalid(format!("at most {TAKEN_MAX} headers are sent on")));
        }
    }
    Ok(taken)
}

const TAKEN_PREFIX: &str = "transferheader";
const TAKEN_MAX: usize = 32;
/// Headers that say how a request is read, or what of the file is meant.
const KEPT_BACK: [HeaderName; 10] = [
    header::HOST,
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
    header::TE,
    header::TRAILER,
    header::UPGRADE,
    header::EXPECT,
    header::RANGE,
    header::ACCEPT_ENCODING,
];
/// Connections where nothing is said of them.
const STREAMS: usize = 8;
const STREAMS_MAX: usize = 32;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn order(pairs: &[(&str, &str)]) -> Result<Option<Order>, DavFailure> {
        let pairs = pairs.iter().chain(&[("Host", "here.org:8443")]);
        let headers = pairs.map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
        Order::of(&Uri::from_static("/dav/a"), &headers, &Method::from_bytes(b"COPY").unwrap())
    }

    #[test]
    fn a_copy_goes_elsewhere_if_its_host_is_another_one() {
        assert!(order(&[("Source", "https://there.org/a")]).unwrap().unwrap().is_pull);
        let push = order(&[("Destination", "davs://there.org:1094//a/b")]).unwrap().unwrap();
        assert_eq!((push.is_pull, push.url.as_str()), (false, "https://there.org:1094//a/b"));
        for here in ["https://here.org:8443/dav/b", "/dav/b", "b"] {
            assert!(order(&[("Destination", here)]).unwrap().is_none(), "{here}");
        }
        assert!(
            order(&[("Destination", "https://here.org/dav/b")]).unwrap().is_some(),
            "another port is another place"
        );
        assert!(order(&[]).unwrap().is_none());
    }

    #[test]
    fn over_http_2_the_host_is_in_the_address() {
        let headers = [("destination".parse().unwrap(), "https://here.org/dav/b".parse().unwrap())];
        let headers: HeaderMap = headers.into_iter().collect();
        let of = |address: &str, method: &[u8]| {
            Order::of(&address.parse().unwrap(), &headers, &Method::from_bytes(method).unwrap())
        };
        assert!(of("https://here.org/dav/a", b"COPY").unwrap().is_none());
        assert!(of("https://there.org/dav/a", b"COPY").unwrap().is_some());
        assert!(of("/dav/a", b"COPY").unwrap().is_none(), "of a host that nobody names");
        assert_eq!(of("https://there.org/dav/a", b"MOVE").unwrap_err().status, StatusCode::BAD_GATEWAY);
        assert!(of("https://there.org/dav/a", b"PUT").unwrap().is_none());
    }

    #[test]
    fn only_what_belongs_to_the_other_side_is_sent_on() {
        let order = order(&[
            ("Source", "https://there.org/a"),
            ("Authorization", "Basic mine"),
            ("TransferHeaderAuthorization", "Bearer theirs"),
            ("TransferHeaderX-Scope", "a"),
            ("Overwrite", "F"),
            ("X-Number-Of-Streams", "3"),
            ("RequireChecksumVerification", "true"),
        ]);
        let order = order.unwrap().unwrap();
        assert_eq!(order.headers[header::AUTHORIZATION], "Bearer theirs");
        assert_eq!((order.headers.len(), order.may_replace, order.streams, order.needs_sum), (2, false, 3, true));
        assert!(!format!("{order:?}").contains("theirs"), "what is secret is not in a log");
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let source = ("Source", "https://there.org/a");
        for wrong in [
            vec![source, ("Destination", "https://x.org/b")],
            vec![source, ("Credential", "gridsite")],
            vec![source, ("X-Number-Of-Streams", "0")],
            vec![source, ("X-Number-Of-Streams", "many")],
            vec![source, ("Overwrite", "perhaps")],
            vec![source, ("TransferHeaderHost", "x")],
            vec![source, ("TransferHeaderContent-Length", "7")],
            vec![source, ("TransferHeader", "7")],
            vec![("Source", "file:///etc/passwd")],
            vec![("Source", "davfile:///etc/passwd")],
            vec![("Source", "https://ann:secret@there.org/a")],
            vec![("Source", "there.org/a")],
        ] {
            assert_eq!(order(&wrong).unwrap_err().status, 400, "{wrong:?}");
        }
        assert!(order(&[source, ("Credential", "none")]).is_ok());
    }
}
