//! The daemon's own MCP endpoint: agents' clients drive browsers by it, and nobody reaches a browser of somebody else.

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout};
use tokio::time::timeout;
use warmpool_tests::api::{Api, Reply};
use warmpool_tests::daemon::Daemon;
use warmpool_tests::programs::Program;
use warmpool_tests::{Group, Settings, Stage, eventually, group, poll};

pub(crate) fn group() -> Group {
    let settings = Settings::new()
        .set("MCP_MAX_SESSIONS_PER_KEY", "3")
        .set("MCP_IDLE_TIMEOUT", "4s")
        .set("MCP_NAVIGATION_TIMEOUT", "20s")
        .set("MCP_ACTION_TIMEOUT", "10s");
    group!(Some(settings),
        quick: [],
        full: [
            the_official_client_uses_every_tool,
            every_tool_works_in_firefox,
            references_hold_in_webkit,
            the_client_for_python_finds_its_version,
            an_agent_framework_uses_the_tools,
            the_inspector_finds_no_fault,
            a_program_starts_it,
            a_program_outlasts_its_session,
            sessions_are_their_keys_own,
            a_cancelled_tool_leaves_the_chosen_tab_chosen,
        ],
    )
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("agents")
}

async fn the_official_client_uses_every_tool(stage: Stage) -> Result<()> {
    every_tool_works(stage, "chromium", "").await
}

async fn every_tool_works_in_firefox(stage: Stage) -> Result<()> {
    every_tool_works(stage, "firefox", "?browser=firefox").await
}

/// What names an element names it for WebKit's driver, too.
async fn references_hold_in_webkit(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let site = stage.site_for(daemon).await?;
    let reply = initialize(daemon, daemon.key(), "?browser=webkit").await?;
    let agent = Agent::of(daemon, daemon.key(), reply.header("mcp-session-id").context("no session")?)?;
    agent.send(Method::POST, json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await?;
    let shown = agent.call("browser_navigate", json!({"url": format!("{site}/form")})).await?.to_string();
    let reference = |line: &str| {
        let rest = shown.split(line).nth(1)?.split("[ref=").nth(1)?;
        Some(rest.split(']').next()?.to_owned())
    };
    let name = reference("textbox").with_context(|| shown.clone())?;
    let typed = agent.call("browser_type", json!({"target": name, "text": "Ann"})).await?;
    ensure!(typed["isError"] == false && typed.to_string().contains("Ann"), "{typed}");
    ensure!(agent.send(Method::DELETE, Value::Null).await?.status == 202);
    Ok(())
}

async fn every_tool_works(stage: Stage, engine: &str, query: &str) -> Result<()> {
    let daemon = stage.daemon()?;
    let program = Program::node(&folder(), "mcp_http.mjs").await?.of(daemon).env("QUERY", query);
    let program = program.env("SITE_URL", stage.site_for(daemon).await?).env("REFUSED_URL", "http://127.0.0.1:4444/");
    let report = program.results().await?;
    ensure!(report["server"] == "warmpool" && report["tools"].as_u64() >= Some(23), "{report}");
    ensure!(report["live_view"].as_str().is_some_and(|url| url.contains("/stream?token=")), "{report}");
    let last = &daemon.api().get("/sessions?limit=1").await?.ok()?["sessions"][0];
    ensure!(last["browser_type"] == engine && last["headless"] == true, "{last}");
    let saved = daemon.api().get("/profiles/agent/state").await?;
    ensure!(saved.status == 200 && saved.text().contains("mcp"), "{saved}");
    ensure!(daemon.api().delete("/profiles/agent").await?.status == 204);
    daemon.assert_idle().await
}

async fn the_client_for_python_finds_its_version(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let program = Program::python(&folder(), "mcp_client.py").await?.of(daemon);
    let report = program.env("SITE_URL", stage.site_for(daemon).await?).results().await?;
    ensure!(report["server"] == "warmpool", "{report}");
    ensure!(
        report["read"].as_str().is_some_and(|read| read.contains("Tea house") && read.contains("/tab/1")),
        "{report}"
    );
    // The same as a call.
    let words = "Sencha is steamed after it was picked, and keeps its colour. ".repeat(12);
    let html = format!(
        "<html lang=en><title>Sencha</title><nav>Shop</nav><article><p>{words}<p>{words}<a href=https://a.example/>How</a></article>"
    );
    let read = daemon.api().post("/read", &json!({"html": html})).await?.ok()?;
    ensure!(read["title"] == "Sencha" && read["language"] == "en" && read["metadata"]["is_article"] == true, "{read}");
    ensure!(read["markdown"].as_str().is_some_and(|text| text.contains("steamed") && !text.contains("Shop")), "{read}");
    ensure!(read["links"][0] == json!({"text": "How", "url": "https://a.example/"}), "{read}");
    let deep = json!({"html": "<p>tea", "addScriptTag": [{"content":
        "let at = document.body; for (let i = 0; i < 700; i++) at = at.appendChild(document.createElement('b'))"}]});
    ensure!(daemon.api().post("/read", &deep).await?.fault(500)?.code == "page_failed");
    let attributes: String = (0..2000).map(|at| format!(" a{at}")).collect();
    let wide = json!({"html": format!("<p{attributes}>tea")});
    ensure!(daemon.api().post("/read", &wide).await?.fault(500)?.message.contains("attributes"));
    daemon.assert_idle().await
}

async fn an_agent_framework_uses_the_tools(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let program = Program::python(&folder(), "framework.py").await?.of(daemon);
    let report = program.env("SITE_URL", stage.site_for(daemon).await?).results().await?;
    ensure!(report["tools"].as_u64() >= Some(23), "{report}");
    ensure!(report["said"].as_str().is_some_and(|said| said.contains("Tea house")), "{report}");
    daemon.assert_idle().await
}

async fn the_inspector_finds_no_fault(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let report = Program::node(&folder(), "inspector.mjs").await?.of(daemon).results().await?;
    ensure!(report["tools"].as_u64() >= Some(23) && report["problems"] == json!([]), "{report}");
    ensure!(report["called"]["isError"] == false && report.to_string().contains("heading \\\"Tea house"), "{report}");
    daemon.assert_idle().await
}

async fn a_program_starts_it(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let binary = warmpool_tests::daemon::binary();
    let program = Program::node(&folder(), "mcp_http.mjs").await?.of(daemon).env("BRIEF", "1");
    let program = program.env("BRIDGE", binary.display().to_string());
    let report = program.env("SITE_URL", stage.site_for(daemon).await?).results().await?;
    ensure!(report["server"] == "warmpool", "{report}");
    ensure!(report["read"].as_str().is_some_and(|read| read.contains("Tea house")), "{report}");
    daemon.assert_idle().await
}

/// `warmpool mcp`, as programs start it: each line is a message.
struct Bridge {
    process: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Bridge {
    fn start(daemon: &Daemon) -> Result<Self> {
        let mut command = daemon.command(&["mcp"]);
        command.env("WARMPOOL_URL", daemon.url()).env("WARMPOOL_SECRET_KEY", daemon.key());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = tokio::process::Command::from(command).kill_on_drop(true).spawn()?;
        let input = process.stdin.take().context("its input")?;
        let output = BufReader::new(process.stdout.take().context("its output")?).lines();
        Ok(Self { process, input, output })
    }

    async fn send(&mut self, message: Value) -> Result<()> {
        Ok(self.input.write_all(format!("{message}\n").as_bytes()).await?)
    }

    /// The result of a request, which is the next line.
    async fn ask(&mut self, id: u64, method: &str, params: Value) -> Result<Value> {
        self.send(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await?;
        let line = timeout(Duration::from_secs(60), self.output.next_line()).await.context("no answer")??;
        let answer: Value = serde_json::from_str(&line.context("it has ended")?)?;
        ensure!(answer["id"] == id && answer["result"].is_object(), "{answer}");
        Ok(answer["result"].clone())
    }
}

async fn a_program_outlasts_its_session(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let site = stage.site_for(daemon).await?;
    let sessions = async || anyhow::Ok(daemon.metrics().await?.sum("warmpool_mcp_sessions", &[]));
    let mut bridge = Bridge::start(daemon)?;
    bridge.ask(0, "initialize", opening()).await?;
    bridge.send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await?;
    eventually!("the daemon has forgotten its session", 20, sessions().await? == Some(0.0))?;
    let page = json!({"name": "browser_navigate", "arguments": {"url": format!("{site}/agent")}});
    let shown = bridge.ask(1, "tools/call", page).await?;
    ensure!(shown["isError"] == false && shown.to_string().contains("Tea house"), "{shown}");

    // Its program is closed while a tool is at work.
    let wait = json!({"name": "browser_wait_for", "arguments": {"time": 30}});
    bridge.send(json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": wait})).await?;
    for _ in 0..20 {
        poll().await;
    }
    let Bridge { mut process, input, .. } = bridge;
    drop(input);
    kill(Pid::from_raw(process.id().context("it has ended")?.try_into()?), Signal::SIGTERM)?;
    let ended = timeout(Duration::from_secs(30), process.wait()).await.context("it goes on")??;
    ensure!(ended.success(), "{ended}");
    eventually!("its session has ended", 20, sessions().await? == Some(0.0))?;
    let live = async || anyhow::Ok(daemon.api().get("/status").await?.ok()?["sessions"]["live"].clone());
    eventually!("its browser has ended", 20, live().await? == 0)?;
    daemon.assert_idle().await
}

/// One MCP session, message by message.
struct Agent {
    api: Api,
    headers: HeaderMap,
}

/// Headers of MCP's clients.
fn headers(key: &str) -> Result<HeaderMap> {
    Ok(HeaderMap::from_iter([
        (CONTENT_TYPE, HeaderValue::from_static("application/json")),
        (ACCEPT, HeaderValue::from_static("application/json, text/event-stream")),
        (AUTHORIZATION, HeaderValue::try_from(format!("Bearer {key}"))?),
    ]))
}

/// The parameters of `initialize`.
fn opening() -> Value {
    json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}})
}

async fn initialize(daemon: &Daemon, key: &str, query: &str) -> Result<Reply> {
    let body = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": opening()});
    let path = format!("/mcp{query}");
    daemon.api().without_key().send(Method::POST, &path, headers(key)?, Bytes::from(body.to_string())).await
}

impl Agent {
    async fn begin(daemon: &Daemon, key: &str) -> Result<Self> {
        let reply = initialize(daemon, key, "").await?;
        ensure!(reply.status == 200, "{reply}");
        let id = reply.header("mcp-session-id").context("no session")?.to_owned();
        let agent = Self::of(daemon, key, &id)?;
        agent.send(Method::POST, json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await?;
        Ok(agent)
    }

    fn of(daemon: &Daemon, key: &str, id: &str) -> Result<Self> {
        let mut headers = headers(key)?;
        headers.insert(HeaderName::from_static("mcp-session-id"), HeaderValue::try_from(id)?);
        Ok(Self { api: daemon.api().without_key(), headers })
    }

    fn id(&self) -> &str {
        self.headers["mcp-session-id"].to_str().unwrap_or_default()
    }

    async fn send(&self, method: Method, body: Value) -> Result<Reply> {
        let body = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
        self.api.send(method, "/mcp", self.headers.clone(), body).await
    }

    /// The result of a tool.
    async fn call(&self, name: &str, arguments: Value) -> Result<Value> {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": arguments}});
        let reply = self.send(Method::POST, body).await?;
        let text = reply.text();
        let data = text.lines().filter_map(|line| line.strip_prefix("data:")).find(|data| data.contains("result"));
        let message: Value = serde_json::from_str(data.with_context(|| reply.to_string())?)?;
        Ok(message["result"].clone())
    }
}

/// A tool that looks at all tabs is given up while it looks at another one.
async fn a_cancelled_tool_leaves_the_chosen_tab_chosen(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let site = stage.site_for(daemon).await?;
    let agent = Agent::begin(daemon, daemon.key()).await?;
    ensure!(agent.call("browser_navigate", json!({"url": format!("{site}/tab/1")})).await?["isError"] == false);
    // Whoever looks at the other tab waits for its page.
    let function = format!("() => {{ open('{site}/slow?ms=10000', '_blank', 'noopener') }}");
    ensure!(agent.call("browser_evaluate", json!({"function": function})).await?["isError"] == false);
    let list = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params":
        {"name": "browser_tabs", "arguments": {"action": "list"}}});
    let (api, headers) = (agent.api.clone(), agent.headers.clone());
    let listing =
        tokio::spawn(async move { api.send(Method::POST, "/mcp", headers, Bytes::from(list.to_string())).await });
    for _ in 0..20 {
        poll().await;
    }
    let cancelled = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}});
    agent.send(Method::POST, cancelled).await?;
    listing.abort();
    let shown = agent.call("browser_snapshot", json!({})).await?;
    ensure!(shown["isError"] == false && shown.to_string().contains("Tab 1"), "{shown}");
    ensure!(agent.send(Method::DELETE, Value::Null).await?.status == 202);
    daemon.assert_idle().await
}

async fn sessions_are_their_keys_own(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let site = stage.site_for(daemon).await?;
    let key = daemon.key().to_owned();
    let other = daemon.cli_ok(&["key", "create", "other"]).await?;
    let other = other.split_whitespace().find(|word| word.starts_with("wp_")).unwrap_or(other.trim()).to_owned();
    let page = json!({"url": format!("{site}/agent")});
    let live = async || anyhow::Ok(daemon.api().get("/status").await?.ok()?["sessions"]["live"].clone());

    // Who has no key, a wrong one or a wrong address begins nothing.
    ensure!(initialize(daemon, "wrong", "").await?.status == 401);
    ensure!(initialize(daemon, &key, "?browser=opera").await?.fault(400)?.field == "browser");
    ensure!(initialize(daemon, &key, "?session=x").await?.fault(400)?.field == "session");
    let mut foreign = headers(&key)?;
    foreign.insert("origin", HeaderValue::from_static("http://evil.example"));
    ensure!(daemon.api().send(Method::POST, "/mcp", foreign, Bytes::from("{}")).await?.status == 403);

    // Its own key reaches it, another does not, and cannot end it either.
    let agent = Agent::begin(daemon, &key).await?;
    ensure!(agent.call("browser_navigate", page.clone()).await?["isError"] == false);
    // It lasts as long as a session may, and so as long as the MCP session.
    let browser = &daemon.api().get("/sessions?limit=1").await?.ok()?["sessions"][0];
    ensure!(browser["session_timeout"] == 86_400, "{browser}");
    let thief = Agent::of(daemon, &other, agent.id())?;
    for method in [Method::POST, Method::GET, Method::DELETE] {
        let body = if method == Method::POST {
            json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
        } else {
            Value::Null
        };
        ensure!(thief.send(method, body).await?.fault(404)?.code == "unknown_mcp_session");
    }
    let nobody = Agent::of(daemon, &key, "nonsense")?;
    ensure!(nobody.send(Method::DELETE, Value::Null).await?.fault(404)?.message.contains("initialize"));
    ensure!(agent.call("browser_snapshot", json!({})).await?["isError"] == false);

    // What MCP's transport refuses has the form of every other error.
    let unnamed =
        daemon.api().without_key().send(Method::DELETE, "/mcp", headers(&key)?, Bytes::new()).await?.fault(400)?;
    ensure!(unnamed.code == "invalid_mcp_request" && unnamed.message.contains("Session ID"), "{unnamed:?}");
    let mut deaf = headers(&key)?;
    deaf.remove(ACCEPT);
    let deaf = daemon.api().without_key().send(Method::GET, "/mcp", deaf, Bytes::new()).await?.fault(406)?;
    ensure!(deaf.code == "not_acceptable" && deaf.message.contains("text/event-stream"), "{deaf:?}");

    // A page that never comes, and one that nobody may reach.
    let never = agent.call("browser_navigate", json!({"url": format!("{site}/slow?ms=40000")})).await?;
    ensure!(never["isError"] == true && never.to_string().contains("did not load in time"), "{never}");
    let wrong = agent.call("browser_navigate", json!({"url": 1})).await?;
    ensure!(wrong["isError"] == true && wrong.to_string().contains("url"), "{wrong}");

    // As many as a key may have, and DELETE gives back a place and a browser.
    let second = Agent::begin(daemon, &key).await?;
    let third = Agent::begin(daemon, &key).await?;
    let fault = initialize(daemon, &key, "").await?.fault(429)?;
    ensure!(fault.code == "mcp_session_limit" && fault.message.contains("mcp.max_sessions_per_key"), "{fault:?}");
    let others = Agent::begin(daemon, &other).await?;
    ensure!(daemon.metrics().await?.sum("warmpool_mcp_sessions", &[]) == Some(4.0));
    ensure!(agent.send(Method::DELETE, Value::Null).await?.status == 202);
    eventually!("its browser has ended", 10, live().await? == 0)?;
    eventually!("its place is free", 10, initialize(daemon, &key, "").await?.status == 200)?;
    ensure!(agent.send(Method::DELETE, Value::Null).await?.status == 404);

    // Who leaves without a word is gone a little later.
    ensure!(others.call("browser_navigate", page).await?["isError"] == false);
    drop((second, third));
    eventually!("its browser has ended", 20, live().await? == 0)?;
    eventually!("it has ended", 20, others.send(Method::GET, Value::Null).await?.status == 404)?;
    eventually!("none is left", 20, daemon.metrics().await?.sum("warmpool_mcp_sessions", &[]) == Some(0.0))?;
    daemon.assert_idle().await
}
