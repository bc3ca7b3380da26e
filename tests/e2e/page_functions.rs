//! Code of the caller's own, in a browser: what it returns, and what the browser downloads meanwhile.

use std::io::{Cursor, Read as _};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use image::ImageFormat;
use serde_json::json;
use warmpool_tests::site::file_bytes;
use warmpool_tests::{Daemon, Group, Reply, Settings, Stage, group};

use crate::page_call_limits::leaving_frees_the_browser;
use crate::page_calls::call;

pub(crate) fn group() -> Group {
    group!(Some(Settings::new().set("PAGES_FUNCTIONS", "true").set("PAGES_DOWNLOAD_WAIT", "1s")),
        quick: [code_drives_its_browser],
        full: [
            windows_that_open_are_found,
            code_that_fails_says_so,
            code_ends_in_time,
            pages_have_no_way_to_the_code,
            downloads_are_answers,
        ],
    )
}

/// The answer to a module alone.
async fn module(daemon: &Daemon, path: &str, code: impl Into<Bytes>) -> Result<Reply> {
    daemon.api().post_bytes(path, "application/javascript", code).await
}

async fn code_drives_its_browser(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let site = stage.site_for(daemon).await?;
    // Puppeteer as its users write it.
    let code = r#"
        export default async function ({ page, context }) {
          await page.goto(context.url, { waitUntil: 'domcontentloaded' });
          await page.waitForSelector('#late', { timeout: 10000 });
          const teas = await page.$$eval('.tea', (all) => all.map((one) => one.textContent));
          const other = await page.browser().newPage();
          await other.setContent('<input id=cup><button onclick="document.title = cup.value">Pour</button>');
          await other.type('#cup', 'sencha');
          await other.click('button');
          const own = (await page.browser().pages()).length;
          const data = { title: await page.title(), teas, poured: await other.title(), own, secure: isSecureContext };
          // Whoever closes the browser has their answer all the same.
          await page.browser().close();
          return { data, type: 'application/json' };
        }"#;
    let body = json!({"code": code, "context": {"url": format!("{site}/brewing")}});
    let reply = call(daemon, "/chromium/function", body).await?;
    ensure!(reply.headers["content-type"] == "application/json", "{:?}", reply.headers);
    let said = reply.json()?;
    ensure!(said["teas"] == json!(["one", "two"]) && said["poured"] == "sencha", "{said}");
    ensure!(said["title"] == "Brewing" && said["secure"] == true, "{said}");
    ensure!(said["own"] == 2, "the page in which the code runs is among its pages: {said}");

    // Modules of other sites, and what the browser itself brings.
    let imports = format!(
        "import {{ steep }} from '{site}/steep.js';\nexport default async ({{ page, context }}) =>\n\
         ({{ data: steep((await crypto.subtle.digest('SHA-256', new Uint8Array())).byteLength) + Object.keys(context).length, type: 'text/x-tea' }});"
    );
    let reply = module(daemon, "/function", imports).await?;
    ensure!(reply.status == 200 && reply.headers["content-type"] == "text/x-tea", "{reply}");
    ensure!(reply.text() == "steeped for 320", "{reply}");

    // A picture says itself what it is.
    let code = "export default async ({ page, context }) => { await page.goto(context.url); return page.screenshot({ fullPage: true }); }";
    let body = json!({"code": code, "context": {"url": format!("{site}/brewing")}});
    let viewport = "%7B%22defaultViewport%22:%7B%22width%22:400,%22height%22:300%7D%7D";
    let reply = call(daemon, &format!("/function?launch={viewport}"), body).await?;
    ensure!(reply.headers["content-type"] == "image/png", "{:?}", reply.headers);
    let picture = image::load_from_memory_with_format(&reply.body, ImageFormat::Png)?;
    ensure!(picture.width() == 400 && picture.height() > 3000, "{} by {}", picture.width(), picture.height());
    daemon.assert_idle().await
}

async fn windows_that_open_are_found(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let site = stage.site_for(daemon).await?;
    let code = r#"
        export default async ({ page, context: { site } }) => {
          const browser = page.browser();
          await page.goto(`${site}/button`);
          // As Puppeteer's users wait for one.
          const popup = async (act) => {
            const [opened] = await Promise.all([new Promise((done) => page.once('popup', done)), act()]);
            await opened.waitForSelector('h1');
            return [opened.url(), await opened.evaluate(() => opener !== null)];
          };
          await page.evaluate(() => {
            document.body.insertAdjacentHTML('beforeend', '<a id=away target=_blank rel=opener href=/tab/2>Away</a>');
          });
          const clicked = await popup(() => page.click('#away'));
          const scripted = await popup(() => page.evaluate(() => { window.open('/tab/1'); }));
          await page.evaluate((there) => { window.open(there, '', 'noopener'); }, `${site}/tab/3`);
          const target = await browser.waitForTarget((one) => one.url().endsWith('/tab/3'));
          // The page of the code itself opens some, with which Puppeteer's own page has to go on.
          const empty = window.open('about:blank', 'empty');
          const nested = empty.open('about:blank', 'nested');
          empty.document.title = 'Empty';
          const foreign = window.open(`${site}/hostile`);
          const found = await (await browser.waitForTarget((one) => one.url().endsWith('/hostile'))).page();
          const reported = await found.evaluate(() => [opener === null, report()]);
          const titles = async () => Promise.all((await browser.pages()).map((one) => one.title()));
          while (!(await titles()).includes('Empty')) await page.title();
          const all = [empty, nested, foreign].every((one) => one !== null);
          return { scripted, clicked, third: target.type(), reported, all };
        };"#;
    let said = call(daemon, "/function", json!({"code": code, "context": {"site": site}})).await?.json()?;
    ensure!(said["scripted"] == json!([format!("{site}/tab/1"), true]), "{said}");
    ensure!(said["clicked"] == json!([format!("{site}/tab/2"), true]), "{said}");
    ensure!(said["third"] == "page" && said["all"] == true, "{said}");
    ensure!(said["reported"] == json!([true, {"names": [], "parent": null}]), "{said}");
    daemon.assert_idle().await
}

async fn code_that_fails_says_so(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    for (code, words) in [
        ("export default async () => { throw new RangeError('too much tea'); }", "RangeError: too much tea"),
        ("export const tea = 1", "default export"),
        ("import 'http://nowhere.invalid/x.js'; export default () => 1", "CORS"),
        ("export default () => { location.href = 'about:blank'; return new Promise(() => {}); }", "left the page"),
    ] {
        let fault = module(daemon, "/function", code).await?.fault(400).with_context(|| code.to_owned())?;
        ensure!(fault.field == "code" && fault.message.contains(words), "{code}: {fault:?}");
    }
    for (path, body, field) in [
        ("/function", json!({}), "code"),
        ("/function", json!({"code": ""}), "code"),
        ("/function", json!({"code": "x", "context": 1}), "context"),
        ("/function", json!({"code": "x", "colour": 1}), "colour"),
        ("/function?browser=firefox", json!({"code": "x"}), "browser"),
        ("/function?keep_alive=true", json!({"code": "x"}), "keep_alive"),
        ("/download?colour=red", json!({"code": "x"}), "colour"),
    ] {
        let fault = daemon.api().post(path, &body).await?.fault(400).with_context(|| format!("{path} {body}"))?;
        ensure!(fault.field == field, "{path} {body}: {fault:?}");
    }
    daemon.api().without_key().post("/function", &json!({"code": "x"})).await?.fault(401)?;
    ensure!(daemon.api().post_bytes("/function", "text/plain", "x").await?.status == 415);
    ensure!(module(daemon, "/function", &b"\xff"[..]).await?.fault(400)?.code == "invalid_body");
    daemon.assert_idle().await
}

async fn code_ends_in_time(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let fault = module(daemon, "/function?timeout=1500", "export default () => { for (;;); }").await?.fault(408)?;
    ensure!(fault.code == "page_timeout", "{fault:?}");
    // A message that has no place in the daemon's memory.
    let huge = "export default ({ page }) => page.evaluate(() => 'x'.repeat(6e7))";
    let fault = module(daemon, "/function", huge).await?.fault(500)?;
    ensure!(fault.message.contains("cut off"), "{fault:?}");
    let body = json!({"code": "export default () => new Promise(() => {})"});
    leaving_frees_the_browser(daemon, "/function?timeout=60000", &body).await?;
    daemon.assert_idle().await
}

async fn pages_have_no_way_to_the_code(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let site = stage.site_for(daemon).await?;
    let code = r#"
        const SEEN = 'warmpoolSend';
        const message = () => new Promise((heard) => addEventListener('message', ({ data }) => heard(data), { once: true }));
        const framed = async (address) => {
          const frame = document.createElement('iframe');
          if (address) frame.src = address;
          document.body.append(frame);
          return frame;
        };
        export default async ({ page, context: { hostile, daemon } }) => {
          // The code itself finds nothing of the daemon's either.
          const own = [typeof globalThis[SEEN], typeof warmpoolFunction];
          const empty = (await framed()).contentWindow;
          const inEmpty = typeof empty[SEEN];
          const waiting = message();
          await framed(hostile);
          const inFrame = await waiting;
          open(hostile, '', 'noopener');
          await page.goto(hostile);
          const inPage = await page.evaluate(() => report());
          const opened = (await Promise.all((await page.browser().pages()).map((one) => one.evaluate(() => typeof report === 'function' && opener === null && report())))).filter(Boolean);
          const reached = await page.evaluate(async (all) => {
            const outcomes = await Promise.allSettled(all.map((one) => fetch(one, { mode: 'no-cors' })));
            return outcomes.map(({ status }) => status);
          }, ['http://function.localhost/', daemon, 'http://127.0.0.1:9222/json']);
          return { own, inEmpty, inFrame, inPage, opened, reached };
        };"#;
    let context = json!({"hostile": format!("{site}/hostile"), "daemon": format!("{}/healthz", daemon.url())});
    let said = call(daemon, "/function", json!({"code": code, "context": context})).await?.json()?;
    let nothing = json!({"names": [], "parent": null});
    ensure!(said["own"] == json!(["undefined", "undefined"]) && said["inEmpty"] == "undefined", "{said}");
    ensure!(said["inFrame"] == json!({"names": [], "parent": "SecurityError"}), "{said}");
    ensure!(said["inPage"] == nothing, "{said}");
    ensure!(
        said["opened"].as_array().is_some_and(|all| all.len() == 2 && all.iter().all(|one| *one == nothing)),
        "{said}"
    );
    ensure!(said["reached"] == json!(["rejected", "rejected", "rejected"]), "{said}");
    daemon.assert_idle().await
}

async fn downloads_are_answers(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let site = stage.site_for(daemon).await?;
    let blob = |name: &str| {
        format!(
            "export default async ({{ page }}) => {{ await page.setContent('<a id=a download=\"{name}\">');\n\
             await page.evaluate(() => {{ a.href = URL.createObjectURL(new Blob(['tea,grams\\nsencha,5\\n'])); a.click(); }}); }}"
        )
    };
    let reply = module(daemon, "/download", blob("tea.csv")).await?;
    ensure!(reply.status == 200 && reply.text() == "tea,grams\nsencha,5\n", "{reply}");
    ensure!(reply.headers["content-type"] == "text/csv", "{:?}", reply.headers);
    ensure!(reply.headers["content-disposition"].to_str()?.contains("filename=\"tea.csv\""), "{:?}", reply.headers);

    let click =
        "export default async ({ page, context }) => { await page.goto(context.url); await page.click('#file'); }";
    let context = json!({"url": format!("{site}/downloads")});
    let reply = call(daemon, "/chrome/download", json!({"code": click, "context": context})).await?;
    ensure!(reply.body == file_bytes(), "{} bytes", reply.body.len());
    ensure!(reply.headers["content-type"] == "application/octet-stream", "{:?}", reply.headers);
    ensure!(reply.headers["content-disposition"].to_str()?.contains("file.bin"), "{:?}", reply.headers);

    let two = "export default async ({ page, context }) => { await page.goto(context.url); await page.click('#file');\n\
               await page.evaluate(() => { const a = document.createElement('a'); a.download = 'tea.txt'; a.href = 'data:,sencha'; a.click(); }); }";
    let reply = call(daemon, "/download", json!({"code": two, "context": context})).await?;
    ensure!(reply.headers["content-type"] == "application/zip", "{:?}", reply.headers);
    let mut zip = zip::ZipArchive::new(Cursor::new(&reply.body))?;
    let mut found = Vec::new();
    for at in 0..zip.len() {
        let mut file = zip.by_index(at)?;
        let mut content = Vec::new();
        file.read_to_end(&mut content)?;
        found.push((file.name()?.into_owned(), content));
    }
    found.sort();
    ensure!(
        found == [("file.bin".to_owned(), file_bytes().to_vec()), ("tea.txt".to_owned(), b"sencha".to_vec())],
        "{} files",
        found.len()
    );

    let fault = module(daemon, "/download", "export default () => 'nothing'").await?.fault(400)?;
    ensure!(fault.field == "code" && fault.message.contains("pages.download_wait"), "{fault:?}");
    daemon.assert_idle().await
}
