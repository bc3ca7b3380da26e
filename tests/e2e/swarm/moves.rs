//! The daemon of a stack on another manager than before: with storage that the managers share, and from a backup.

use std::os::unix::fs::chown;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use warmpool_tests::{Api, Docker, Nodes, Session, Stage, Swarm, eventually};

use super::guide::Reader;
use super::stack::{SERVICE, STACK, is_kept, load, ready, settings, write_settings};

/// The user that the daemon is in its image.
const USER: u32 = 10001;

/// A session, and the node that it is on.
struct Placed {
    session: Session,
    node: String,
}

/// The stack's daemon where it is now.
struct Place {
    node: String,
    engine: Docker,
    address: String,
}

impl Place {
    /// Waits until the daemon serves from another node than this one, which is lost.
    async fn find(swarm: &Swarm, lost: &str) -> Result<Self> {
        let place = eventually!("the daemon has a node", 90, {
            let asked = [
                "service",
                "ps",
                "--filter",
                "desired-state=running",
                "--format",
                "{{.Node}} {{.CurrentState}}",
                SERVICE,
            ];
            // While managers elect their leader, they do not answer.
            let listed = swarm.manager().run(&asked).await.unwrap_or_default();
            listed
                .lines()
                .find_map(|line| line.split_once(" Running").map(|(node, _)| node.to_owned()))
                .filter(|node| node != lost)
        })?;
        let engine = swarm.engine(&place)?.clone();
        let address = format!("{}:4444", swarm.address_of(&place)?);
        ready(&Api::new(format!("http://{address}")), &engine).await?;
        Ok(Self { node: place, engine, address })
    }

    fn api(&self, key: &str) -> Api {
        Api::new(format!("http://{}", self.address)).with_key(key)
    }

    /// The daemon's container.
    async fn container(&self) -> Result<String> {
        let label = format!("label=com.docker.swarm.service.name={SERVICE}");
        self.engine.run(&["ps", "--quiet", "--filter", &label]).await
    }

    async fn create(&self, swarm: &Swarm, key: &str) -> Result<Placed> {
        let session = Session::create(&self.api(key), &json!({"headless": true, "url": "about:blank"})).await?;
        session.evaluate("document.title = 'kept'").await?;
        let worker = eventually!("the log names its worker", 10, {
            let log = self.engine.command(&["logs", &self.container().await?]).output().await?.stderr;
            session.worker_in(&String::from_utf8_lossy(&log)).ok()
        })?;
        let node = swarm.node_of(&worker).await?.with_context(|| format!("the node of {worker}"))?;
        Ok(Placed { session, node })
    }

    /// A session as its client finds it at the name that leads here now.
    fn found(&self, before: &Self, session: &Session, key: &str) -> Result<Session> {
        let body = session.body.to_string().replace(&before.address, &self.address);
        Session::from_body(&self.api(key), serde_json::from_str(&body)?)
    }
}

pub(crate) async fn the_daemon_moves_to_another_manager_and_comes_back_from_a_backup(_: Stage) -> Result<()> {
    let image = super::image();
    let images = super::images();
    let images = images.each_ref().map(String::as_str);
    let Some(mut swarm) = Swarm::start_apart(&images, Nodes::ALIKE).await? else { return Ok(()) };
    load(&swarm.engines()).await?;
    let (folder, data) = (tempfile::tempdir()?, tempfile::tempdir()?);
    chown(data.path(), Some(USER), Some(USER))?;
    write_settings(folder.path(), &settings(&image), Some(data.path()))?;
    let mut reader = Reader::new(folder.path(), format!("{STACK}/daemon:latest"))?;
    reader.follow(&swarm, "docker swarm join --token").await?;
    for number in 2..=3 {
        swarm.manager().run(&["node", "promote", &swarm.name(number)]).await?;
    }
    reader.follow(&swarm, "docker stack deploy").await?;
    let first = Place::find(&swarm, "").await?;
    let key = first.engine.run(&["exec", &first.container().await?, "cat", "/var/lib/warmpool/first-key"]).await?;
    let mut placed = Vec::new();
    for _ in 0..3 {
        placed.push(first.create(&swarm, &key).await?);
    }

    // The daemon's machine is lost.
    let began = Instant::now();
    swarm.kill(&first.node)?;
    let second = Place::find(&swarm, &first.node).await?;
    println!("the daemon was ready on another manager after {:.1} s", began.elapsed().as_secs_f64());
    for one in &mut placed {
        one.session = second.found(&first, &one.session, &key)?;
        if one.node == first.node {
            let record = one.session.becomes("failure", 60).await?;
            ensure!(record["reason"] == "node_lost", "{record}");
        } else {
            is_kept(&one.session).await.with_context(|| format!("a session on {}", one.node))?;
        }
    }
    placed.retain(|one| one.node != first.node);
    let kept = placed.pop().context("a session on a node that lives")?.session;
    for one in placed {
        one.session.delete().await?.ok()?;
    }

    // A backup is made, then another session; then the data is lost.
    reader.skip("/sessions/create")?;
    reader.manager = Some(second.engine.clone());
    reader.follow(&swarm, "warmpool backup").await?;
    let later = second.create(&swarm, &key).await?.session;
    second.engine.run(&["kill", &second.container().await?]).await?;
    second.engine.run(&["service", "scale", "--detach", &format!("{SERVICE}=0")]).await?;
    eventually!("the daemon is gone", 60, second.container().await?.is_empty())?;
    for entry in std::fs::read_dir(data.path())?.flatten() {
        let path = entry.path();
        if path.is_dir() { std::fs::remove_dir_all(path)? } else { std::fs::remove_file(path)? }
    }
    reader.follow(&swarm, "warmpool restore").await?;
    let began = Instant::now();
    second.engine.run(&["service", "scale", "--detach", &format!("{SERVICE}=1")]).await?;
    let third = Place::find(&swarm, &first.node).await?;
    println!("the restored daemon was ready after {:.1} s", began.elapsed().as_secs_f64());
    let kept = third.found(&second, &kept, &key)?;
    is_kept(&kept).await.context("the session in the backup")?;
    let later = third.found(&second, &later, &key)?;
    third.api(&key).get(&format!("/sessions/{}", later.id)).await?.fault(404)?;
    kept.delete().await?.ok()?;
    eventually!("the pool's workers are all there are", 60, {
        let listed = third.engine.run(&["service", "ls", "--filter", "label=warmpool.worker", "--quiet"]).await?;
        let status = third.api(&key).get("/status").await?.ok()?;
        let ready: u64 =
            status["pool"].as_array().into_iter().flatten().filter_map(|kind| kind["ready"].as_u64()).sum();
        ready == 2 && listed.lines().count() == 2
    })?;
    third.engine.run(&["stack", "rm", "warmpool"]).await.map(drop)
}
