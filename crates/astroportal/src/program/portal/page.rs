//! `/portal/`: the page for people, files that lie in this program. It stands on the modules of the cloud's page, which the
//! web door serves beside it. It never reads a file while it serves.

use std::sync::LazyLock;

use axum::{
    extract::Path,
    response::{IntoResponse, Redirect, Response},
};
use gateway::PageFile;
use http::{HeaderMap, StatusCode};

/// `/portal`: addresses on the page are relative to its folder.
pub(super) async fn to_folder() -> Redirect {
    Redirect::permanent("portal/")
}

/// `/portal/`.
pub(super) async fn index(headers: HeaderMap) -> Response {
    answer("index.html", &headers)
}

/// A file of the page.
pub(super) async fn file(Path(name): Path<String>, headers: HeaderMap) -> Response {
    answer(&name, &headers)
}

fn answer(name: &str, headers: &HeaderMap) -> Response {
    FILES.iter().find(|file| file.name() == name).map_or_else(
        || (StatusCode::NOT_FOUND, format!("there is no `/portal/{name}` here\n")).into_response(),
        |file| file.answer(headers),
    )
}

macro_rules! files {
    ($($name:literal),* $(,)?) => {
        vec![$(PageFile::of_room($name, include_bytes!(concat!("../../../page/", $name)))),*]
    };
}

static FILES: LazyLock<Vec<PageFile>> = LazyLock::new(|| {
    files![
        "index.html",
        "portal.css",
        "portal.js",
        "coverage.js",
        "lists.js",
        "part.js",
        "search.js",
        "services.js",
        "sky.js",
    ]
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_the_page_is_served_and_nothing_else() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/page");
        let mut there: Vec<_> = std::fs::read_dir(folder)
            .expect("the page")
            .map(|entry| entry.expect("a file").file_name().to_string_lossy().into_owned())
            .collect();
        let mut served: Vec<_> = FILES.iter().map(|file| file.name().to_owned()).collect();
        there.sort();
        served.sort();
        assert_eq!(there, served);
        assert_eq!(answer("../page.rs", &HeaderMap::new()).status(), StatusCode::NOT_FOUND);
    }
}
