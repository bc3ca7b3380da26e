//! Files beside the browser: in, out, listed, removed, limited.

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http::{HeaderMap, Method};
use serde_json::json;
use warmpool_tests::{Group, Settings, Stage, eventually, group, site};

pub(crate) fn group() -> Group {
    let settings = Settings::new().set("WORKER_FILE_LIMIT", "1MiB");
    group!("files", Some(settings),
        quick: [go_in_and_out],
        full: [downloads_are_listed_and_fetched, unsafe_names_are_refused, a_long_file_is_413],
    )
}

async fn go_in_and_out(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let session = daemon.session(json!({})).await?;
    let content: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    let put = session.put_file("data.bin", content.clone()).await?.ok()?;
    ensure!(put["path"].as_str().is_some_and(|path| path.starts_with('/') && path.ends_with("/data.bin")), "{put}");
    let listed = session.get_file("").await?.ok()?;
    let file = listed.as_array().and_then(|files| files.first()).context("one file")?;
    ensure!(file["name"] == "data.bin" && file["size"] == 100_000 && file["source"] == "upload", "{listed}");
    ensure!(file["complete"] == true, "{listed}");
    let got = session.get_file("data.bin").await?;
    ensure!(got.status == 200 && got.body == content, "{} bytes", got.body.len());
    let path = format!("/sessions/{}/files/data.bin", session.id);
    daemon.api().delete(&path).await?.ok()?;
    session.get_file("data.bin").await?.fault(404)?;
    ensure!(session.get_file("").await?.ok()? == json!([]));
    session.delete().await?.ok()?;
    Ok(())
}

async fn downloads_are_listed_and_fetched(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let site = stage.site_for(daemon).await?;
    let session = daemon.session(json!({})).await?;
    let mut cdp = session.cdp().await?;
    let page = cdp.open(&format!("{site}/downloads")).await?;
    eventually!(
        "the page is loaded",
        20,
        cdp.evaluate(&page, "document.querySelector('#file') !== null").await? == true
    )?;
    cdp.evaluate(&page, "document.querySelector('#file').click()").await?;
    eventually!("the download is complete", 20, {
        let listed = session.get_file("").await?.ok()?;
        let files = listed.as_array().context("a list")?;
        files.iter().any(|file| file["name"] == "file.bin" && file["source"] == "download" && file["complete"] == true)
    })?;
    ensure!(session.get_file("file.bin").await?.body == site::file_bytes());
    session.delete().await?.ok()?;
    session.get_file("file.bin").await?.fault(404)?;
    Ok(())
}

async fn unsafe_names_are_refused(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let session = daemon.session(json!({})).await?;
    let long = "n".repeat(300);
    for name in ["..", "%2e%2e", "..%2fetc%2fpasswd", "a%2fb", "%00", "line%0abreak", long.as_str()] {
        let reply = session.put_file(name, "x").await?;
        ensure!(reply.status == 400 || reply.status == 404, "{name}: {reply}");
        ensure!(session.get_file(name).await?.status != 200, "{name}");
    }
    session.put_file("b%C3%BCro%20plan.txt", "x").await?.ok()?;
    let listed = session.get_file("").await?.ok()?;
    ensure!(
        listed.as_array().is_some_and(|files| files.len() == 1) && listed[0]["name"] == "büro plan.txt",
        "{listed}"
    );
    session.delete().await?.ok()?;
    Ok(())
}

async fn a_long_file_is_413(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let session = daemon.session(json!({})).await?;
    let path = format!("/sessions/{}/files/long.bin", session.id);
    let long = Bytes::from(vec![7; (1 << 20) + 1]);
    daemon.api().send(Method::PUT, &path, HeaderMap::new(), long).await?.fault(413)?;
    ensure!(session.get_file("").await?.ok()? == json!([]), "nothing of it stays");
    session.delete().await?.ok()?;
    Ok(())
}
