//! The page at `/`.

use axum::http::{Method, StatusCode};
use formwork_server::{App, ServerOptions};

use crate::fixture::{get, request, says, send, served, start};

fn with(page: bool, api_keys: &[&str]) -> App {
    let api_keys = api_keys.iter().map(|key| (*key).to_owned()).collect();
    let options = ServerOptions { page, api_keys, ..ServerOptions::default() };
    App::new(vec![served("m", start(says("Hello")))], options).expect("an app")
}

#[tokio::test]
async fn a_browser_gets_all_files_without_a_key() {
    let app = with(true, &["secret"]);
    let index = get(&app, "/").await;
    assert_eq!(index.status, StatusCode::OK);
    assert_eq!(index.headers["content-type"], "text/html; charset=utf-8");
    let policy = index.headers["content-security-policy"].to_str().expect("text");
    assert!(policy.starts_with("default-src 'none'; ") && !policy.contains("unsafe"), "{policy}");
    for inline in [" style=", " onclick=", " onload=", "<style", "javascript:"] {
        assert!(!index.text.contains(inline), "{inline}");
    }
    let names = index.text.split("page/").skip(1).filter_map(|rest| rest.split('"').next());
    let names: Vec<&str> = names.collect();
    assert!(names.len() >= 2, "{names:?}");
    for name in names {
        let file = get(&app, &format!("/page/{name}")).await;
        assert_eq!(file.status, StatusCode::OK, "{name}");
        let kind = file.headers["content-type"].to_str().expect("text");
        assert!(kind.starts_with("text/css") || kind.starts_with("text/javascript"), "{name}: {kind}");
        assert_eq!(file.headers["x-content-type-options"], "nosniff");
    }
    assert_eq!(get(&app, "/metrics").await.status, StatusCode::UNAUTHORIZED);
    assert_eq!(get(&app, "/page/../metrics").await.status, StatusCode::NOT_FOUND);
    let post = send(&app, request(Method::POST, "/", "")).await;
    assert_eq!(post.status, StatusCode::METHOD_NOT_ALLOWED);
}

#[tokio::test]
async fn a_server_without_the_page_has_no_such_paths() {
    for (api_keys, status) in [(&[][..], StatusCode::NOT_FOUND), (&["secret"][..], StatusCode::UNAUTHORIZED)]
    {
        let app = with(false, api_keys);
        assert_eq!(get(&app, "/").await.status, status);
        assert_eq!(get(&app, "/page/index.html").await.status, status);
    }
}
