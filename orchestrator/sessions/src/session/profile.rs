//! A session's profile: what its browser began with, and what is saved of it while it lives and when it ends.

use std::collections::{HashMap, HashSet};
use std::io;
use std::time::Duration;

use futures_util::TryStreamExt as _;
use http::StatusCode;
use http_body_util::BodyExt as _;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_util::io::StreamReader;
use warmpool_protocol::StorageState;
use warmpool_protocol::folder::FolderQuery;

use super::{Ending, Origins, READ_TIME, Session, Sessions};
use crate::Error;
use warmpool_api::session::SessionProfile as View;
use warmpool_config::ProfileSettings;
use warmpool_core::browser::Engine;
use warmpool_core::clock::unix_ms;
use warmpool_keys::KeyId;
use warmpool_profiles::{ProfileChoice, ProfileKind, Profiles, Writer};
use warmpool_workers::worker::{AgentError, Health, LossReason};

/// The profile that a live session writes.
#[derive(Debug)]
pub(crate) struct SessionProfile {
    /// The right to write, until the session has ended; held while it is used, so that one save comes after another.
    writer: tokio::sync::Mutex<Option<Writer>>,
    kind: ProfileKind,
    /// The largest origin that is read, or the largest folder, in bytes.
    limit: u64,
    /// How long one save may take.
    time: Duration,
    /// That a person has done something which they may want to have saved.
    touched: Notify,
    saved: Mutex<Saved>,
}

/// How the saves of a session went.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Saved {
    /// When the last good one was, in Unix milliseconds.
    pub(crate) at_ms: Option<u64>,
    /// Why the last one failed, or did not save all, if it did.
    pub(crate) error: Option<String>,
    /// When the last one ended, good or not, in Unix milliseconds.
    tried_ms: Option<u64>,
}

impl SessionProfile {
    pub(super) fn new(writer: Writer, kind: ProfileKind, limits: &ProfileSettings) -> Self {
        let limit = match kind {
            ProfileKind::State => limits.max_size,
            ProfileKind::Folder => limits.max_folder,
        };
        // The daemon may have been another when it was saved.
        let saved = Saved { at_ms: writer.saved_ms(), ..Saved::default() };
        let writer = tokio::sync::Mutex::new(Some(writer));
        let (limit, time) = (limit.bytes(), limits.save_timeout);
        Self { writer, kind, limit, time, touched: Notify::new(), saved: Mutex::new(saved) }
    }

    /// Notes how a save went; one that saved a part names what it left out.
    pub(super) fn note(&self, outcome: Result<Option<String>, String>) {
        let (mut saved, now) = (self.saved.lock(), Some(unix_ms()));
        *saved = match outcome {
            Ok(left_out) => Saved { at_ms: now, error: left_out, tried_ms: now },
            Err(reason) => Saved { at_ms: saved.at_ms, error: Some(reason), tried_ms: now },
        };
    }
}

/// What lists show of a profile.
pub(super) fn view(choice: &ProfileChoice, saved: &Saved) -> View {
    View {
        name: choice.name.clone(),
        is_written: choice.is_written(),
        saved_at: saved.at_ms,
        error: saved.error.clone(),
    }
}

impl Session {
    /// How the saves of its profile went so far.
    pub(super) fn saved(&self) -> Saved {
        self.profile.as_ref().map(|profile| profile.saved.lock().clone()).unwrap_or_default()
    }

    /// Whether it saves a profile while its browser runs. The files of a folder are whole only once it has ended.
    pub(crate) fn saves_while_running(&self) -> bool {
        self.profile.as_ref().is_some_and(|profile| profile.kind == ProfileKind::State)
    }

    /// Saves its profile, if it writes one: of these origins, and of the others what was saved before. A failure is noted, and the
    /// version before stays.
    pub(crate) async fn save_profile(&self, origins: Origins) {
        let Some(profile) = &self.profile else { return };
        let writer = profile.writer.lock().await;
        // A client's last command may come when the session has ended, and been saved.
        let Some(writer) = &*writer else { return };
        let saved = match profile.kind {
            // The rest of the time is for writing.
            ProfileKind::State => self.save(writer, profile.limit, profile.time * 3 / 4, origins).await,
            ProfileKind::Folder => self.save_folder(writer, profile.limit).await.map(|()| None),
        };
        if let Err(error) = &saved {
            tracing::warn!(session = %self.id, %error, "a profile was not saved");
        }
        profile.note(saved.map_err(|error| error.to_string()));
    }

    /// Saves its profile before a window is closed, because closing the last one may end the browser.
    pub(crate) async fn save_before_close(&self) {
        let Some(profile) = self.profile.as_ref().filter(|_| self.saves_while_running()) else { return };
        if timeout(profile.time, self.save_profile(Origins::Shown)).await.is_err() {
            profile.note(Err(too_slow(profile.time)));
        }
    }

    /// Has its profile saved soon: a person has done something in the browser, and may close its last tab by hand.
    pub(crate) fn save_soon(&self) {
        if let Some(profile) = &self.profile {
            profile.touched.notify_one();
        }
    }

    /// Returns the right to write its profile, so that a viewer of the ended session does not keep it from others. A save that is
    /// under way keeps it until the session is dropped.
    pub(super) fn release_profile(&self) {
        if let Some(mut writer) = self.profile.as_ref().and_then(|profile| profile.writer.try_lock().ok()) {
            writer.take();
        }
    }

    /// Saves what the browser keeps as the newest version of a profile, which need not be the one that it began with. Returns what
    /// was not read of it, if anything; the profile keeps that as it was.
    /// Errors: those of reading, of [`Profiles::writer`] and of [`Writer::save`].
    pub async fn save_as(&self, profiles: &Profiles, owner: &KeyId, name: &str) -> Result<Option<String>, Error> {
        let writer = profiles.writer(owner, name)?;
        self.save(&writer, profiles.max_size(), READ_TIME, Origins::All).await
    }

    /// Saves what the browser keeps. Returns what was not read of it, if anything; the version before still has that.
    async fn save(
        &self,
        writer: &Writer,
        limit: u64,
        time: Duration,
        origins: Origins,
    ) -> Result<Option<String>, Error> {
        let mut state = self.read_state(limit, origins, time).await?;
        let unread: HashSet<String> = state.unread.drain(..).collect();
        // The other engines read all origins without visiting one.
        let skips_hidden = origins == Origins::Shown && self.options.engine == Engine::Chromium;
        if skips_hidden || !unread.is_empty() {
            add_unread(&mut state, writer.newest().await?, &unread, skips_hidden);
        }
        state.origins.retain(|origin| !origin.is_empty());
        state.bound(limit);
        let unread: HashSet<String> = unread.into_iter().chain(state.unread.drain(..)).collect();
        for warning in &state.warnings {
            tracing::debug!(session = %self.id, warning, "not all of a profile was saved");
        }
        writer.save(&state).await?;
        Ok(left_out(&unread, &state.warnings))
    }

    /// Ends the browser and saves its folder.
    async fn save_folder(&self, writer: &Writer, limit: u64) -> Result<(), Error> {
        let packed = self.worker.agent.take_folder(FolderQuery { limit }).await;
        let packed = packed.map_err(|error| unpacked(error, limit))?.into_data_stream().map_err(io::Error::other);
        writer.save_folder(Some(self.options.engine), StreamReader::new(packed)).await?;
        Ok(())
    }
}

/// Why a browser's folder did not come.
fn unpacked(error: AgentError, limit: u64) -> Error {
    match error {
        AgentError::Refused { status: StatusCode::PAYLOAD_TOO_LARGE, .. } => {
            warmpool_profiles::Error::FolderTooLarge { limit }.into()
        }
        AgentError::Refused { status: StatusCode::NOT_FOUND, .. } => Error::worker(
            "this session's worker was started from an image of an earlier release, which cannot pack its folder",
            error,
        ),
        AgentError::Refused { message, .. } => {
            Error::Worker { message: format!("the browser's folder was not packed: {message}"), source: None }
        }
        other => Error::worker("the browser's folder was not packed", other),
    }
}

/// Adds what was not read of origins, as an earlier save has it; with `skips_hidden` also all origins that are not in the state.
fn add_unread(state: &mut StorageState, before: StorageState, unread: &HashSet<String>, skips_hidden: bool) {
    let read: HashMap<String, usize> =
        (0..).zip(&state.origins).map(|(at, origin)| (origin.origin.clone(), at)).collect();
    for old in before.origins {
        let is_unread = unread.contains(&old.origin);
        match read.get(&old.origin) {
            Some(&at) if is_unread => state.origins[at].add_missing(old),
            None if is_unread || skips_hidden => state.origins.push(old),
            _ => {}
        }
    }
}

/// Says of how many origins nothing new was saved, and why of one.
fn left_out(unread: &HashSet<String>, warnings: &[String]) -> Option<String> {
    let is_unread = |warning: &str| warning.split_once(": ").is_some_and(|(origin, _)| unread.contains(origin));
    let first = warnings.iter().find(|warning| is_unread(warning))?;
    // A part of it may be a page's own words.
    let first: String = first.chars().take(LONGEST_REASON).collect();
    Some(match unread.len() {
        1 => format!("one origin was not saved whole: {first}"),
        count => format!("{count} origins were not saved whole, such as {first}"),
    })
}

/// The most characters of a reason that a record gets.
const LONGEST_REASON: usize = 300;
/// How long a person does nothing before what they did is saved.
const QUIET: Duration = Duration::from_secs(2);

fn too_slow(limit: Duration) -> String {
    format!("the browser did not give its profile within {} seconds", limit.as_secs())
}

impl Session {
    /// Saves its profile again and again, and whenever a person has done something, until it is told to stop.
    pub(super) async fn keep_saving(&self, interval: Duration) {
        let Some(profile) = &self.profile else { return };
        loop {
            if timeout(interval, profile.touched.notified()).await.is_ok() {
                // They may still be typing, though not for ever.
                let quiet = async { while timeout(QUIET, profile.touched.notified()).await.is_ok() {} };
                let _ = timeout(interval, quiet).await;
            }
            self.save_profile(Origins::Shown).await;
        }
    }
}

impl Sessions {
    /// Checks that no session writes a profile.
    /// Errors: `ProfileInUse`.
    pub fn check_profile(&self, owner: &KeyId, name: &str) -> Result<(), Error> {
        Ok(self.shared.profiles.check_unwritten(owner, name)?)
    }

    /// Saves the profile of a session that has ended, while its browser is there.
    pub(super) async fn save_last(&self, session: &Session, ending: &Ending) {
        let Some(profile) = &session.profile else { return };
        // A browser that its client closed has left a folder that is whole, whatever the session's end is called.
        let is_closed = matches!(session.worker.health(), Health::Lost(LossReason::BrowserClosed));
        let is_whole = profile.kind == ProfileKind::Folder && (is_closed || *ending == Ending::BrowserClosed);
        let is_there = is_whole || is_running(session);
        // The command that closed the browser, or its last window, waited for a save, and what came of that is noted.
        let before = profile.saved.lock().clone();
        let saved_before_close = before.is_fresh() && matches!(ending, Ending::BrowserClosed | Ending::DriverQuit);
        let reason = if is_there {
            let limit = self.shared.config.profiles.save_timeout;
            match timeout(limit, session.save_profile(Origins::All)).await {
                Ok(()) => {
                    // A browser that is about to end is read in part, or not at all.
                    let mut saved = profile.saved.lock();
                    if saved_before_close && saved.error.is_some() {
                        *saved = before;
                    }
                    return;
                }
                Err(_) => too_slow(limit),
            }
        } else if saved_before_close {
            return;
        } else {
            "the browser was gone before its end was saved".to_owned()
        };
        tracing::warn!(session = %session.id, reason, "the last save of a profile failed");
        profile.note(Err(reason));
    }
}

fn is_running(session: &Session) -> bool {
    matches!(session.worker.health(), Health::Alive | Health::Booting)
}

impl Saved {
    /// Of a session whose worker was not found again.
    pub(super) fn lost(at_ms: Option<u64>) -> Self {
        let error = "the browser was gone before its end was saved".to_owned();
        Self { at_ms, error: Some(error), tried_ms: None }
    }

    /// Of a session that has ended.
    pub(super) const fn past(at_ms: Option<u64>, error: Option<String>) -> Self {
        Self { at_ms, error, tried_ms: None }
    }

    /// Whether the last save ended a moment ago.
    fn is_fresh(&self) -> bool {
        const MOMENT: u64 = 5000;
        self.tried_ms.is_some_and(|at| unix_ms().saturating_sub(at) < MOMENT)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use warmpool_protocol::OriginStorage;

    use super::*;

    fn state_of(origins: &[(&str, &str)]) -> StorageState {
        let local = |value: &str| json!([{"name": "a", "value": value}]);
        let origins: Vec<_> =
            origins.iter().map(|(origin, value)| json!({"origin": origin, "localStorage": local(value)})).collect();
        serde_json::from_value(json!({"origins": origins})).unwrap()
    }

    #[test]
    fn what_was_not_read_stays_as_it_was() {
        let before = || state_of(&[("https://a.b", "old"), ("https://c.d", "old"), ("https://e.f", "old")]);
        let none = HashSet::new();
        let mut read = state_of(&[("https://a.b", "new")]);
        add_unread(&mut read, before(), &none, true);
        assert_eq!(read, state_of(&[("https://a.b", "new"), ("https://c.d", "old"), ("https://e.f", "old")]));
        let mut read = state_of(&[("https://a.b", "new")]);
        add_unread(&mut read, before(), &HashSet::from(["https://c.d".to_owned()]), false);
        assert_eq!(read, state_of(&[("https://a.b", "new"), ("https://c.d", "old")]), "the site has deleted the third");
    }

    #[test]
    fn what_was_read_in_part_is_filled_up() {
        let before = state_of(&[("https://a.b", "old"), ("https://c.d", "old")]);
        let mut read = state_of(&[("https://c.d", "new")]);
        read.origins.insert(0, OriginStorage { origin: "https://a.b".to_owned(), ..OriginStorage::default() });
        let mut emptied = read.clone();
        add_unread(&mut emptied, before.clone(), &HashSet::new(), true);
        assert!(emptied.origins[0].is_empty(), "the site has signed out");
        add_unread(&mut read, before, &HashSet::from(["https://a.b".to_owned()]), false);
        assert_eq!(read, state_of(&[("https://a.b", "old"), ("https://c.d", "new")]));
    }

    #[test]
    fn a_save_says_what_it_left_out() {
        let unread = |origins: &[&str]| origins.iter().map(|&origin| origin.to_owned()).collect();
        let warnings = ["https://x.y: left out: a record".to_owned(), "https://a.b: left out: too large".to_owned()];
        assert_eq!(left_out(&unread(&[]), &warnings), None);
        let one = left_out(&unread(&["https://a.b"]), &warnings).unwrap();
        assert_eq!(one, "one origin was not saved whole: https://a.b: left out: too large");
        let two = left_out(&unread(&["https://a.b", "https://c.d"]), &warnings).unwrap();
        assert_eq!(two, "2 origins were not saved whole, such as https://a.b: left out: too large");
        let words =
            ["https://a.b:8443: left out: somebody else's".to_owned(), format!("https://a.b: {}", "x".repeat(9000))];
        let told = left_out(&unread(&["https://a.b"]), &words).unwrap();
        assert!(told.len() < 400 && told.contains("https://a.b: xxx"), "{told}");
    }
}
