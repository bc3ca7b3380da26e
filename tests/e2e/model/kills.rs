//! What the client kills, and what it then finds.

use anyhow::{Result, ensure};
use nix::sys::signal::Signal;
use serde_json::json;
use warmpool_tests::{Reply, Session, eventually, poll};

use super::client::{Client, number};
use super::known::Task;
use crate::history::{id, visit};

impl Client {
    /// Kills any container, or the browser in it: at most the one session whose it is fails.
    pub(super) async fn kill_a_worker(&mut self) -> Result<()> {
        let containers = self.daemon.containers().await?;
        if containers.is_empty() {
            return Ok(());
        }
        let victim = self.random.of(&containers).id.clone();
        let browser_only = self.random.below(3) == 0;
        self.note("kill", if browser_only { "a browser" } else { "a worker" });
        self.known.disturb();
        // It may have ended by itself meanwhile.
        let killed = match browser_only {
            true => self.daemon.docker().signal_browser(&victim, Signal::SIGKILL).await.is_ok(),
            false => self.daemon.docker().run(&["kill", &victim]).await.is_ok(),
        };
        if !killed {
            return Ok(());
        }
        eventually!("the container is gone", 40, {
            !self.daemon.containers().await?.iter().any(|container| container.id == victim)
        })?;
        self.survey(1, &["worker_exited", "browser_crashed", "unresponsive", "worker_lost"]).await?;
        self.daemon.ready().await
    }

    /// Looks at each live session: at most so many have failed, for one of these reasons, and the others go on.
    async fn survey(&mut self, most: usize, reasons: &[&str]) -> Result<()> {
        let mut lost = Vec::new();
        for live in &self.known.live {
            let record = eventually!("the session is known", 30, {
                let record = live.session.record().await?;
                (!matches!(record["status"].as_str(), Some("unknown" | "starting"))).then_some(record)
            })?;
            if record["status"] == "running" {
                live.is_there().await?;
            } else {
                // WebDriver sessions have three statuses, by the contract.
                let status = if live.driver.is_some() { "terminated" } else { "failure" };
                ensure!(record["status"] == status, "{record}");
                ensure!(reasons.iter().any(|reason| record["reason"] == *reason), "{record}");
                lost.push((live.session.id.clone(), record));
            }
        }
        ensure!(lost.len() <= most, "{most} may be lost, and these are: {lost:?}");
        lost.iter().try_for_each(|(id, record)| self.known.ends(id, record))
    }

    /// Kills the daemon while calls are under way, whose answers may be lost.
    pub(super) async fn kill_the_daemon(&mut self) -> Result<()> {
        let (after, page) = (self.random.below(400), number());
        self.note("kill the daemon", format!("after {after} ms"));
        self.known.disturb();
        let api = self.api.clone();
        let body = visit(&format!("{}/tab/{page}", self.site));
        let calls = tokio::spawn(async move {
            let ordered = api.post("/lam/run", &body).await;
            let made = api.post("/sessions/create", &json!({"headless": true, "session_timeout": 2})).await;
            (ordered, made)
        });
        let until = std::time::Instant::now() + std::time::Duration::from_millis(after);
        while std::time::Instant::now() < until && !calls.is_finished() {
            poll().await;
        }
        self.daemon.kill9().await?;
        let (ordered, made) = calls.await?;
        let answered = |reply: Result<Reply>| reply.ok().filter(|reply| reply.status < 300);
        if let Some(reply) = answered(ordered) {
            let task = Task { page: Some(page), disturbed: true, ..Task::default() };
            self.known.tasks.insert(id(&reply.json()?)?, task);
        }
        self.daemon.restart().await?;
        self.daemon.ready().await?;
        let status = self.api.get("/status").await?.ok()?;
        ensure!(status["store"]["recovered"].is_null(), "{}", status["store"]);
        if let Some(reply) = answered(made) {
            let session = Session::from_reply(&self.api, &reply)?;
            let record = session.becomes("terminated", 20).await?;
            ensure!(record["reason"] == "session_timeout", "{record}");
            self.known.ends(&session.id, &record)?;
        }
        self.adopt(page).await?;
        // Not one: they outlive their daemon.
        self.survey(0, &[]).await
    }
}
