//! chromiumoxide on Warmpool: chromiumoxide PAGE, with `WARMPOOL_URL` and `WARMPOOL_SECRET_KEY` in the environment.

use std::env;

use anyhow::{Context, Result};
use chromiumoxide::Browser;
use futures_util::StreamExt;

#[tokio::main]
async fn main() -> Result<()> {
    let page = env::args().nth(1).context("PAGE")?;
    let address = env::var("WARMPOOL_URL")?.replacen("http", "ws", 1);
    let (mut browser, mut events) =
        Browser::connect(format!("{address}?token={}", env::var("WARMPOOL_SECRET_KEY")?)).await?;
    // The connection lives as long as somebody reads its events.
    let events = tokio::spawn(async move { while events.next().await.is_some() {} });
    let page = browser.new_page(page).await?;
    println!("title: {}", page.get_title().await?.unwrap_or_default());
    browser.close().await?;
    events.await?;
    Ok(())
}
