//! A paid service that solves challenges, by `createTask` and `getTaskResult`, which 2Captcha, Anti-Captcha and CapSolver
//! have in common.

use std::time::Duration;

use http::HeaderMap;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};
use url::Url;
use warmpool_protocol::{Captcha, CaptchaKind};

use super::client::{Client, RequestError};
use warmpool_config::{CaptchaSettings, SolverService};
use warmpool_core::secret::Secret;

/// The score to ask for where a site wants one.
const MIN_SCORE: f64 = 0.7;
/// The longest answer, in bytes.
const MAX_ANSWER: usize = 16 << 10;
/// The longest error code that is passed on.
const MAX_CODE: usize = 64;

/// The service.
#[derive(Debug)]
pub(super) struct Solver {
    client: Client,
    url: Url,
    service: SolverService,
    key: Secret,
    /// Time for one challenge.
    limit: Duration,
    /// Time between two polls of a task.
    interval: Duration,
}

/// An answer.
#[derive(Debug, PartialEq)]
pub(super) struct Solution {
    /// The token, or the characters of the picture.
    pub answer: String,
    /// What it cost, in the service's currency.
    pub cost: Option<f64>,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum SolverError {
    #[error("the solver cannot be reached: {0}")]
    Unreachable(RequestError),
    #[error("the solver does not know the key: see `captcha.solver_key_file`")]
    Key,
    #[error("the solver's account has no money left")]
    Balance,
    #[error("the solver could not solve it")]
    Unsolvable,
    #[error("the solver refused: {0}")]
    Refused(String),
    #[error("the solver's answer makes no sense")]
    Garbage,
    #[error("the solver was not done in time (`captcha.solver_timeout`)")]
    Slow,
    #[error("the challenge cannot be given to a solver: {0}")]
    Unreadable(&'static str),
}

impl SolverError {
    /// The short name in records and metrics.
    pub(super) const fn code(&self) -> &'static str {
        match self {
            Self::Unreachable(_) => "solver_unreachable",
            Self::Key => "solver_key",
            Self::Balance => "solver_balance",
            Self::Unsolvable => "unsolvable",
            Self::Refused(_) => "solver_refused",
            Self::Garbage => "solver_garbage",
            Self::Slow => "solver_slow",
            Self::Unreadable(_) => "unreadable",
        }
    }

    /// Whether every challenge will fail this way until the operator does something.
    pub(super) const fn is_operators(&self) -> bool {
        matches!(self, Self::Key | Self::Balance | Self::Unreachable(_) | Self::Garbage)
    }
}

/// Either answer of the service.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Reply {
    error_id: i64,
    #[serde(default)]
    error_code: Option<String>,
    /// Some services send a number, others a text.
    #[serde(default)]
    task_id: Value,
    #[serde(default)]
    status: Option<String>,
    #[serde(default)]
    solution: Value,
    #[serde(default)]
    cost: Value,
}

impl Reply {
    /// The solution, once there is one.
    fn solution(&self) -> Result<Option<Solution>, SolverError> {
        if self.status.as_deref() != Some("ready") {
            return Ok(None);
        }
        let answer = ["gRecaptchaResponse", "token", "text"].iter().find_map(|name| self.solution[name].as_str());
        let answer = answer.filter(|answer| (1..=MAX_ANSWER).contains(&answer.len())).ok_or(SolverError::Garbage)?;
        let cost = self.cost.as_f64().or_else(|| self.cost.as_str()?.parse().ok());
        Ok(Some(Solution { answer: answer.to_owned(), cost: cost.filter(|cost| cost.is_finite() && *cost >= 0.0) }))
    }

    /// Whether the service will accept the same request later.
    fn is_busy(&self) -> bool {
        matches!(
            self.error_code.as_deref(),
            Some("ERROR_NO_SLOT_AVAILABLE" | "ERROR_SERVICE_UNAVALIABLE" | "ERROR_RATE_LIMIT")
        )
    }

    fn error(&self) -> SolverError {
        match self.error_code.as_deref().unwrap_or_default() {
            "ERROR_KEY_DOES_NOT_EXIST" | "ERROR_WRONG_USER_KEY" | "ERROR_KEY_DENIED_ACCESS" => SolverError::Key,
            "ERROR_ZERO_BALANCE" => SolverError::Balance,
            "ERROR_CAPTCHA_UNSOLVABLE" | "ERROR_CAPTCHA_SOLVE_FAILED" => SolverError::Unsolvable,
            code => {
                let plain = |c: &char| c.is_ascii_alphanumeric() || *c == '_';
                SolverError::Refused(code.chars().filter(plain).take(MAX_CODE).collect())
            }
        }
    }
}

impl Solver {
    pub(super) fn new(client: Client, url: Url, key: Secret, settings: &CaptchaSettings) -> Self {
        Self {
            client,
            url,
            service: settings.solver_service,
            key,
            limit: settings.solver_timeout,
            interval: settings.solver_interval,
        }
    }

    /// Gets a challenge solved.
    pub(super) async fn solve(&self, captcha: &Captcha) -> Result<Solution, SolverError> {
        let task = task(self.service, captcha)?;
        timeout(self.limit, self.ask(task)).await.map_err(|_| SolverError::Slow)?
    }

    async fn ask(&self, task: Value) -> Result<Solution, SolverError> {
        let created = loop {
            let reply = self.call("createTask", json!({"clientKey": self.key.expose(), "task": task})).await?;
            if !reply.is_busy() {
                break reply;
            }
            sleep(self.interval).await;
        };
        // Some services read a picture at once.
        if let Some(solution) = checked(&created)? {
            return Ok(solution);
        }
        if !(created.task_id.is_number() || created.task_id.is_string()) {
            return Err(SolverError::Garbage);
        }
        loop {
            sleep(self.interval).await;
            let question = json!({"clientKey": self.key.expose(), "taskId": created.task_id});
            if let Some(solution) = checked(&self.call("getTaskResult", question).await?)? {
                return Ok(solution);
            }
        }
    }

    /// Services refuse with all kinds of status, so only the body counts.
    async fn call(&self, method: &str, body: Value) -> Result<Reply, SolverError> {
        let mut url = self.url.clone();
        url.path_segments_mut().map_err(|()| SolverError::Garbage)?.pop_if_empty().push(method);
        let (_, answer) = self
            .client
            .post(&url, HeaderMap::new(), body.to_string().into())
            .await
            .map_err(SolverError::Unreachable)?;
        serde_json::from_slice(&answer).map_err(|_| SolverError::Garbage)
    }
}

fn checked(reply: &Reply) -> Result<Option<Solution>, SolverError> {
    if reply.error_id == 0 { reply.solution() } else { Err(reply.error()) }
}

/// The task for a challenge, in the service's own terms. All services solve from their own addresses, not through a proxy.
fn task(service: SolverService, captcha: &Captcha) -> Result<Value, SolverError> {
    let capsolver = service == SolverService::CapSolver;
    if captcha.kind == CaptchaKind::Image {
        let body =
            captcha.image.as_ref().ok_or(SolverError::Unreadable("its picture is another site's, or too large"))?;
        return Ok(json!({"type": "ImageToTextTask", "body": body}));
    }
    let site_key = captcha.site_key.as_ref().ok_or(SolverError::Unreadable("the page does not show the site's key"))?;
    let mut task = json!({"websiteURL": captcha.url, "websiteKey": site_key});
    let (plain, own) = match captcha.kind {
        CaptchaKind::RecaptchaV2 => ("RecaptchaV2TaskProxyless", "ReCaptchaV2TaskProxyLess"),
        CaptchaKind::RecaptchaV3 => ("RecaptchaV3TaskProxyless", "ReCaptchaV3TaskProxyLess"),
        CaptchaKind::Hcaptcha => ("HCaptchaTaskProxyless", "HCaptchaTaskProxyLess"),
        CaptchaKind::Turnstile | CaptchaKind::Image => ("TurnstileTaskProxyless", "AntiTurnstileTaskProxyLess"),
    };
    task["type"] = if capsolver { own } else { plain }.into();
    match captcha.kind {
        CaptchaKind::RecaptchaV3 => {
            task["minScore"] = MIN_SCORE.into();
            if let Some(action) = &captcha.action {
                task["pageAction"] = action.as_str().into();
            }
        }
        CaptchaKind::Turnstile => match &captcha.action {
            Some(action) if capsolver => task["metadata"] = json!({"action": action}),
            Some(action) => task["action"] = action.as_str().into(),
            None => {}
        },
        CaptchaKind::RecaptchaV2 | CaptchaKind::Hcaptcha if captcha.invisible => task["isInvisible"] = true.into(),
        CaptchaKind::RecaptchaV2 | CaptchaKind::Hcaptcha | CaptchaKind::Image => {}
    }
    Ok(task)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn captcha(kind: CaptchaKind) -> Captcha {
        Captcha {
            id: 1,
            kind,
            url: "https://a.example/".to_owned(),
            since: 0,
            page: None,
            site_key: Some("site".to_owned()),
            action: Some("login".to_owned()),
            invisible: true,
            image: None,
        }
    }

    #[test]
    fn each_service_gets_its_own_words() {
        let task = |service, kind| task(service, &captcha(kind)).unwrap();
        let two = task(SolverService::TwoCaptcha, CaptchaKind::RecaptchaV2);
        assert_eq!((&two["type"], &two["isInvisible"]), (&"RecaptchaV2TaskProxyless".into(), &true.into()));
        let cap = task(SolverService::CapSolver, CaptchaKind::Turnstile);
        assert_eq!((&cap["type"], &cap["metadata"]["action"]), (&"AntiTurnstileTaskProxyLess".into(), &"login".into()));
        let anti = task(SolverService::AntiCaptcha, CaptchaKind::RecaptchaV3);
        assert_eq!((&anti["pageAction"], &anti["websiteKey"]), (&"login".into(), &"site".into()));
        let image = super::task(SolverService::TwoCaptcha, &captcha(CaptchaKind::Image));
        assert_eq!(image.unwrap_err().code(), "unreadable");
    }

    #[test]
    fn answers_are_distinguished() {
        let read = |reply: Value| checked(&serde_json::from_value(reply).unwrap());
        let ready = json!({"errorId": 0, "status": "ready", "solution": {"token": "t"}, "cost": "0.00145"});
        assert_eq!(read(ready).unwrap(), Some(Solution { answer: "t".to_owned(), cost: Some(0.001_45) }));
        assert_eq!(read(json!({"errorId": 0, "status": "processing"})).unwrap(), None);
        for (reply, code) in [
            (json!({"errorId": 1, "errorCode": "ERROR_KEY_DOES_NOT_EXIST"}), "solver_key"),
            (json!({"errorId": 10, "errorCode": "ERROR_ZERO_BALANCE"}), "solver_balance"),
            (json!({"errorId": 12, "errorCode": "ERROR_CAPTCHA_UNSOLVABLE"}), "unsolvable"),
            (json!({"errorId": 1, "errorCode": "ERROR_\n<b>"}), "solver_refused"),
            (json!({"errorId": 1}), "solver_refused"),
            (json!({"errorId": 0, "status": "ready", "solution": {}}), "solver_garbage"),
            (json!({"errorId": 0, "status": "ready", "solution": {"token": "x".repeat(20_000)}}), "solver_garbage"),
        ] {
            assert_eq!(read(reply.clone()).unwrap_err().code(), code, "{reply}");
        }
    }
}
