//! The demo's page is served where it is wanted, and nowhere else.

use crate::support::Server;

#[tokio::test]
async fn the_demo_is_served_where_the_configuration_says_so() {
    let server = Server::configured("", &[], "[server]\ndemo = true").await;
    for (path, media_type) in [
        ("/demo", "text/html; charset=utf-8"),
        ("/demo/demo.css", "text/css; charset=utf-8"),
        ("/demo/demo.js", "text/javascript; charset=utf-8"),
        ("/demo/counterfoil.js", "text/javascript; charset=utf-8"),
        ("/demo/lib/json.js", "text/javascript; charset=utf-8"),
    ] {
        let page = reqwest::get(format!("{}{path}", server.url)).await.unwrap();
        assert_eq!(page.status(), 200, "{path}");
        assert_eq!(page.headers()["content-type"], media_type);
        assert_eq!(page.headers()["x-content-type-options"], "nosniff");
        assert!(!page.headers()["etag"].is_empty());
        let policy = page.headers()["content-security-policy"].to_str().unwrap();
        assert!(policy.starts_with("default-src 'none'"), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
    }
}

#[tokio::test]
async fn a_server_serves_no_demo_unasked() {
    let server = Server::start("", &[]).await;
    let page = reqwest::get(format!("{}/demo", server.url)).await.unwrap();
    assert_eq!(page.status(), 404);
}
