//! What a session begins with: the newest version, and the right to write the next one.

use std::time::Duration;

use warmpool_protocol::StorageState;

use crate::folders::OpenedFolder;
use crate::record::check_name;
use crate::table::Entry;
use crate::writer::{QualifiedName, Writer, named};
use crate::{Error, ProfileChoice, ProfileKind, ProfileMode, Profiles};
use warmpool_core::browser::Engine;
use warmpool_core::clock::{millis, unix_ms};
use warmpool_core::error::FieldFault as _;
use warmpool_core::ids::SessionId;
use warmpool_keys::KeyId;
use warmpool_store::{Batch, Durability, Table, carry_out};

/// The field of a create call that has a profile.
const FIELD: &str = "profile.name";
/// Time between two notes that a profile is used.
const NOTE_USE: Duration = Duration::from_secs(600);

/// What a session begins with.
#[derive(Debug)]
pub struct OpenedProfile {
    /// The newest version of a state; none of a profile that has none yet.
    pub state: Option<StorageState>,
    /// The newest version of a folder.
    pub folder: Option<OpenedFolder>,
    /// What the profile keeps.
    pub kind: ProfileKind,
    /// The right to write it, where that was asked for.
    pub writer: Option<Writer>,
}

impl Profiles {
    /// What a session of this engine is to begin with.
    /// Errors: `Field`, also for a folder of another engine, `UnknownProfile` when one that is only to be read is not there, `Unreadable`,
    /// `ProfileInUse`, `ProfileLimit`.
    pub async fn begin(&self, owner: &KeyId, choice: &ProfileChoice, engine: Engine) -> Result<OpenedProfile, Error> {
        check_name(FIELD, &choice.name)?;
        let qualified_name = QualifiedName::new(owner, &choice.name);
        let writer = match choice.mode {
            ProfileMode::Read => None,
            ProfileMode::Write => Some(Writer::take(self, qualified_name.clone())?),
        };
        let entry = match self.entry(&qualified_name) {
            Ok(entry) => entry,
            Err(_) if writer.is_some() => {
                self.check_room(&qualified_name)?;
                let kind = choice.kind.unwrap_or_default();
                check_engine(&choice.name, kind, None, engine)?;
                return Ok(OpenedProfile { state: None, folder: None, kind, writer });
            }
            Err(unknown) => return Err(unknown),
        };
        let (kind, of) = {
            let record = entry.record.lock();
            (record.kind, record.folder_engine())
        };
        if choice.kind.is_some_and(|wanted| wanted != kind) {
            let problem =
                format!("is `{}` for profile `{}`: leave it out, or choose another name", kind.as_str(), choice.name);
            return Err(Error::invalid("profile.kind", problem));
        }
        check_engine(&choice.name, kind, of, engine)?;
        let (state, folder) = match kind {
            ProfileKind::State => (self.read(&entry, None).await?, None),
            ProfileKind::Folder => (None, self.open_newest(&entry, None).await?),
        };
        let profiles = self.clone();
        carry_out(async move { profiles.note_use(&entry).await }).await?;
        Ok(OpenedProfile { state, folder, kind, writer })
    }

    /// Writes down that a profile is used, once in a while. The caller carries it out.
    async fn note_use(&self, entry: &Entry) -> Result<(), Error> {
        let _turn = entry.change.lock().await;
        let mut record = entry.record.lock().clone();
        let now = unix_ms();
        if now.saturating_sub(record.used_ms) > millis(NOTE_USE) {
            record.used_ms = now;
            let mut batch = Batch::new();
            batch.put_json(Table::Profiles, record.store_key(), &record)?;
            self.0.store.commit(batch, Durability::Process).await?;
            *entry.record.lock() = record;
        }
        Ok(())
    }

    /// Takes the right to write a profile, which its first save makes where it is not there.
    /// Errors: `Field`, `ProfileInUse`.
    pub fn writer(&self, owner: &KeyId, name: &str) -> Result<Writer, Error> {
        check_name("name", name)?;
        Writer::take(self, QualifiedName::new(owner, name))
    }

    /// Checks that nobody has the right to write a profile.
    /// Errors: `ProfileInUse`.
    pub fn check_unwritten(&self, owner: &KeyId, name: &str) -> Result<(), Error> {
        match self.holders().lock().get(&QualifiedName::new(owner, name)) {
            Some(holder) => Err(Error::ProfileInUse { name: name.to_owned(), holder: named(holder.as_ref()) }),
            None => Ok(()),
        }
    }

    /// The largest state that a profile may have, in bytes.
    #[must_use]
    pub fn max_size(&self) -> u64 {
        self.0.limits.max_size.bytes()
    }

    /// Takes the right to write again, for a session that has outlived the process that gave it. None where another has it.
    pub fn hold(&self, owner: &KeyId, choice: &ProfileChoice, session: &SessionId) -> Option<Writer> {
        if !choice.is_written() {
            return None;
        }
        let writer = Writer::take(self, QualifiedName::new(owner, &choice.name));
        match writer {
            Ok(writer) => {
                writer.belongs_to(session);
                Some(writer)
            }
            Err(error) => {
                tracing::error!(%session, %error, "a session's profile is not saved any more");
                None
            }
        }
    }
}

/// Refuses a folder to an engine that cannot open it.
fn check_engine(name: &str, kind: ProfileKind, of: Option<Engine>, engine: Engine) -> Result<(), Error> {
    if kind == ProfileKind::State {
        return Ok(());
    }
    match of {
        Some(of) if of != engine => {
            let problem =
                format!("is {engine}, and profile `{name}` is a folder of {of}, which no other engine can open");
            Err(Error::invalid("browser_type", problem))
        }
        _ => Ok(()),
    }
}
