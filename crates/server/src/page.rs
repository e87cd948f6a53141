//! The page at `/`, from which a person can try the server in a browser. Its files are part of the program.

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::response::{IntoResponse, Response};

use crate::error::{ApiError, Kind};

/// Policy of the page: it loads its own files, and calls its own server.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
     connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

macro_rules! files {
    ($($name:literal),+ $(,)?) => {
        &[$(($name, include_str!(concat!("page/", $name)))),+]
    };
}

/// Names and contents of all files.
const FILES: &[(&str, &str)] = files![
    "answer.js",
    "api.js",
    "app.js",
    "body.js",
    "calls.js",
    "chat.js",
    "check.js",
    "constraint.js",
    "decisions.js",
    "dom.js",
    "examples.js",
    "explain.js",
    "files.js",
    "follow.js",
    "index.html",
    "json.js",
    "kinds.js",
    "masks.js",
    "models.js",
    "status.js",
    "store.js",
    "stream.js",
    "style.css",
    "tree.js",
];

/// `GET /`.
pub(crate) async fn index(request: Request) -> Result<Response, ApiError> {
    file("index.html").ok_or_else(|| not_found(&request))
}

/// `GET /page/{name}`.
pub(crate) async fn get(
    name: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<Response, ApiError> {
    // The name of an unknown file need not be text.
    let found = name.ok().and_then(|Path(name)| file(&name));
    found.ok_or_else(|| not_found(&request))
}

/// Returns true if a request with this path needs no API key: a browser asks for the page before a person can
/// give one.
pub(crate) fn is_public(path: &str) -> bool {
    path == "/" || path.starts_with("/page/")
}

fn not_found(request: &Request) -> ApiError {
    Kind::Route { path: request.uri().path().to_owned() }.into()
}

fn file(name: &str) -> Option<Response> {
    let (_, text) = FILES.iter().find(|(known, _)| *known == name)?;
    let kind = match name.rsplit_once('.')?.1 {
        "html" => "text/html; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        _ => "text/javascript; charset=utf-8",
    };
    let headers = [
        (CONTENT_TYPE, kind),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        // Another version of the program has other files under the same names.
        (CACHE_CONTROL, "no-cache"),
    ];
    Some((headers, *text).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_files_of_the_folder_are_served() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/page");
        let names =
            std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("a file").file_name());
        let mut names: Vec<String> = names.map(|name| name.to_string_lossy().into_owned()).collect();
        names.sort_unstable();
        let mut served: Vec<&str> = FILES.iter().map(|(name, _)| *name).collect();
        served.sort_unstable();
        assert_eq!(served, names);
    }

    #[test]
    fn no_file_names_another_host() {
        for (name, text) in FILES {
            let hosts = text.match_indices("//").filter(|(at, _)| {
                ["http:", "https:", "ws:", "wss:"].iter().any(|scheme| text[..*at].ends_with(scheme))
            });
            // The name of SVG's namespace is never requested.
            let hosts = hosts.filter(|(at, _)| !text[*at..].starts_with("//www.w3.org/2000/svg"));
            assert_eq!(hosts.count(), 0, "{name}");
        }
    }
}
