//! Takes the challenges of one session to their solver, one after the other.

use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;
use warmpool_protocol::{Captcha, CaptchaAction, CaptchaKind, Snapshot};

use super::history::History;
use super::solver::{Solution, SolverError};
use super::{SessionFacts, Shared};
use crate::hiding::Hiding;
use crate::worker::Worker;
use warmpool_api::captcha::{CaptchaRecord, Outcome, SolvedBy, WaitingCaptcha};
use warmpool_config::CaptchaMode;
use warmpool_core::clock::unix_ms;

/// A person's verdict on the challenge that they see.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
pub struct Verdict {
    act: PersonAct,
    /// When that challenge was found, in Unix milliseconds; without it, the verdict is on whichever waits.
    since: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
enum PersonAct {
    /// The challenge is solved, whatever the page reports.
    Solved,
    /// The person leaves it unsolved.
    GiveUp,
}

/// Follows the challenges of one session.
pub(super) struct CaptchaMonitor {
    pub shared: Arc<Shared>,
    pub worker: Arc<Worker>,
    pub facts: SessionFacts,
    pub history: Arc<Mutex<History>>,
    pub waiting: Arc<watch::Sender<Option<WaitingCaptcha>>>,
    /// What the address of a page may not tell to anybody but the solver, who needs the address.
    pub hiding: Hiding,
}

/// What decides a challenge first.
enum Decision {
    /// The challenge is over without the daemon's help.
    Ended {
        solved: bool,
    },
    Answer(Solution),
    /// A person decided, or nobody came.
    Person {
        solved: bool,
        error: Option<&'static str>,
    },
    Failed(SolverError),
    TooMany,
}

/// How it ended, for the record.
struct Ending {
    outcome: Outcome,
    error: Option<&'static str>,
    cost: Option<f64>,
}

impl Ending {
    const fn new(outcome: Outcome) -> Self {
        Self { outcome, error: None, cost: None }
    }
}

impl CaptchaMonitor {
    /// Runs until the worker is gone.
    pub(super) async fn run(self, mut verdicts: mpsc::Receiver<Verdict>) {
        let mut snapshot = self.worker.snapshot.clone();
        // The agent numbers challenges in their order.
        let mut last = 0;
        loop {
            let captcha = snapshot.borrow_and_update().captcha.clone().filter(|captcha| captcha.id > last);
            match captcha {
                Some(captcha) => {
                    last = captcha.id;
                    while verdicts.try_recv().is_ok() {}
                    self.handle(&captcha, &mut snapshot, &mut verdicts).await;
                }
                None if snapshot.changed().await.is_err() => return,
                None => {}
            }
        }
    }

    async fn handle(
        &self,
        captcha: &Captcha,
        snapshot: &mut watch::Receiver<Snapshot>,
        verdicts: &mut mpsc::Receiver<Verdict>,
    ) {
        let by = match self.shared.config.captcha.mode {
            CaptchaMode::Solver => SolvedBy::Solver,
            CaptchaMode::Person | CaptchaMode::Off => SolvedBy::Person,
        };
        let (count, limit) = (self.history.lock().count(), self.shared.config.captcha.max_per_session);
        let too_many = count >= limit;
        if count > limit {
            // The log and the record tell of the first beyond the limit alone: a page makes as many as it likes.
            let Ending { outcome, .. } = self.carry_out(captcha, Decision::TooMany).await;
            return tally(captcha.kind, by, outcome);
        }
        let Captcha { kind, url, since, page, .. } = captcha.clone();
        let waiting = WaitingCaptcha { kind, url: self.hiding.address(&url), since, by, page };
        tracing::info!(session = %self.facts.session_id, kind = captcha.kind.as_str(), by = by.as_str(), "a page shows a challenge");
        if !too_many {
            self.waiting.send_replace(Some(waiting.clone()));
            if by == SolvedBy::Person {
                self.notify("captcha.waiting", self.message(&waiting));
            }
        }
        let decision = if too_many {
            Decision::TooMany
        } else {
            tokio::select! {
                biased;
                solved = ended(snapshot, captcha.id) => Decision::Ended { solved },
                decision = self.decide(captcha, by, verdicts) => decision,
            }
        };
        let ending = self.carry_out(captcha, decision).await;
        self.waiting.send_replace(None);
        self.record_ending(waiting, ending);
    }

    async fn decide(&self, captcha: &Captcha, by: SolvedBy, verdicts: &mut mpsc::Receiver<Verdict>) -> Decision {
        match (by, &self.shared.solver) {
            (SolvedBy::Solver, Some(solver)) => match solver.solve(captcha).await {
                Ok(solution) => Decision::Answer(solution),
                Err(error) => Decision::Failed(error),
            },
            // A restart with other settings can lead here, too.
            (SolvedBy::Person, _) | (SolvedBy::Solver, None) => {
                match timeout(self.shared.config.captcha.person_timeout, verdict_on(captcha, verdicts)).await {
                    Ok(Some(PersonAct::Solved)) => Decision::Person { solved: true, error: None },
                    Ok(Some(PersonAct::GiveUp)) => Decision::Person { solved: false, error: None },
                    Ok(None) | Err(_) => Decision::Person { solved: false, error: Some("nobody_came") },
                }
            }
        }
    }

    async fn carry_out(&self, captcha: &Captcha, decision: Decision) -> Ending {
        let act = async |action: CaptchaAction| self.worker.agent.act_on_captcha(captcha.id, &action).await;
        match decision {
            Decision::Ended { solved: true } => Ending::new(Outcome::Solved),
            Decision::Ended { solved: false } => Ending::new(Outcome::Gone),
            Decision::Answer(Solution { answer, cost }) => match act(CaptchaAction::Answer { answer }).await {
                Ok(()) => Ending { outcome: Outcome::Solved, error: None, cost },
                Err(error) => {
                    tracing::debug!(session = %self.facts.session_id, %error, "a page took no answer");
                    Ending { outcome: Outcome::Failed, error: Some("page_took_no_answer"), cost }
                }
            },
            Decision::Person { solved, error } => {
                let _ = act(CaptchaAction::Leave { solved }).await;
                Ending { outcome: if solved { Outcome::Solved } else { Outcome::GivenUp }, error, cost: None }
            }
            Decision::Failed(error) => {
                if error.is_operators() {
                    tracing::warn!(session = %self.facts.session_id, %error, "a challenge is not solved");
                }
                let _ = act(CaptchaAction::Leave { solved: false }).await;
                Ending { outcome: Outcome::Failed, error: Some(error.code()), cost: None }
            }
            Decision::TooMany => {
                let _ = act(CaptchaAction::Leave { solved: false }).await;
                Ending { outcome: Outcome::Failed, error: Some("too_many"), cost: None }
            }
        }
    }

    fn record_ending(&self, waiting: WaitingCaptcha, ending: Ending) {
        let Ending { outcome, error, cost } = ending;
        let WaitingCaptcha { kind, url, since, by, .. } = waiting.clone();
        let ended_at = unix_ms();
        let (session, took_ms) = (&self.facts.session_id, ended_at.saturating_sub(since));
        tracing::info!(%session, kind = kind.as_str(), by = by.as_str(), outcome = outcome.as_str(), error, cost, took_ms, "a challenge ended");
        tally(kind, by, outcome);
        if let Some(cost) = cost {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small, and not negative")]
            metrics::counter!("warmpool_captcha_cost_millionths_total").increment((cost * 1e6).round() as u64);
        }
        if by == SolvedBy::Person && error != Some("too_many") {
            let mut message = self.message(&waiting);
            message["outcome"] = outcome.as_str().into();
            message["ended_at"] = ended_at.into();
            self.notify("captcha.ended", message);
        }
        let error = error.map(str::to_owned);
        self.history.lock().add(CaptchaRecord { kind, url, since, ended_at, by, outcome, error, cost });
    }

    fn message(&self, waiting: &WaitingCaptcha) -> Value {
        let live_view = self.facts.live_view(self.shared.config.server.public_url.as_ref());
        json!({
            "session_id": self.facts.session_id, "kind": waiting.kind, "url": waiting.url, "since": waiting.since,
            "livestream_url": live_view,
        })
    }

    fn notify(&self, event: &str, data: Value) {
        if let Some(webhook) = &self.shared.webhook {
            let timestamp = jiff::Timestamp::now().to_string();
            webhook.send(&json!({"type": event, "timestamp": timestamp, "data": data}));
        }
    }
}

fn tally(kind: CaptchaKind, by: SolvedBy, outcome: Outcome) {
    let labels = [("kind", kind.as_str()), ("by", by.as_str()), ("outcome", outcome.as_str())];
    metrics::counter!("warmpool_captchas_total", &labels).increment(1);
}

/// Waits for a person's verdict on this challenge: one on a challenge that is over decides nothing. Returns none where nobody can
/// give one any more.
async fn verdict_on(captcha: &Captcha, verdicts: &mut mpsc::Receiver<Verdict>) -> Option<PersonAct> {
    loop {
        let Verdict { act, since } = verdicts.recv().await?;
        if since.is_none_or(|since| since == captcha.since) {
            return Some(act);
        }
    }
}

/// Waits until the agent says that a challenge is over; returns whether it was solved.
async fn ended(snapshot: &mut watch::Receiver<Snapshot>, id: u64) -> bool {
    let over = |snapshot: &Snapshot| {
        let newer = snapshot.captcha.as_ref().is_none_or(|captcha| captcha.id != id);
        newer || snapshot.captcha_end.is_some_and(|end| end.id == id)
    };
    let last = snapshot.wait_for(over).await.map(|last| last.captcha_end);
    match last {
        Ok(end) => end.is_some_and(|end| end.id == id && end.solved),
        // The worker is gone, and the session with it.
        Err(_) => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;
    use warmpool_config::{Config, Flags, Host};
    use warmpool_core::browser::{Engine, Mode, PoolKey};
    use warmpool_core::ids::WorkerId;
    use warmpool_protocol::Secret;
    use warmpool_runtime::AgentAddress;

    /// An agent that takes every action, and tells on which challenge it was.
    async fn agent() -> (AgentAddress, mpsc::Receiver<u64>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = AgentAddress::Tcp(listener.local_addr().unwrap());
        let (tell, acts) = mpsc::channel(9);
        tokio::spawn(async move {
            while let Ok((mut daemon, _)) = listener.accept().await {
                let mut request = Vec::new();
                while !request.ends_with(b"}") && daemon.read_buf(&mut request).await.is_ok_and(|count| count > 0) {}
                let request = String::from_utf8(request).unwrap();
                let path = request.strip_prefix("POST /captchas/").and_then(|rest| rest.split(' ').next());
                let Some(id) = path.and_then(|id| id.parse().ok()) else { continue };
                let answer = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
                daemon.write_all(answer).await.unwrap();
                tell.send(id).await.unwrap();
            }
        });
        (address, acts)
    }

    fn challenge(id: u64) -> Captcha {
        Captcha {
            id,
            kind: CaptchaKind::Image,
            url: "http://a.example/?key=secret".to_owned(),
            since: id,
            page: None,
            site_key: None,
            action: None,
            invisible: false,
            image: None,
        }
    }

    #[tokio::test]
    async fn a_verdict_on_a_challenge_that_is_over_decides_no_other() {
        let (sender, mut verdicts) = mpsc::channel(9);
        let said =
            [json!({"act": "give_up", "since": 1}), json!({"act": "solved", "since": 2}), json!({"act": "give_up"})];
        for verdict in said {
            sender.try_send(serde_json::from_value(verdict).unwrap()).unwrap();
        }
        let second = challenge(2);
        assert_eq!(verdict_on(&second, &mut verdicts).await, Some(PersonAct::Solved));
        assert_eq!(
            verdict_on(&second, &mut verdicts).await,
            Some(PersonAct::GiveUp),
            "it may say only what, not on which"
        );
    }

    #[tokio::test]
    async fn challenges_beyond_the_limit_are_recorded_once() {
        let (address, mut acts) = agent().await;
        let key = PoolKey::plain(Engine::Chromium, Mode::Headless);
        let (worker, reports) = Worker::found(WorkerId::random(), key, address.into(), &Secret::new("ab".repeat(32)));
        let host = Host { memory: 8 << 30, cores: 2, root: true, ..Host::default() };
        let flags = Flags::default().with("captcha.max_per_session", "1");
        let config = Arc::new(Config::resolve(None, [], &flags, &host).unwrap());
        let solved = CaptchaRecord {
            kind: CaptchaKind::Image,
            url: "http://a.example/".to_owned(),
            since: 0,
            ended_at: 1,
            by: SolvedBy::Person,
            outcome: Outcome::Solved,
            error: None,
            cost: None,
        };
        let history = Arc::new(Mutex::new(History::new(vec![solved], 1)));
        let monitor = CaptchaMonitor {
            shared: Arc::new(Shared { config, solver: None, webhook: None }),
            worker,
            facts: SessionFacts { session_id: "s".to_owned(), view_token: "t".to_owned() },
            history: Arc::clone(&history),
            waiting: Arc::new(watch::Sender::new(None)),
            hiding: Hiding::default(),
        };
        monitor.hiding.begin(Arc::new(|text: &str| text.replace("a.example", "[secret].example")));
        let (_acts, to_do) = mpsc::channel(1);
        let following = tokio::spawn(monitor.run(to_do));
        for id in 1..=4 {
            let captcha = Some(Box::new(challenge(id)));
            reports.show(Snapshot { captcha, ..Snapshot::default() });
            assert_eq!(acts.recv().await, Some(id), "it is left alone");
        }
        let records = history.lock().records();
        assert_eq!(records[1].url, "http://[secret].example", "no more than may be told");
        let records: Vec<_> = records.iter().map(|record| (record.since, record.error.as_deref())).collect();
        assert_eq!(records, [(0, None), (1, Some("too_many"))]);
        drop(reports);
        following.await.unwrap();
    }
}
