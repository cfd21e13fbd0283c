//! Every request of the interface, once: the router and the description for programs (OpenAPI 3.1) are made from this
//! list. It never knows what a request does.

use axum::{
    Json,
    extract::State,
    handler::Handler,
    response::IntoResponse,
    routing::{MethodFilter, MethodRouter, on},
};
use serde_json::{Map, Value, json};

use super::{
    Web, answer::Answer, cloud_requests, content, events, file_requests, job_requests, job_start, live, login,
    people_changes, people_requests, uploads,
};

/// One of them.
pub(crate) struct Route {
    methods: &'static [&'static str],
    /// Below [`BASE`].
    at: &'static str,
    /// What it does, and what it answers.
    says: &'static str,
    /// Parameters of the query.
    query: &'static [(&'static str, &'static str)],
    /// What the body holds.
    body: &'static str,
    pub(crate) handler: MethodRouter<Web>,
}

impl Route {
    fn new<T: 'static>(method: &'static str, at: &'static str, says: &'static str, run: impl Handler<T, Web>) -> Self {
        let (methods, filter): (&'static [&'static str], _) = match method {
            "get" => (&["get"], MethodFilter::GET),
            "post" => (&["post"], MethodFilter::POST),
            "put" => (&["put"], MethodFilter::PUT),
            "patch" => (&["patch"], MethodFilter::PATCH),
            _ => (&["delete"], MethodFilter::DELETE),
        };
        Self { methods, at, says, query: &[], body: "", handler: on(filter, run) }
    }

    fn query(self, query: &'static [(&'static str, &'static str)]) -> Self {
        Self { query, ..self }
    }

    fn body(self, body: &'static str) -> Self {
        Self { body, ..self }
    }

    /// Its whole path, as the router wants it.
    pub(crate) fn path(&self) -> String {
        let at = self.at.replace("{path}", "{*path}");
        format!("{BASE}{at}")
    }
}

/// All of them.
pub(crate) fn all() -> Vec<Route> {
    const PATH: (&str, &str) = ("path", "A path in the cloud");
    vec![
        Route::new("get", "/session", "Who is logged in, and at which cloud", login::session),
        Route::new(
            "post",
            "/login",
            "Log in with a password; answers as /session, with a cookie",
            login::with_password,
        )
        .body("user, password"),
        Route::new("post", "/login/link", "Log in with the code of a link, once", login::with_link).body("code"),
        Route::new("post", "/login/links", "A new link for the user who asks with a token", login::new_link),
        Route::new(
            "post",
            "/login/browser",
            "Begin a login at an identity provider: id, url, user_code",
            login::in_browser,
        )
        .body("provider (optional)"),
        Route::new(
            "get",
            "/login/browser/{id}",
            "202 until the person has finished, then as /session",
            login::browser_outcome,
        ),
        Route::new("post", "/logout", "End the session", login::logout),
        Route::new(
            "get",
            "/live",
            "Server-sent events: `overview` each second, `unreachable` without the master",
            live::live,
        ),
        Route::new(
            "get",
            "/events",
            "What happened: a page, or with `Accept: text/event-stream` events that go on",
            events::events,
        )
        .query(&[
            ("since", "A number, how long ago (10m), or a time"),
            ("kind", "These kinds alone, by commas"),
            ("path", "A path or glob"),
        ]),
        Route::new("get", "/health", "As `sector --json health`", cloud_requests::health),
        Route::new("get", "/nodes", "As `sector --json nodes`", cloud_requests::nodes),
        Route::new("get", "/load", "As `sector --json load --ago`", cloud_requests::load)
            .query(&[("ago", "Seconds before now, up to a day")]),
        Route::new("get", "/load/{node}", "As `sector --json load NODE --last`", cloud_requests::load_of_node)
            .query(&[("last", "Seconds, up to a day")]),
        Route::new("get", "/links", "As `sector --json links --ago`", cloud_requests::links)
            .query(&[("ago", "Seconds before now, up to a day")]),
        Route::new("get", "/links/{from}/{to}", "As `sector --json links FROM TO --last`", cloud_requests::link)
            .query(&[("last", "Seconds, up to a day")]),
        Route::new("get", "/marks", "As `sector --json mark list`", cloud_requests::marks),
        Route::new("post", "/marks", "As `sector mark`: add, clear or ignore", cloud_requests::change_mark)
            .body("change, node, folder, sites, reason (optional)"),
        Route::new("get", "/work", "As `sector --json work`", cloud_requests::work),
        Route::new("get", "/topology", "As `sector --json topology show`", cloud_requests::topology),
        Route::new("get", "/jobs", "As `sector --json jobs`", job_requests::jobs).query(&[
            ("user", "Of this user alone"),
            ("state", "In this state alone"),
            ("limit", "So many, the newest"),
        ]),
        Route::new("post", "/jobs", "Start a job as `sector run --detach`; answers as /jobs/{job}", job_start::start).body(
            "functions, inputs, output; optional: params, side, buckets, segment_bytes, records, result_records, max_errors",
        ),
        Route::new("get", "/functions", "The built-in functions: name, what it does, parameters", job_start::functions),
        Route::new("get", "/jobs/{job}", "As `sector --json job ID`", job_requests::job),
        Route::new("get", "/jobs/{job}/segments", "As `sector --json job ID --segments`", job_requests::segments),
        Route::new("get", "/jobs/{job}/logs", "As `sector --json job ID --logs`", job_requests::logs),
        Route::new("get", "/jobs/{job}/errors", "As `sector --json job ID --errors`", job_requests::errors),
        Route::new("post", "/jobs/{job}/cancel", "Cancel a job", job_requests::cancel),
        Route::new(
            "get",
            "/files",
            "A page of a folder: entries as `sector --json ls`, and where the next begins",
            file_requests::list,
        )
        .query(&[PATH, ("after", "The `next` of the page before"), ("limit", "So many at most")]),
        Route::new("delete", "/files", "Remove to the trash", file_requests::remove)
            .query(&[PATH, ("recursive", "true: a folder with all that is in it")]),
        Route::new("get", "/stat", "As `sector --json stat`", file_requests::stat).query(&[PATH]),
        Route::new("get", "/usage", "As `sector --json du`, of one path", file_requests::usage).query(&[PATH]),
        Route::new("post", "/folders", "Make a folder", file_requests::make_folder).body("path, parents (optional)"),
        Route::new("post", "/rename", "Rename or move", file_requests::rename).body("from, to"),
        Route::new(
            "get",
            "/content/{path}",
            "The bytes of a file; `Range`, `If-Range` and `If-None-Match` hold",
            content::download,
        ),
        Route::new(
            "put",
            "/content/{path}",
            "Write a whole file; with `If-None-Match: *` it replaces nothing",
            content::upload,
        )
        .body("the bytes"),
        Route::new("post", "/uploads", "Begin an upload that goes on after a cut: id, offset", uploads::begin)
            .body("path, bytes, replace (optional)"),
        Route::new("get", "/uploads/{id}", "How many bytes have arrived", uploads::arrived),
        Route::new("patch", "/uploads/{id}", "Bytes from the header `Upload-Offset` on", uploads::append)
            .body("the bytes"),
        Route::new("delete", "/uploads/{id}", "Give an upload up", uploads::discard),
        Route::new("post", "/uploads/{id}/finish", "Publish the file; answers its entry", uploads::finish),
        Route::new("get", "/trash", "As `sector --json trash list`", file_requests::trash),
        Route::new("post", "/trash/restore", "Restore what was removed or replaced", file_requests::restore)
            .body("path, to (optional)"),
        Route::new("post", "/trash/empty", "Remove all of the own trash for good", file_requests::empty_trash),
        Route::new("get", "/versions", "As `sector --json versions`", file_requests::versions).query(&[PATH]),
        Route::new("get", "/audit", "As `sector --json audit show`", people_requests::audit).query(&[
            ("since", "a time such as 2026-01-31T08:00:00Z"),
            ("until", "such a time"),
            ("user", "who"),
            ("kind", "one kind"),
            ("path", "this path, and below"),
            ("limit", "So many, the newest"),
        ]),
        Route::new("get", "/metrics", "All roles, as Prometheus discovers them", cloud_requests::metrics_targets),
        Route::new(
            "get",
            "/metrics/{of}",
            "As `sector metrics`: `master`, `security` or a node; also `gateway`",
            cloud_requests::metrics,
        ),
        Route::new("get", "/openapi.json", "This description", describe),
    ]
    .into_iter()
    .chain(of_people())
    .collect()
}

/// Those about users, groups, tokens, quotas and rights.
fn of_people() -> Vec<Route> {
    const PATH: (&str, &str) = ("path", "A path in the cloud");
    vec![
        Route::new("get", "/users", "As `sector --json user list`", people_requests::users),
        Route::new("post", "/users", "As `sector user add`", people_changes::add_user)
            .body("user, password (of a person), groups, admin, addresses, service (all optional)"),
        Route::new(
            "patch",
            "/users/{user}",
            "As `sector user disable`, `enable` and `set`",
            people_changes::change_user,
        )
        .body("enabled, admin, addresses (each optional)"),
        Route::new("delete", "/users/{user}", "As `sector user remove`", people_changes::remove_user),
        Route::new("put", "/users/{user}/password", "As `sector user passwd`", people_changes::set_password)
            .body("new, old (for the own one)"),
        Route::new("get", "/groups", "As `sector --json group list`", people_requests::groups),
        Route::new("post", "/groups", "As `sector group add`", people_changes::add_group).body("group"),
        Route::new("delete", "/groups/{group}", "As `sector group remove`", people_changes::remove_group),
        Route::new("put", "/groups/{group}/members/{user}", "As `sector group join`", people_changes::join_group),
        Route::new("delete", "/groups/{group}/members/{user}", "As `sector group leave`", people_changes::leave_group),
        Route::new("get", "/tokens", "As `sector --json user token list`", people_requests::tokens)
            .query(&[("user", "Whose")]),
        Route::new(
            "post",
            "/tokens",
            "As `sector --json user token add`; the token is in this answer and nowhere else",
            people_changes::add_token,
        )
        .body("user, name, life_seconds (90 days if not given)"),
        Route::new("delete", "/tokens", "As `sector user token revoke`", people_changes::revoke_token)
            .query(&[("user", "Whose"), ("name", "Its name")]),
        Route::new("get", "/quotas", "As `sector --json quota list`", people_requests::quotas),
        Route::new(
            "put",
            "/quotas",
            "As `sector quota set`; a limit that is not given is none",
            people_changes::set_quota,
        )
        .body("user, bytes, files, unknown (true: also of a user who has not been here yet)"),
        Route::new("get", "/acl", "As `sector --json acl get`", people_requests::acl).query(&[PATH]),
        Route::new("put", "/acl", "As `sector --json acl set`", people_changes::set_acl)
            .body("path, acl (such as `user:alice:rw,everyone:r`), unknown (true: also unknown users and groups)"),
        Route::new("delete", "/acl", "As `sector --json acl clear`", people_changes::clear_acl).query(&[PATH]),
    ]
}

async fn describe(State(_): State<Web>) -> Answer {
    Ok(Json(description()).into_response())
}

/// OpenAPI 3.1.
pub(crate) fn description() -> Value {
    let mut paths: Map<String, Value> = Map::new();
    for route in all() {
        let in_path = route
            .at
            .split(['{', '}'])
            .skip(1)
            .step_by(2)
            .map(|name| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}}));
        let in_query = route.query.iter().map(
            |(name, says)| json!({"name": name, "in": "query", "description": says, "schema": {"type": "string"}}),
        );
        let mut operation = json!({
            "summary": route.says,
            "parameters": in_path.chain(in_query).collect::<Vec<_>>(),
            "responses": {
                "2XX": {"description": "Done"},
                "default": {"description": "An error: reason, message and path"},
            },
        });
        if !route.body.is_empty() {
            let kind = if route.body == "the bytes" { "application/octet-stream" } else { "application/json" };
            operation["requestBody"] = json!({"description": route.body, "content": {kind: {}}});
        }
        let Value::Object(methods) = paths.entry(route.at).or_insert_with(|| json!({})) else { continue };
        for method in route.methods {
            methods.insert((*method).to_owned(), operation.clone());
        }
    }
    json!({
        "openapi": "3.1.0",
        "info": {"title": "Sector", "version": env!("CARGO_PKG_VERSION")},
        "servers": [{"url": BASE}],
        "security": [{"token": []}],
        "components": {"securitySchemes": {
            "token": {"type": "http", "scheme": "basic"},
        }},
        "paths": paths,
    })
}

/// The page of the documents.
#[cfg(test)]
fn reference() -> String {
    let mut page = HEAD.to_owned();
    for route in all() {
        let method = route.methods.join(", ").to_uppercase();
        let query = route.query.iter().map(|(name, says)| format!("`{name}`: {says}"));
        let body = (!route.body.is_empty()).then(|| format!("body: {}", route.body));
        let takes = query.chain(body).collect::<Vec<_>>().join("; ");
        page.push_str(&format!("| {method} | `{}` | {} | {takes} |\n", route.at, route.says));
    }
    page
}

#[cfg(test)]
const HEAD: &str = "\
# Requests of the web door

Made from the code (`crates/gateway/src/web/routes.rs`); do not edit. To make it again:
`cargo xtask reference`.

All requests are below `/api/v1` of a gateway ([`howto/web-page.md`](howto/web-page.md)). Programs give a user's name and
a token by HTTP basic authentication, or as the bearer `NAME.TOKEN`. `GET /openapi.json` has this list for tools.

Answers are the JSON of commands ([`command-line.md`](command-line.md)). A failure is
`{\"error\":{\"reason\",\"message\",\"path\"}}` with the reasons of commands. Where one field of the request is to blame,
`field` names it. The status is one of these:

| status | when |
|---|---|
| 400 | the request makes no sense |
| 401 | nobody is logged in |
| 403 | this user may not do it |
| 404 | there is no such thing |
| 409 | it exists already, it is not empty, it is in use, or somebody else writes it |
| 412 | the file has another version |
| 416 | the file has no such bytes |
| 429 | too many requests, or too many of something; `Retry-After` says when to try again |
| 500 | it went wrong, or the bytes are corrupt |
| 503 | the master or a copy cannot be reached now |
| 507 | no quota or no disk has room |

A program that changes something with a cookie instead of a token sends the header `X-Sector-Request: 1`. A session has
100 requests a second, and 400 at once after a pause.

`GET /live` sends `overview` each second: `health`, `nodes`, `load`, `links`, `marks`, `jobs` and `work`, each as the request of that name
answers. What is as it was in the event before is left out. While the master does not answer it sends `unreachable`,
with the reason.

The fields of `POST /jobs` are those of `sector run`, written as there. `functions` are its UDFs in the order of their
stages, and `inputs` is a list of paths and globs for each stream. Files of functions are paths in the cloud.

To programs that send `Accept-Encoding: gzip`, answers to `GET` above a kilobyte come compressed, and so do the events of
`/live`. Bytes of files never do.

`GET /events` answers `events`, `last` and `more`: the next page is `since={last}`. As server-sent events each has its
number as `id` and its kind as `event`, and `gap` says that some are missing ([`events.md`](events.md)).

| method | path | does | takes |
|---|---|---|---|
";

/// Below which all requests of the interface are.
pub(super) const BASE: &str = "/api/v1";

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::{fs, path::Path};

    use super::*;

    #[test]
    fn the_reference_in_the_docs_is_that_of_the_code() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/web-api.md");
        if std::env::var_os("UPDATE_REFERENCE").is_some() {
            fs::write(&file, reference()).unwrap();
        }
        let found = fs::read_to_string(&file).unwrap_or_default();
        assert!(found == reference(), "docs/web-api.md is not that of the code: cargo xtask reference");
    }

    #[test]
    fn the_description_names_every_parameter_of_a_path() {
        let described = description();
        let node = &described["paths"]["/load/{node}"]["get"]["parameters"];
        assert_eq!((&node[0]["name"], &node[0]["in"]), (&json!("node"), &json!("path")));
        assert_eq!((&node[1]["name"], &node[1]["in"]), (&json!("last"), &json!("query")));
        assert_eq!(described["paths"]["/files"].as_object().unwrap().len(), 2, "GET and DELETE");
    }
}
