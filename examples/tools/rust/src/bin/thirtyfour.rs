//! thirtyfour on Warmpool: thirtyfour PAGE, with `WARMPOOL_URL` and `WARMPOOL_SECRET_KEY` in the environment.

use std::env;

use anyhow::{Context, Result};
use thirtyfour::{ChromiumLikeCapabilities, DesiredCapabilities, WebDriver};

#[tokio::main]
async fn main() -> Result<()> {
    let page = env::args().nth(1).context("PAGE")?;
    let address = env::var("WARMPOOL_URL")?.replace("://", &format!("://{}@", env::var("WARMPOOL_SECRET_KEY")?));
    let mut capabilities = DesiredCapabilities::chrome();
    capabilities.set_headless()?;
    let driver = WebDriver::new(address, capabilities).await?;
    driver.goto(&page).await?;
    println!("title: {}", driver.title().await?);
    driver.quit().await?;
    Ok(())
}
