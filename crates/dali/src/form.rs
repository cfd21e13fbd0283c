//! The form in a request's body: parameters, and files where the service takes them (DALI 1.1, 2.1 and 2.3.4). Few
//! large ones are read at once. It never keeps more than its limits in memory, and never writes a file.

use axum::body::{Body, to_bytes};
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, header};
use multer::{Constraints, Field, Multipart, SizeLimit};
use tokio::sync::{Semaphore, SemaphorePermit};
use vo::{DaliParameters, Fault};

/// A file that came with a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upload {
    /// The name of its part, by which parameters speak of it.
    pub name: String,
    /// What is in it.
    pub bytes: Bytes,
}

/// A form that was read.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Form {
    pub(crate) parameters: DaliParameters,
    pub(crate) uploads: Vec<Upload>,
}

/// Reads a body. Files are taken with the most bytes of all of them; without, a form has none.
pub(crate) async fn read(headers: &HeaderMap, body: Body, upload_bytes_max: Option<usize>) -> Result<Form, Fault> {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let _room = large_form(headers)?;
    if let (Some(bytes_max), Some(kind)) = (upload_bytes_max, kind.filter(|kind| kind.starts_with(MULTIPART))) {
        return read_parts(kind, body, bytes_max).await;
    }
    let bytes = to_bytes(body, FORM_BYTES_MAX).await.map_err(|_| form_too_large())?;
    if !kind.is_none_or(|kind| kind.starts_with(FORM)) && !bytes.is_empty() {
        return Err(Fault::Usage(format!("parameters in a body are of type {FORM}")));
    }
    Ok(Form { parameters: DaliParameters::parse(&String::from_utf8_lossy(&bytes)), uploads: Vec::new() })
}

/// Room in memory for a form that is larger than usual, until it is read.
fn large_form(headers: &HeaderMap) -> Result<Option<SemaphorePermit<'static>>, Fault> {
    let length = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    if length.is_some_and(|length| length <= FORM_BYTES_USUAL) {
        return Ok(None);
    }
    let permit = LARGE_FORMS.try_acquire();
    permit.map(Some).map_err(|_| Fault::Unavailable("too many large lists come at once: send it again".into()))
}

async fn read_parts(kind: &str, body: Body, upload_bytes_max: usize) -> Result<Form, Fault> {
    let body_bytes_max = upload_bytes_max.saturating_add(FORM_BYTES_MAX);
    let too_large = || Fault::TooLarge(format!("a form with its files has at most {body_bytes_max} bytes"));
    let of_part = |error| match error {
        multer::Error::StreamSizeExceeded { .. } => too_large(),
        error => Fault::Usage(format!("the body is no {MULTIPART}: {error}")),
    };
    let boundary = multer::parse_boundary(kind).map_err(of_part)?;
    let limits = Constraints::new().size_limit(SizeLimit::new().whole_stream(body_bytes_max as u64));
    let mut parts = Multipart::with_constraints(body.into_data_stream(), boundary, limits);
    let (mut pairs, mut uploads) = (Vec::new(), Vec::new());
    let (mut text_left, mut upload_left) = (FORM_BYTES_MAX, upload_bytes_max);
    while let Some(part) = parts.next_field().await.map_err(of_part)? {
        let name = part.name().map(str::to_owned);
        let name = name.ok_or_else(|| Fault::Usage("a part of the form has no name".into()))?;
        if part.file_name().is_some() {
            let too_large = || Fault::TooLarge(format!("files have at most {upload_bytes_max} bytes in all"));
            let bytes = content(part, &mut upload_left, too_large, of_part).await?;
            uploads.push(Upload { name, bytes });
        } else {
            let bytes = content(part, &mut text_left, form_too_large, of_part).await?;
            pairs.push((name, String::from_utf8_lossy(&bytes).into_owned()));
        }
    }
    Ok(Form { parameters: pairs.into_iter().collect(), uploads })
}

/// What a part has, and takes it off what is left for parts like it.
async fn content(
    mut part: Field<'_>,
    left: &mut usize,
    too_large: impl Fn() -> Fault,
    of_part: impl Fn(multer::Error) -> Fault,
) -> Result<Bytes, Fault> {
    let mut all = BytesMut::new();
    while let Some(piece) = part.chunk().await.map_err(&of_part)? {
        *left = left.checked_sub(piece.len()).ok_or_else(&too_large)?;
        all.extend_from_slice(&piece);
    }
    Ok(all.freeze())
}

fn form_too_large() -> Fault {
    Fault::TooLarge(format!("a form has at most {FORM_BYTES_MAX} bytes"))
}

const FORM: &str = "application/x-www-form-urlencoded";
const MULTIPART: &str = "multipart/form-data";
/// A list of some 300,000 rows.
const FORM_BYTES_MAX: usize = 32 << 20;
/// A thousand circles have some tens of kilobytes.
const FORM_BYTES_USUAL: usize = 256 << 10;
/// Larger forms that are read at once.
static LARGE_FORMS: Semaphore = Semaphore::const_new(8);

#[cfg(test)]
mod tests;
