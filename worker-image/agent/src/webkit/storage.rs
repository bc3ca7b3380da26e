//! What WebKit keeps for sites, by the shell.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use warmpool_protocol::{Cookie, OriginStorage, SameSite, StorageQuery, StorageState};

use crate::error::ApiError;
use crate::percent;
use crate::storage::{Answer, KnownOrigins, PAGE_SCRIPT, Reading, Request, Tab, within};

use super::shell::{Commands, ShellError};
use super::{Webkit, failed};

/// How long an origin may take. The shell gives up a little before.
const ORIGIN_LIMIT: Duration = Duration::from_secs(25);

/// What of a state is not in the browser, and comes back with the next one.
#[derive(Debug, Default)]
pub(super) struct Unwritten {
    origins: KnownOrigins,
    /// Cookies of a kind that WebKit has not.
    cookies: Vec<Cookie>,
}

/// What the first view's page has in its tab's own storage.
#[derive(Debug, PartialEq)]
enum FirstTab {
    /// It is of no site.
    Nothing,
    /// Its answer, of which session storage counts.
    Told(OriginStorage),
    /// This origin did not tell, for this reason.
    Untold(String, String),
}

impl Webkit {
    /// WebKit reads all origins in a view that nobody sees.
    pub(crate) async fn read_storage(&self, query: StorageQuery) -> Result<StorageState, ApiError> {
        let commands = &self.shell()?.commands;
        let mut reading = Reading::new(query);
        reading.state.cookies = read_cookies(&commands.cookies().await.map_err(failed)?);
        reading.state.cookies.extend(self.unwritten.lock().cookies.iter().cloned());
        let first = ask_first(commands, &reading).await.map_err(failed)?;
        for origin in commands.origins().await.map_err(failed)? {
            let asked = ask(commands, &origin, reading.request(false, None));
            let answer = reading.wait(ORIGIN_LIMIT, asked).await;
            reading.take(origin, answer);
        }
        // Whatever is asked of a browser that has gone fails.
        commands.ping().await.map_err(failed)?;
        match first {
            FirstTab::Nothing => {}
            FirstTab::Told(own) => {
                if let Some(read) = reading.state.origins.iter_mut().find(|read| read.origin == own.origin) {
                    read.session_storage = own.session_storage;
                }
            }
            FirstTab::Untold(origin, reason) => reading.leave_tab_unread(origin, &reason),
        }
        Ok(reading.end(&self.unwritten.lock().origins.unwritten))
    }

    /// Puts a state into the browser. Returns what was left out.
    pub(crate) async fn write_storage(&self, state: StorageState) -> Result<Vec<String>, ApiError> {
        let commands = &self.shell()?.commands;
        let mut left_out = Vec::new();
        let (cookies, partitioned): (Vec<&Cookie>, Vec<&Cookie>) =
            state.cookies.iter().partition(|cookie| cookie.partition_key.is_none());
        if !partitioned.is_empty() {
            left_out.push(format!("{} cookies with a partitionKey: left out: WebKit has none", partitioned.len()));
        }
        *self.unwritten.lock() =
            Unwritten { cookies: partitioned.into_iter().cloned().collect(), ..Unwritten::default() };
        if !cookies.is_empty() {
            commands.set_cookies(&write_cookies(&cookies)).await.map_err(failed)?;
            // WebKit says of none that it did not take it.
            let taken = read_cookies(&commands.cookies().await.map_err(failed)?);
            left_out.extend(refused(&cookies, &taken, now()));
        }
        let mut visited_in_first = false;
        for origin in state.origins.iter().filter(|at| !at.is_empty()) {
            let tab = if origin.session_storage.is_empty() { Tab::Other } else { Tab::First };
            visited_in_first |= tab == Tab::First;
            let reasons = match ask(commands, &origin.origin, Request::Write(origin, tab)).await {
                Ok(answer) => answer.skipped,
                Err(ShellError::Gone) => return Err(failed(ShellError::Gone)),
                Err(ShellError::Refused(reason)) => vec![reason],
            };
            if !reasons.is_empty() {
                self.unwritten.lock().origins.unwritten.insert(origin.origin.clone());
                left_out.extend(within(&origin.origin, reasons));
            }
        }
        if visited_in_first {
            commands.leave().await.map_err(failed)?;
        }
        Ok(left_out)
    }
}

/// Asks the page of the first view.
async fn ask_first(commands: &Commands, reading: &Reading) -> Result<FirstTab, ShellError> {
    let request = reading.request(true, None).text().map_err(ShellError::Refused)?;
    let told = match commands.ask_first(PAGE_SCRIPT.trim_end(), &request).await {
        Ok(text) if text.is_empty() => Ok(None),
        Ok(text) => Answer::read(&text).and_then(|answer| answer.of_its_document()),
        Err(ShellError::Gone) => return Err(ShellError::Gone),
        // A page that hangs, or shows a dialog.
        Err(ShellError::Refused(reason)) => Err(reason),
    };
    let reason = match told {
        Ok(own) => return Ok(own.map_or(FirstTab::Nothing, FirstTab::Told)),
        Err(reason) => reason,
    };
    // The list begins with the page in front. Numbers go up, so the first view has the lowest.
    let pages = commands.pages().await?;
    let first = pages.iter().min_by_key(|page| page.id.parse().unwrap_or(u64::MAX));
    let origin = first.and_then(|page| crate::storage::origin(&page.url));
    Ok(origin.map_or(FirstTab::Nothing, |origin| FirstTab::Untold(origin, reason)))
}

/// Seconds since 1970.
fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

/// Sentences about the cookies that are not among those which the browser has, but for the expired ones.
fn refused(given: &[&Cookie], taken: &[Cookie], now: f64) -> Vec<String> {
    let key = |cookie: &Cookie| (cookie.name.clone(), cookie.host().to_owned(), cookie.path.clone());
    let taken: HashSet<_> = taken.iter().map(key).collect();
    let is_refused = |cookie: &&&Cookie| !taken.contains(&key(cookie)) && !(0.0..=now).contains(&cookie.expires);
    let told =
        |cookie: &&Cookie| format!("the cookie {} of {}: left out: WebKit refused it", cookie.name, cookie.domain);
    given.iter().filter(is_refused).map(told).collect()
}

async fn ask(commands: &Commands, origin: &str, request: Request<'_>) -> Result<Answer, ShellError> {
    let in_first = matches!(request, Request::Write(_, Tab::First));
    let request = request.text().map_err(ShellError::Refused)?;
    let text = commands.visit(origin, PAGE_SCRIPT.trim_end(), &request, in_first).await?;
    Answer::read(&text).map_err(ShellError::Refused)
}

/// Cookies as the shell takes them.
fn write_cookies(cookies: &[&Cookie]) -> String {
    let mut line = String::new();
    for cookie in cookies {
        let texts = [&cookie.name, &cookie.value, &cookie.domain, &cookie.path];
        for (at, text) in texts.into_iter().enumerate() {
            let separator = if at > 0 { "/" } else { " " };
            let _ = write!(line, "{separator}{}", percent::encode(text));
        }
        // Whole seconds, and a cookie of the past stays one.
        #[expect(clippy::cast_possible_truncation, reason = "no cookie lives that long")]
        let expires = if cookie.expires < 0.0 { -1 } else { cookie.expires.round() as i64 };
        let (http_only, secure) = (if cookie.http_only { "h" } else { "" }, if cookie.secure { "s" } else { "" });
        let same_site = match cookie.same_site {
            Some(SameSite::Strict) => 'S',
            Some(SameSite::Lax) => 'L',
            Some(SameSite::None) | None => 'N',
        };
        let _ = write!(line, "/{expires}/{http_only}{secure}{same_site}");
    }
    line.trim_start().to_owned()
}

/// Reads cookies as the shell writes them.
fn read_cookies(line: &str) -> Vec<Cookie> {
    line.split_ascii_whitespace().filter_map(read_cookie).collect()
}

fn read_cookie(text: &str) -> Option<Cookie> {
    let mut parts = text.split('/');
    let mut plain = || percent::decode(parts.next()?).ok();
    let (name, value, domain, path) = (plain()?, plain()?, plain()?, plain()?);
    let (expires, flags) = (parts.next()?.parse::<i64>().ok()?, parts.next()?);
    #[expect(clippy::cast_precision_loss, reason = "no cookie lives that long")]
    let expires = expires as f64;
    let same_site = match flags.chars().last()? {
        'S' => SameSite::Strict,
        'L' => SameSite::Lax,
        _ => SameSite::None,
    };
    Some(Cookie {
        name,
        value,
        domain,
        path,
        expires,
        http_only: flags.contains('h'),
        secure: flags.contains('s'),
        same_site: Some(same_site),
        partition_key: None,
        has_cross_site_ancestor: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is made of a browser with a second page in front, whose first page answers so.
    async fn first_tab(said: Result<&str, &str>) -> FirstTab {
        let (commands, mut asked) = Commands::to_nobody();
        let said =
            said.map(|text| percent::encode(text).to_string()).map_err(|reason| ShellError::Refused(reason.to_owned()));
        let browser = async move {
            let (line, answer) = asked.recv().await.unwrap();
            assert!(line.starts_with("do=ask&"), "{line}");
            answer.send(said).unwrap();
            if let Some((line, answer)) = asked.recv().await {
                assert!(line.starts_with("do=pages&"), "{line}");
                let list = "7/Front/http%3A%2F%2Ffront.example%2F 2/First/http%3A%2F%2Ffirst.example%3A8080%2Fx";
                answer.send(Ok(list.to_owned())).unwrap();
            }
        };
        let query = StorageQuery { limit: 1000, everywhere: true, time_ms: 1000 };
        let asks = async move { ask_first(&commands, &Reading::new(query)).await };
        tokio::join!(asks, browser).0.unwrap()
    }

    #[tokio::test]
    async fn what_the_first_tab_keeps_is_of_the_origin_that_it_shows() {
        let told = r#"{"at": "http://first.example:8080", "origin": {"origin": "", "sessionStorage": [{"name": "a", "value": "b"}]}}"#;
        let FirstTab::Told(own) = first_tab(Ok(told)).await else { panic!("it told") };
        assert_eq!((own.origin.as_str(), own.session_storage.len()), ("http://first.example:8080", 1));
        for nobodys in ["", r#"{"at": "null"}"#] {
            assert_eq!(first_tab(Ok(nobodys)).await, FirstTab::Nothing);
        }
        let untold = FirstTab::Untold("http://first.example:8080".to_owned(), "it took too long".to_owned());
        assert_eq!(first_tab(Err("it took too long")).await, untold);
    }

    #[test]
    fn cookies_come_back_whatever_is_in_them() {
        let cookie = |name: &str, value: &str, expires, same_site| Cookie {
            name: name.into(),
            value: value.into(),
            domain: ".example.com".into(),
            path: "/a b".into(),
            expires,
            http_only: true,
            secure: expires < 0.0,
            same_site: Some(same_site),
            partition_key: None,
            has_cross_site_ancestor: None,
        };
        let cookies = [
            cookie("a", "/ =&%\u{e9}", -1.0, SameSite::None),
            cookie("", "v", 1_900_000_000.0, SameSite::Lax),
            cookie("b", "", 0.0, SameSite::Strict),
        ];
        let all: Vec<&Cookie> = cookies.iter().collect();
        assert_eq!(read_cookies(&write_cookies(&all)), cookies);
        assert_eq!(read_cookies(""), []);
        assert_eq!(read_cookies("nonsense a/b/c"), []);
    }
}
