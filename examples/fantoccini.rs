//! fantoccini on a warm browser: `cargo run -p warmpool-tests --example fantoccini [page]`.
//! Needs `WARMPOOL_URL` and `WARMPOOL_SECRET_KEY` in the environment; `BROWSER_TYPE` may be chromium, firefox or webkit.

use std::env;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use fantoccini::ClientBuilder;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use serde_json::{Value, json};

#[tokio::main]
async fn main() -> Result<()> {
    let page_url = env::args().nth(1).unwrap_or_else(|| "https://example.com/".to_owned());

    let browser_type = env::var("BROWSER_TYPE").unwrap_or_else(|_| "chromium".to_owned());

    // Take a session: a browser that nobody has used before, with its driver attached.
    let request = Request::post(format!("{}/sessions/webdriver/create", env::var("WARMPOOL_URL")?))
        .header("content-type", "application/json")
        .header("service-secret-key", env::var("WARMPOOL_SECRET_KEY")?)
        .body(Full::<Bytes>::from(json!({"browser_type": browser_type, "headless": true}).to_string()))?;
    let reply = Client::builder(TokioExecutor::new()).build_http().request(request).await?;
    let created = reply.status().is_success();
    let body = reply.into_body().collect().await?.to_bytes();
    ensure!(created, "{}", String::from_utf8_lossy(&body));
    let session: Value = serde_json::from_slice(&body)?;

    // From here on it is plain fantoccini. Closing the client ends the session.
    let connect_url = session["connect_url"].as_str().context("connect_url")?;
    let client = ClientBuilder::new(HttpConnector::new()).connect(connect_url).await?;
    client.goto(&page_url).await?;
    println!("title: {}", client.title().await?);
    client.close().await?;
    Ok(())
}
