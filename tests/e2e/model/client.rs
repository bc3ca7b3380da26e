//! What the client does.

use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use futures_util::future::join_all;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use serde_json::{Value, json};
use warmpool_tests::evidence::Random;
use warmpool_tests::wire::refusal;
use warmpool_tests::{Api, Daemon, Driver, Session, Stage, eventually};

use super::known::{Known, Live, Task};
use crate::history::{id, visit};
use crate::row_crashes::containers_are_the_daemons;
use crate::task_durability::endless;

/// Sessions at once. With a task there is still room for those that are being replaced.
const MOST_LIVE: usize = 3;
/// Tasks that wait at once, so that the end is near.
const MOST_OPEN: usize = 12;
/// Records of each kind that a check in the middle of a walk looks at.
const SOME: usize = 100;
/// Steps that a failure tells of.
const REMEMBERED: usize = 12;

/// A number that no walk has used.
pub(super) fn number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1_000_000);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

pub(super) struct Client {
    pub(super) daemon: Daemon,
    pub(super) api: Api,
    pub(super) site: String,
    pub(super) random: Random,
    engines: Vec<String>,
    pub(super) known: Known,
    steps: VecDeque<String>,
}

impl Client {
    pub(super) fn new(daemon: Daemon, site: String, random: Random, engines: Vec<String>) -> Self {
        let api = daemon.api();
        Self { daemon, api, site, random, engines, known: Known::default(), steps: VecDeque::new() }
    }

    pub(super) fn last_steps(&self) -> String {
        self.steps.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
    }

    pub(super) fn summary(&self) -> String {
        let counts = self.known.counts.iter().map(|(what, count)| format!("{what} {count}"));
        counts.collect::<Vec<_>>().join(", ")
    }

    pub(super) fn note(&mut self, what: &'static str, detail: impl std::fmt::Display) {
        *self.known.counts.entry(what).or_default() += 1;
        self.steps.push_back(format!("{what} {detail}").trim_end().to_owned());
        if self.steps.len() > REMEMBERED {
            self.steps.pop_front();
        }
    }

    /// Does one thing, and checks what it changed.
    pub(super) async fn step(&mut self) -> Result<()> {
        match self.random.below(100) {
            0..16 => self.create(1).await?,
            16..20 => self.create(3).await?,
            20..34 => self.use_one().await?,
            34..44 => self.delete().await?,
            44..48 => self.look_at_an_ended_one().await?,
            48..62 => self.order(1).await?,
            62..66 => self.order(4).await?,
            66..72 => self.cancel().await?,
            72..76 => self.order_twice().await?,
            76..80 => self.lists().await?,
            80..84 => self.bad_request().await?,
            84..88 => self.time_out().await?,
            88..92 => self.quit_or_close().await?,
            92..95 => self.kill_a_worker().await?,
            95..97 => self.kill_the_daemon().await?,
            _ => self.check(SOME).await?,
        }
        Ok(())
    }

    async fn create(&mut self, most: usize) -> Result<()> {
        let room = MOST_LIVE.saturating_sub(self.known.live.len()).min(most);
        let mut wanted = Vec::new();
        for _ in 0..room {
            // Other engines start on demand, which takes seconds.
            let engine =
                if self.random.below(8) == 0 { self.random.of(&self.engines).clone() } else { "chromium".into() };
            wanted.push((engine.clone(), engine != "chromium" || self.random.below(4) == 0));
        }
        self.note("create", format!("{wanted:?}"));
        let api = &self.api;
        let made = join_all(wanted.iter().map(async |(engine, by_driver)| {
            let body = json!({"browser_type": engine, "headless": true, "keep_alive": true, "session_timeout": 3000});
            let path = if *by_driver { "/sessions/webdriver/create" } else { "/sessions/create" };
            Session::from_reply(api, &api.post(path, &body).await?)
        }))
        .await;
        for (session, (_, by_driver)) in made.into_iter().zip(wanted) {
            let session = session?;
            ensure!(session.status().await? == "running", "an acknowledged session runs");
            let mark = format!("mark {}", number());
            let driver = match by_driver {
                true => Some(Driver::start(session.connect_url()?, json!({})).await?),
                false => None,
            };
            let live = Live { session, mark, driver };
            live.evaluate(&format!("window.name = '{}'", live.mark)).await?;
            self.known.live.push(live);
        }
        Ok(())
    }

    fn any_live(&mut self) -> Option<usize> {
        let count = self.known.live.len();
        (count > 0).then(|| usize::try_from(self.random.below(count as u64)).unwrap_or_default())
    }

    async fn use_one(&mut self) -> Result<()> {
        let Some(at) = self.any_live() else { return Ok(()) };
        self.note("use", self.known.live[at].session.id.clone());
        self.known.live[at].is_there().await
    }

    async fn delete(&mut self) -> Result<()> {
        let Some(at) = self.any_live() else { return Ok(()) };
        let session = self.known.live[at].session.id.clone();
        // Two at once are one end.
        let times = 1 + self.random.below(2);
        self.note("delete", format!("{session} {times} times"));
        let path = format!("/sessions/{session}");
        for answer in join_all((0..times).map(|_| self.api.delete(&path))).await {
            let record = answer?.ok()?;
            ensure!(record["status"] == "terminated" && record["reason"] == "deleted", "{record}");
        }
        let record = self.api.get(&path).await?.ok()?;
        ensure!(record["status"] == "terminated" && record["reason"] == "deleted", "{record}");
        let gone = self.known.live.iter().position(|live| live.session.id == session).context("it was live")?;
        let gone = self.known.live.swap_remove(gone);
        self.known.ends(&session, &record)?;
        self.is_closed(&gone).await
    }

    /// What has ended opens no more.
    async fn is_closed(&self, gone: &Live) -> Result<()> {
        let status = match &gone.driver {
            None => refusal(gone.session.websocket_url()?, &HeaderMap::new()).await?,
            Some(driver) => driver.command(Method::GET, "/url", &Value::Null).await?.status,
        };
        ensure!(status == 404, "{} has ended, and answers {status}", gone.session.id);
        Ok(())
    }

    async fn look_at_an_ended_one(&mut self) -> Result<()> {
        let ended: Vec<String> = self.known.ended.keys().cloned().collect();
        if ended.is_empty() {
            return Ok(());
        }
        let session = self.random.of(&ended).clone();
        self.note("look", &session);
        let record = self.api.get(&format!("/sessions/{session}")).await?.ok()?;
        self.known.ends(&session, &record)?;
        let again = self.api.delete(&format!("/sessions/{session}")).await?.ok()?;
        self.known.ends(&session, &again)
    }

    async fn order(&mut self, most: usize) -> Result<()> {
        let room = MOST_OPEN.saturating_sub(self.known.open_tasks().len()).min(most);
        let pages: Vec<Option<u64>> =
            (0..room).map(|_| if self.random.below(6) == 0 { None } else { Some(number()) }).collect();
        self.note("order", room);
        let bodies = pages.iter().map(|page| match page {
            Some(page) => visit(&format!("{}/tab/{page}", self.site)),
            None => endless(&self.site),
        });
        let answers = join_all(bodies.map(async |body| self.api.post("/lam/run", &body).await)).await;
        for (answer, page) in answers.into_iter().zip(pages) {
            let task = id(&answer?.ok()?)?;
            let is_new = self.known.tasks.insert(task.clone(), Task { page, ..Task::default() }).is_none();
            ensure!(is_new, "{task} is there twice");
        }
        Ok(())
    }

    async fn cancel(&mut self) -> Result<()> {
        // Endless ones first, so that the others get their turn.
        let endless = self.known.tasks.iter().filter(|(_, task)| task.ended.is_none() && task.page.is_none());
        let mut open: Vec<String> = endless.map(|(id, _)| id.clone()).collect();
        if open.is_empty() {
            open = self.known.open_tasks();
        }
        if open.is_empty() {
            return Ok(());
        }
        let task = self.random.of(&open).clone();
        self.note("cancel", &task);
        self.cancel_one(&task).await
    }

    async fn cancel_one(&mut self, task: &str) -> Result<()> {
        let record = self.api.delete(&format!("/lam/tasks/{task}")).await?.ok()?;
        if record["status"] == "cancelled"
            && let Some(known) = self.known.tasks.get_mut(task)
        {
            known.cancelled = true;
        }
        let record = self.api.get(&format!("/lam/tasks/{task}")).await?.ok()?;
        self.known.task(task, &record)
    }

    async fn order_twice(&mut self) -> Result<()> {
        if self.known.open_tasks().len() + 1 > MOST_OPEN {
            return Ok(());
        }
        let page = number();
        self.note("order twice", page);
        let body = visit(&format!("{}/tab/{page}", self.site));
        let headers: HeaderMap =
            [("idempotency-key", format!("key {page}")), ("content-type", "application/json".into())]
                .into_iter()
                .map(|(name, value)| Ok((HeaderName::from_static(name), HeaderValue::from_str(&value)?)))
                .collect::<Result<_>>()?;
        let send = || self.api.send(Method::POST, "/lam/run", headers.clone(), Bytes::from(body.to_string()));
        let (first, second) = tokio::join!(send(), send());
        let (first, second) = (id(&first?.ok()?)?, id(&second?.ok()?)?);
        ensure!(first == second, "one key made {first} and {second}");
        self.known.tasks.insert(first, Task { page: Some(page), ..Task::default() });
        Ok(())
    }

    /// The lists have all that was acknowledged and is as asked for, and nothing else.
    async fn lists(&mut self) -> Result<()> {
        self.note("list", "");
        let listed = self.api.get("/sessions?status=running&limit=100").await?.ok()?;
        let sessions = listed["sessions"].as_array().context("sessions")?;
        let own = sessions.iter().filter(|session| session["kind"] != "task");
        let found: BTreeSet<String> =
            own.filter_map(|session| session["session_id"].as_str().map(str::to_owned)).collect();
        let live = self.known.live_ids();
        ensure!(live.is_subset(&found), "{live:?} run, and the list has {found:?}");
        ensure!(found == live, "{live:?} run, and the list has {found:?}");
        ensure!(found.iter().all(|id| !self.known.ended.contains_key(id)), "the list has one that ended: {found:?}");
        let listed = self.api.get("/lam/tasks?limit=1").await?.ok()?;
        let (total, known) =
            (listed["meta"]["totalRecords"].as_u64().unwrap_or_default(), self.known.tasks.len() as u64);
        ensure!(total == known, "{total} tasks are listed of {known}");
        Ok(())
    }

    async fn bad_request(&mut self) -> Result<()> {
        let (path, body, field) = *self.random.of(&[
            ("/sessions/create", r#"{"browser_type":"opera"}"#, "browser_type"),
            ("/sessions/create", r#"{"session_timeout":0}"#, "session_timeout"),
            ("/lam/run", r#"{"steps":[{"type":"fly"}]}"#, "steps[0].type"),
            ("/lam/extract", r#"{"schema":{"a":"b"}}"#, "url"),
        ]);
        self.note("bad request", path);
        let fault = self.api.post_bytes(path, "application/json", body).await?.fault(400)?;
        ensure!(fault.field == field, "{body}: {fault:?}");
        let unknown = self.api.get("/sessions/ses_00000000000000000000000000000000").await?;
        ensure!(unknown.status == 404, "{unknown}");
        Ok(())
    }

    /// A session that ends by itself.
    async fn time_out(&mut self) -> Result<()> {
        if self.known.live.len() >= MOST_LIVE {
            return Ok(());
        }
        let field = *self.random.of(&["session_timeout", "idle_timeout"]);
        self.note("time out", field);
        let session = self.daemon.session(json!({field: 1, "keep_alive": true})).await?;
        let record = session.becomes("terminated", 15).await?;
        ensure!(record["reason"] == field, "{record}");
        self.known.ends(&session.id.clone(), &record)
    }

    /// The client's own ends: it closes the browser, or quits its driver.
    async fn quit_or_close(&mut self) -> Result<()> {
        let Some(at) = self.any_live() else { return Ok(()) };
        let live = self.known.live.swap_remove(at);
        self.note("close", &live.session.id);
        let (status, reason) = match &live.driver {
            Some(driver) => {
                driver.quit().await?;
                ("terminated", "driver_quit")
            }
            None => {
                live.session.cdp().await?.call("Browser.close", json!({})).await?;
                ("completed", "browser_closed")
            }
        };
        let record = live.session.becomes(status, 20).await?;
        ensure!(record["reason"] == reason, "{record}");
        self.known.ends(&live.session.id, &record)?;
        self.is_closed(&live).await
    }

    /// What was acknowledged is there, as it was: all that goes on, and so many of what has ended, at random. The engine has the
    /// daemon's containers, and no others.
    async fn check(&mut self, most: usize) -> Result<()> {
        self.note("check", most);
        for live in &self.known.live {
            live.is_there().await?;
        }
        let ended = self.known.ended.keys().cloned().collect();
        for session in self.some(most, ended) {
            let record = self.api.get(&format!("/sessions/{session}")).await?.ok()?;
            self.known.ends(&session, &record)?;
        }
        containers_are_the_daemons(&self.daemon).await?;
        let mut tasks = self.known.open_tasks();
        let all = self.known.tasks.keys().cloned().collect();
        tasks.extend(self.some(most, all));
        for task in tasks {
            let record = self.api.get(&format!("/lam/tasks/{task}")).await?.ok()?;
            self.known.task(&task, &record)?;
        }
        Ok(())
    }

    /// At most so many of these, at random.
    fn some(&mut self, most: usize, mut of: Vec<String>) -> Vec<String> {
        while of.len() > most {
            let gone = usize::try_from(self.random.below(of.len() as u64)).unwrap_or_default();
            of.swap_remove(gone);
        }
        of
    }

    /// Takes in what a killed daemon made and told nobody of: a task that opens this page at most, and sessions, which end.
    pub(super) async fn adopt(&mut self, page: u64) -> Result<()> {
        let listed = self.api.get("/sessions?status=running&status=starting&limit=100").await?.ok()?;
        let sessions = listed["sessions"].as_array().context("sessions")?.clone();
        let live = self.known.live_ids();
        for session in sessions.iter().filter(|session| session["kind"] != "task") {
            let id = session["session_id"].as_str().context("session_id")?;
            if !live.contains(id) {
                ensure!(!self.known.ended.contains_key(id), "a session that had ended is back: {session}");
                let ended = self.api.delete(&format!("/sessions/{id}")).await?.ok()?;
                self.known.ends(id, &ended)?;
            }
        }
        let listed = self.api.get("/lam/tasks?limit=100").await?.ok()?;
        let tasks = listed["tasks"].as_array().context("tasks")?;
        let unknown: Vec<String> = tasks.iter().map(id).collect::<Result<_>>()?;
        let unknown: Vec<String> = unknown.into_iter().filter(|id| !self.known.tasks.contains_key(id)).collect();
        ensure!(unknown.len() <= 1, "one task was ordered while the daemon died, and these are there: {unknown:?}");
        let task = Task { page: Some(page), disturbed: true, ..Task::default() };
        self.known.tasks.extend(unknown.into_iter().map(|id| (id, task.clone())));
        Ok(())
    }

    /// Ends everything: each task has one end, each page was opened as often as its task ran, and nothing is left.
    pub(super) async fn end(&mut self, stage: &Stage) -> Result<()> {
        for task in self.known.open_tasks() {
            if self.known.tasks.get(&task).is_some_and(|task| task.page.is_none()) {
                self.cancel_one(&task).await?;
            }
        }
        eventually!("every task has ended", 240, {
            for task in self.known.open_tasks() {
                let record = self.api.get(&format!("/lam/tasks/{task}")).await?.ok()?;
                self.known.task(&task, &record)?;
            }
            self.known.open_tasks().is_empty()
        })?;
        for (id, task) in &self.known.tasks {
            let Some(page) = task.page else { continue };
            let hits = stage.site().hits(&format!("/tab/{page}")).len();
            let succeeded = task.ended.as_ref().is_some_and(|record| record["status"] == "success");
            ensure!(hits <= 1 && (!succeeded || hits == 1), "{id} opened its page {hits} times: {task:?}");
        }
        while !self.known.live.is_empty() {
            self.delete().await?;
        }
        self.check(usize::MAX).await?;
        self.daemon.end_all().await?;
        self.daemon.warm().await?;
        self.daemon.assert_idle().await
    }
}

impl Live {
    async fn evaluate(&self, expression: &str) -> Result<Value> {
        match &self.driver {
            Some(driver) => driver.execute(&format!("return {expression}")).await,
            None => self.session.evaluate(expression).await,
        }
    }

    /// It is the same browser, and it answers.
    pub(super) async fn is_there(&self) -> Result<()> {
        let name = self.evaluate("window.name").await.with_context(|| format!("{} is used", self.session.id))?;
        ensure!(name == self.mark.as_str(), "{} has the window {name}, and not {}", self.session.id, self.mark);
        Ok(())
    }
}
