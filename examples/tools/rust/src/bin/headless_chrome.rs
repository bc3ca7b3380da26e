//! headless_chrome on Warmpool: headless_chrome PAGE, with `WARMPOOL_URL` and `WARMPOOL_SECRET_KEY` in the environment.

use std::env;

use anyhow::{Context, Result};
use headless_chrome::Browser;

fn main() -> Result<()> {
    let page = env::args().nth(1).context("PAGE")?;
    let address = env::var("WARMPOOL_URL")?.replacen("http", "ws", 1);
    let browser = Browser::connect(format!("{address}?token={}", env::var("WARMPOOL_SECRET_KEY")?))?;
    let tab = browser.new_tab()?;
    tab.navigate_to(&page)?.wait_until_navigated()?;
    println!("title: {}", tab.get_title()?);
    // The session ends with its connection.
    Ok(())
}
