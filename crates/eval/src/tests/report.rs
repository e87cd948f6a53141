use std::collections::BTreeSet;

use super::*;

/// Checks that a page is self-contained and well-formed, and that wide content stays in its box.
pub(crate) fn check_page(page: &str) {
    assert!(page.contains(
        "http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\""
    ));
    // Collects all opening tags of the page.
    let tags: BTreeSet<&str> = page
        .split('<')
        .skip(1)
        .filter_map(|tag| tag.split([' ', '>', '\n']).next())
        .filter(|tag| !tag.starts_with('/'))
        .collect();
    for tag in ["script", "img", "iframe", "link", "object", "embed", "image", "use", "a", "form", "base"] {
        assert!(!tags.contains(tag), "{tag}");
    }
    let outside: Vec<&str> = page
        .split('<')
        .skip(1)
        .filter_map(|tag| tag.split_once('>'))
        .map(|(tag, _)| tag)
        .filter(|tag| tag.contains("src=") || tag.contains("href=") || tag.contains("url("))
        .collect();
    assert!(outside.is_empty(), "{outside:?}");
    assert!(!page.contains("@import") && !page.contains("url("));
    assert!(page.starts_with("<!DOCTYPE html>"));
    // Checks that each element is closed, except those without content.
    let (head, style) = (page.find("<style>"), page.find("</style>"));
    let markup = format!("{}{}", &page[..head.expect("styles")], &page[style.expect("styles") + 8..]);
    let mut open: Vec<&str> = Vec::new();
    for tag in markup.split('<').skip(1).filter_map(|tag| tag.split_once('>')).map(|(tag, _)| tag) {
        let name = tag.trim_start_matches('/').split([' ', '\n', '/']).next().unwrap_or_default();
        match tag.strip_prefix('/') {
            Some(_) => assert_eq!(open.pop(), Some(name), "{tag}"),
            None if tag.ends_with('/') || matches!(name, "!DOCTYPE" | "meta" | "br") => {}
            None => open.push(name),
        }
    }
    assert!(open.is_empty(), "{open:?}");
    // A table scrolls in its box if it is too wide, and long words break.
    for (at, _) in page.match_indices("<table>") {
        let box_at = page[..at].rfind("<div class=").expect("a box");
        assert!(page[box_at..at].contains("scroll"), "{}", &page[box_at..at]);
    }
    assert!(page.contains("overflow-wrap: anywhere") && !page.contains("text-overflow"));
}

#[tokio::test]
async fn the_report_has_no_scripts_and_loads_nothing() {
    let evaluation = fickle();
    let trials = all(&evaluation, &Journal::default(), 4).await;
    let summary = Summary::of(evaluation.settings(), &trials);
    let page = report(&summary, &trials).expect("a report");
    assert!(page.contains("&lt;script src="), "what models write is shown");
    check_page(&page);
    assert!(page.matches("<details open>").count() == 2, "a passing and a failing trial are visible");
    for heading in [
        "By scenario",
        "Scenarios and models",
        "A passing trial of each scenario",
        "Modes compared",
        "Latency",
        "By strategy",
        "Models and sampling profiles",
        "Failures",
        "Settings",
    ] {
        assert!(page.contains(&format!("<h2>{heading}</h2>")), "{heading}");
    }
    assert!(!page.contains("NaN") && !page.contains("none</td>") && !page.contains("undefined"));
}

#[tokio::test]
async fn renders_a_report_without_trials() {
    for harness in [Harness::Directives, Harness::Tools] {
        let scenario = if harness == Harness::Tools { "happy_path" } else { "toast" };
        let settings = settings(harness, scenario);
        let page = report(&Summary::of(&settings, &[]), &[]).expect("a report");
        assert!(page.contains("0 of 1 planned trials were made; the evaluation is not complete"));
        assert!(!page.contains("NaN"));
    }
}
