//! The browser: a program of our own around WebKitGTK that takes one command a line and answers each with a line.

use std::fmt::Write as _;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe;
use tokio::sync::{mpsc, oneshot, watch};
use warmpool_protocol::{EGRESS_PORT, Geolocation, LogLine, MAX_PAGES, MAX_TEXT, Page, PageAction, Settings, Size};

use crate::display::Display;
use crate::domain::Domain;
use crate::error::BootError;
use crate::lines::{Line, Lines};
use crate::log::{self, Log};
use crate::percent;
use crate::ports;
use crate::program::Program;
use crate::worker::Worker;

use super::inspector::INSPECTOR;

/// The program's name in messages.
const PROGRAM: &str = "warmpool-webkit";
/// How long it may take until its first page has painted.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// Commands that may wait for their turn.
const COMMANDS: usize = 16;
/// The longest line that it may write, in bytes: what an origin of eight million bytes has stored takes eight times as many at worst.
const MAX_LINE: usize = 256 << 20;
/// Messages of documents that may wait to be read.
const MESSAGES: usize = 64;

/// What begins the line that it writes, unasked, when a document sends something.
const MESSAGE: &str = "captchas";

/// The line it writes, unasked, once the page of the last `do=open` has loaded or failed.
const OPENED: &str = "opened";

/// What begins the line that it writes, unasked, when a download begins.
const DOWNLOAD: &str = "download";

/// The answer to settings with a time zone that WebKit does not know.
const UNKNOWN: &str = "unknown";

/// The answer to an action on a page that does not exist.
const NO_PAGE: &str = "none";

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum ShellError {
    /// The browser has ended.
    #[error("the browser is gone")]
    Gone,
    /// The browser refused.
    #[error("the browser refused: {0}")]
    Refused(String),
}

/// How a warm browser introduces itself.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct WarmBrowser {
    /// Version of the library.
    pub(super) version: String,
    /// User agent of its pages.
    pub(super) user_agent: String,
}

/// What a document sent. It waits for an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Message {
    /// Names it in the answer.
    pub(super) number: u64,
    pub(super) text: String,
}

pub(super) type Answer = oneshot::Sender<Result<String, ShellError>>;

/// A running browser.
pub(super) struct Shell {
    pub(super) program: Program,
    pub(super) commands: Commands,
    /// Why the page that was opened did not load; empty when it did.
    opened: watch::Receiver<Option<String>>,
    /// What documents send, for whoever takes it.
    messages: Mutex<Option<mpsc::Receiver<Message>>>,
}

/// What the browser can be told. Clones share its attention.
#[derive(Clone)]
pub(super) struct Commands(mpsc::Sender<(String, Answer)>);

impl Shell {
    /// Starts the browser on that display, with a folder for what it keeps for sites.
    pub(super) fn start(worker: &Worker, display: &Display, profile: &Path) -> Result<Self, BootError> {
        let start = |source| BootError::Start { program: PROGRAM, source };
        let size = worker.claim.page;
        let mut command = Command::new(Domain::Webkit.program());
        // The browser connects to its own inspector. Another process makes the requests of pages.
        ports::hide_and_connect(&mut command)
            .arg("--home")
            .arg(profile)
            .arg("--downloads")
            .arg(worker.files.downloads())
            .arg(format!("--egress=socks5://127.0.0.1:{EGRESS_PORT}"))
            .args(["--width", &size.width.to_string(), "--height", &size.height.to_string()])
            .env("DISPLAY", &display.name)
            .env("WEBKIT_INSPECTOR_SERVER", INSPECTOR.authority())
            // There is no desktop environment.
            .envs([("LC_ALL", "C.UTF-8"), ("NO_AT_BRIDGE", "1"), ("GSETTINGS_BACKEND", "memory")])
            .envs([("GTK_USE_PORTAL", "0"), ("GIO_USE_VFS", "local"), ("GTK_CSD", "0")]);
        let (program, mut child) = Program::converse(&worker.processes, Domain::Webkit, PROGRAM, &mut command)?;
        let broken = || start(std::io::ErrorKind::BrokenPipe.into());
        let input = OwnedFd::from(child.stdin.take().ok_or_else(broken)?);
        let output = OwnedFd::from(child.stdout.take().ok_or_else(broken)?);
        let input = pipe::Sender::from_owned_fd(input).map_err(start)?;
        let output = pipe::Receiver::from_owned_fd(output).map_err(start)?;
        let (commands, queue) = mpsc::channel(COMMANDS);
        let (sender, opened) = watch::channel(None);
        let (send, messages) = mpsc::channel(MESSAGES);
        tokio::spawn(converse(
            queue,
            input,
            Lines::new(output, MAX_LINE),
            Unasked { opened: sender, messages: send, log: Arc::clone(&worker.log) },
        ));
        Ok(Self { program, commands: Commands(commands), opened, messages: Mutex::new(Some(messages)) })
    }

    /// Waits until its first page runs scripts and has painted.
    pub(super) async fn warm_up(&self) -> Result<WarmBrowser, BootError> {
        let asked = async {
            match self.commands.ask("do=warm".to_owned()).await {
                Err(ShellError::Gone) => Err(self.program.ended().await),
                answer => answer.map_err(|error| BootError::Undriveable(error.to_string())),
            }
        };
        let answer = self.program.until(START_TIMEOUT, asked).await?;
        let (version, user_agent) =
            answer.split_once(' ').ok_or_else(|| BootError::Undriveable("the browser reported no version".into()))?;
        Ok(WarmBrowser { version: version.to_owned(), user_agent: user_agent.to_owned() })
    }

    /// Sends the first page to an address. Returns why it did not load, if it did not.
    pub(super) async fn open(&self, url: &str) -> Result<Option<String>, ShellError> {
        self.commands.ask(command("open", &[("url", url)])).await?;
        let mut opened = self.opened.clone();
        let reason = opened.wait_for(Option::is_some).await.map_err(|_| ShellError::Gone)?;
        Ok(reason.clone().filter(|reason| !reason.is_empty()))
    }

    /// A browser that a test plays.
    #[cfg(test)]
    pub(super) fn of_tests(program: Program) -> (Self, mpsc::Receiver<(String, Answer)>) {
        let (commands, asked) = Commands::to_nobody();
        (Self { program, commands, opened: watch::channel(None).1, messages: Mutex::default() }, asked)
    }

    /// What documents send from now on; nothing to a second caller.
    pub(super) fn messages(&self) -> Option<mpsc::Receiver<Message>> {
        self.messages.lock().take()
    }
}

impl Commands {
    /// Applies settings to all pages, present and future; `false` when WebKit does not know the time zone.
    pub(super) async fn apply(&self, settings: &Settings) -> Result<bool, ShellError> {
        Ok(self.ask(settings_command(settings)).await? != UNKNOWN)
    }

    /// Has all pages follow content rules: those of a file, or those that the folder has compiled.
    pub(super) async fn block(&self, folder: &Path, rules: Option<&Path>) -> Result<(), ShellError> {
        let (folder, rules) = (folder.to_string_lossy(), rules.map(Path::to_string_lossy));
        let mut members = vec![("folder", &*folder)];
        members.extend(rules.as_deref().map(|rules| ("rules", rules)));
        self.ask(command("block", &members)).await.map(drop)
    }

    /// Has later documents run these scripts. The first one can send messages.
    pub(super) async fn watch_captchas(&self, document: &str, page: &str) -> Result<(), ShellError> {
        self.ask(command("captchas", &[("document", document), ("page", page)])).await.map(drop)
    }

    /// Answers a document's message.
    pub(super) async fn reply(&self, number: u64, text: &str) -> Result<(), ShellError> {
        self.ask(command("reply", &[("number", &number.to_string()), ("text", text)])).await.map(drop)
    }

    /// Its pages, the one in front first.
    pub(super) async fn pages(&self) -> Result<Vec<Page>, ShellError> {
        let line = command("pages", &[("most", &MAX_PAGES.to_string()), ("longest", &MAX_TEXT.to_string())]);
        let answer = self.ask(line).await?;
        pages(&answer).ok_or_else(|| ShellError::Refused("its list of pages makes no sense".to_owned()))
    }

    /// Does something to a page; `false` when there is no such page.
    pub(super) async fn act(&self, page: &str, action: &PageAction) -> Result<bool, ShellError> {
        let (verb, url) = action.parts();
        let members = [("page", Some(page)), ("act", Some(verb)), ("url", url)];
        let members: Vec<_> = members.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
        Ok(self.ask(command("act", &members)).await? != NO_PAGE)
    }

    /// Waits until its pages have painted what scripts have changed.
    pub(super) async fn paint(&self) -> Result<(), ShellError> {
        self.ask("do=paint".to_owned()).await.map(drop)
    }

    /// Cookies of all sites, each as `name/value/domain/path/expires/flags`.
    pub(super) async fn cookies(&self) -> Result<String, ShellError> {
        self.ask("do=cookies".to_owned()).await
    }

    /// Sets cookies, written in the same way.
    pub(super) async fn set_cookies(&self, cookies: &str) -> Result<(), ShellError> {
        self.ask(command("set_cookies", &[("cookies", cookies)])).await.map(drop)
    }

    /// Origins that may have stored something.
    pub(super) async fn origins(&self) -> Result<Vec<String>, ShellError> {
        let answer = self.ask("do=origins".to_owned()).await?;
        Ok(answer.split_ascii_whitespace().filter_map(|origin| percent::decode(origin).ok()).collect())
    }

    /// What a function makes of a text in a document of that origin: in a view that nobody sees, or in the first one.
    pub(super) async fn visit(
        &self,
        origin: &str,
        script: &str,
        argument: &str,
        in_first: bool,
    ) -> Result<String, ShellError> {
        let mut members = vec![("origin", origin), ("script", script), ("argument", argument)];
        members.extend(in_first.then_some(("first", "1")));
        self.ask(command("visit", &members)).await.and_then(|answer| decoded(&answer))
    }

    /// The same in the page that the first view shows; empty where that is none of the web.
    pub(super) async fn ask_first(&self, script: &str, argument: &str) -> Result<String, ShellError> {
        let line = command("ask", &[("script", script), ("argument", argument)]);
        self.ask(line).await.and_then(|answer| decoded(&answer))
    }

    /// Makes the first page blank again.
    pub(super) async fn leave(&self) -> Result<(), ShellError> {
        self.ask("do=leave".to_owned()).await.map(drop)
    }

    /// Ends the browser.
    pub(super) async fn quit(&self) -> Result<(), ShellError> {
        self.ask("do=quit".to_owned()).await.map(drop)
    }

    /// Waits for a sign of life.
    pub(super) async fn ping(&self) -> Result<(), ShellError> {
        self.ask("do=ping".to_owned()).await.map(drop)
    }

    /// Commands that a test answers.
    #[cfg(test)]
    pub(super) fn to_nobody() -> (Self, mpsc::Receiver<(String, Answer)>) {
        let (sender, receiver) = mpsc::channel(COMMANDS);
        (Self(sender), receiver)
    }

    async fn ask(&self, line: String) -> Result<String, ShellError> {
        let (sender, answer) = oneshot::channel();
        self.0.send((line, sender)).await.map_err(|_| ShellError::Gone)?;
        answer.await.map_err(|_| ShellError::Gone)?
    }
}

/// Writes one command after the other and reads what is answered. A caller who leaves does not disturb the order.
async fn converse(
    mut queue: mpsc::Receiver<(String, Answer)>,
    mut input: pipe::Sender,
    mut lines: Lines<pipe::Receiver>,
    unasked: Unasked,
) {
    let mut asker: Option<Answer> = None;
    loop {
        tokio::select! {
            command = queue.recv(), if asker.is_none() => {
                let Some((line, answer)) = command else { return };
                if input.write_all(format!("{line}\n").as_bytes()).await.is_err() {
                    return;
                }
                asker = Some(answer);
            }
            line = lines.next() => {
                // Nobody knows whose answer it was that is too long.
                let Some(Line::Text(line)) = line else { return };
                let (word, rest) = line.split_once(' ').unwrap_or((&line, ""));
                if unasked.take(word, rest).await {
                    continue;
                }
                let answer = if word == "ok" { Ok(rest.to_owned()) } else { Err(ShellError::Refused(rest.to_owned())) };
                if let Some(asker) = asker.take() {
                    let _ = asker.send(answer);
                }
            }
        }
    }
}

/// Where lines go that answer nothing.
struct Unasked {
    opened: watch::Sender<Option<String>>,
    messages: mpsc::Sender<Message>,
    log: Arc<Log>,
}

impl Unasked {
    /// Passes such a line on; `false` when it is an answer.
    async fn take(&self, word: &str, rest: &str) -> bool {
        match word {
            OPENED => {
                self.opened.send_replace(Some(rest.to_owned()));
            }
            MESSAGE => {
                if let Some(message) = message(rest) {
                    let _ = self.messages.send(message).await;
                }
            }
            DOWNLOAD => self.log.write(&download(rest)),
            _ => return false,
        }
        true
    }
}

fn decoded(answer: &str) -> Result<String, ShellError> {
    percent::decode(answer).map_err(|_| ShellError::Refused("its answer makes no sense".to_owned()))
}

/// Reads a number and a text, percent-encoded.
fn message(rest: &str) -> Option<Message> {
    let (number, text) = rest.split_once(' ')?;
    Some(Message { number: number.parse().ok()?, text: percent::decode(text).ok()? })
}

/// Reads the name and the address of a download, percent-encoded.
fn download(rest: &str) -> LogLine {
    let (name, url) = rest.split_once(' ').unwrap_or((rest, ""));
    let text = |part| percent::decode(part).ok().filter(|text| !text.is_empty());
    LogLine::Download { time: log::now(), name: text(name).unwrap_or_default(), url: text(url) }
}

/// Reads `id/title/address` of each page, percent-encoded, with spaces between the pages.
fn pages(answer: &str) -> Option<Vec<Page>> {
    let page = |text: &str| {
        let mut parts = text.split('/').map(|part| percent::decode(part).ok());
        let page = Page { id: parts.next()??, title: parts.next()??, url: parts.next()?? };
        parts.next().is_none().then_some(page)
    };
    answer.split_ascii_whitespace().map(page).collect()
}

fn settings_command(settings: &Settings) -> String {
    let locales = settings.locales.join(",");
    let side = |side: fn(Size) -> u32| settings.viewport.map(side).map(|side| side.to_string());
    let (width, height) = (side(|size| size.width), side(|size| size.height));
    let permissions: Vec<_> = settings.permissions.iter().map(|permission| permission.as_str()).collect();
    let permissions = permissions.join(",");
    let degrees = |member: fn(Geolocation) -> f64| settings.geolocation.map(|place| member(place).to_string());
    let (latitude, longitude) = (degrees(|place| place.latitude), degrees(|place| place.longitude));
    let accuracy = degrees(|place| place.accuracy);
    let flag = |is_set: bool| if is_set { "1" } else { "0" };
    let members = [
        ("timezone", settings.timezone.as_deref()),
        ("locales", Some(locales.as_str()).filter(|locales| !locales.is_empty())),
        ("user_agent", settings.user_agent.as_deref()),
        ("dark", settings.color_scheme.map(|scheme| flag(scheme.is_dark()))),
        ("reduced", settings.reduced_motion.map(|motion| flag(motion.is_reduced()))),
        ("permissions", Some(permissions.as_str()).filter(|permissions| !permissions.is_empty())),
        ("latitude", latitude.as_deref()),
        ("longitude", longitude.as_deref()),
        ("accuracy", accuracy.as_deref()),
        ("width", width.as_deref()),
        ("height", height.as_deref()),
    ];
    let members: Vec<_> = members.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
    command("settings", &members)
}

/// A command as the query of a URL.
fn command(verb: &str, members: &[(&str, &str)]) -> String {
    let mut line = format!("do={verb}");
    for (name, value) in members {
        let _ = write!(line, "&{name}={}", percent::encode(value));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use warmpool_protocol::{ColorScheme, Permission, ReducedMotion};

    #[test]
    fn no_argument_ends_a_command() {
        let url = "https://a.example/?q=1&do=ping#\n é";
        assert_eq!(
            command("open", &[("url", url)]),
            "do=open&url=https%3A%2F%2Fa%2Eexample%2F%3Fq%3D1%26do%3Dping%23%0A%20%C3%A9"
        );
    }

    #[test]
    fn only_present_settings_are_sent() {
        assert_eq!(settings_command(&Settings::default()), "do=settings");
        let settings = Settings {
            locales: vec!["de-CH".into(), "en".into()],
            user_agent: Some("Me/1".into()),
            viewport: Some(Size { width: 800, height: 600 }),
            timezone: Some("Asia/Tokyo".into()),
            color_scheme: Some(ColorScheme::Dark),
            reduced_motion: Some(ReducedMotion::NoPreference),
            geolocation: Some(Geolocation { latitude: -33.5, longitude: 151.25, accuracy: 10.0 }),
            permissions: vec![Permission::Geolocation, Permission::ClipboardRead],
        };
        let wanted = "do=settings&timezone=Asia%2FTokyo&locales=de%2DCH%2Cen&user_agent=Me%2F1&dark=1&reduced=0&permissions=geolocation%2Cclipboard%2Dread&latitude=%2D33%2E5&longitude=151%2E25&accuracy=10&width=800&height=600";
        assert_eq!(settings_command(&settings), wanted);
    }

    #[test]
    fn pages_are_distinct_whatever_their_titles() {
        let page = |id: &str, title: &str, url: &str| Page { id: id.into(), title: title.into(), url: url.into() };
        assert_eq!(
            pages("7/A%20%2F%20b%0A%C3%A9/http%3A%2F%2Fa%2F%3Fx%3D%25 2//about%3Ablank").unwrap(),
            [page("7", "A / b\n\u{e9}", "http://a/?x=%"), page("2", "", "about:blank")]
        );
        assert_eq!(pages("").unwrap(), []);
        for wrong in ["7", "7/a", "7/a/b/c", "7/%/b"] {
            assert_eq!(pages(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_download_has_a_name_and_perhaps_an_address() {
        for (rest, url) in [("a%20b.txt http%3A%2F%2Fa%2F", Some("http://a/")), ("a%20b.txt ", None)] {
            let LogLine::Download { name, url: from, .. } = download(rest) else { panic!("{rest}") };
            assert_eq!((name.as_str(), from.as_deref()), ("a b.txt", url));
        }
    }

    #[tokio::test]
    async fn each_caller_gets_its_answer_even_when_an_earlier_one_left() {
        let (input, commands) = pipe::pipe().unwrap();
        let (mut said, output) = pipe::pipe().unwrap();
        let (sender, queue) = mpsc::channel(4);
        let (opened, mut told) = watch::channel(None);
        let (messages, mut sent) = mpsc::channel(MESSAGES);
        let unasked = Unasked { opened, messages, log: Arc::default() };
        tokio::spawn(converse(queue, input, Lines::new(output, MAX_LINE), unasked));
        let (first, left) = oneshot::channel();
        drop(left);
        let (second, answer) = oneshot::channel();
        sender.send(("do=warm".into(), first)).await.unwrap();
        sender.send(("do=ping".into(), second)).await.unwrap();
        let mut lines = Lines::new(commands, MAX_LINE);
        assert_eq!(lines.next().await, Some(Line::Text("do=warm".to_owned())));
        said.write_all(b"ok 2.50 UA\nopened no such host\n").await.unwrap();
        assert_eq!(lines.next().await, Some(Line::Text("do=ping".to_owned())));
        said.write_all(b"captchas 7 %7B%22gone%22%3A%201%7D\nfailed no page\n").await.unwrap();
        assert!(matches!(answer.await.unwrap(), Err(ShellError::Refused(reason)) if reason == "no page"));
        assert_eq!(told.wait_for(Option::is_some).await.unwrap().as_deref(), Some("no such host"));
        assert_eq!(sent.recv().await, Some(Message { number: 7, text: "{\"gone\": 1}".to_owned() }));
    }

    #[tokio::test]
    async fn an_answer_without_an_end_is_no_answer() {
        let (input, _commands) = pipe::pipe().unwrap();
        let (mut said, output) = pipe::pipe().unwrap();
        let (sender, queue) = mpsc::channel(4);
        let (messages, _sent) = mpsc::channel(MESSAGES);
        let unasked = Unasked { opened: watch::channel(None).0, messages, log: Arc::default() };
        tokio::spawn(converse(queue, input, Lines::new(output, 1 << 20), unasked));
        let asked = Commands(sender);
        let says = async move {
            // The other end is closed before all of it is read.
            let _ = said.write_all(&vec![b'x'; 2 << 20]).await;
            std::future::pending::<()>().await;
        };
        tokio::spawn(says);
        assert!(matches!(asked.ping().await, Err(ShellError::Gone)));
    }
}
