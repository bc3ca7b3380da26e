//! Creates a session: a worker for it, its record, and a check that the caller is still there at the end.

use std::sync::Arc;
use std::time::Duration;

use futures_util::TryStreamExt as _;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Frame;
use tokio::time::Instant;
use tracing::field::Empty;
use tracing::{Instrument as _, Span};

use super::journal::written;
use super::{Ending, GivenState, Options, Record, Session, Sessions};
use crate::Error;
use warmpool_core::browser::Engine;
use warmpool_core::clock::{Deadline, Now};
use warmpool_core::drain::Phase;
use warmpool_core::error::{Cause, FieldFault as _, ServiceError, ServiceFault as _};
use warmpool_core::ids::SessionId;
use warmpool_core::trace::TRACES;
use warmpool_extensions::OpenedExtension;
use warmpool_keys::KeyId;
use warmpool_profiles::{OpenedFolder, OpenedProfile, Writer};
use warmpool_protocol::Launch;
use warmpool_protocol::folder::FolderQuery;
use warmpool_store::{Batch, Durability, Table};
use warmpool_workers::ads::AdRules;
use warmpool_workers::pool::Lease;
use warmpool_workers::worker::{AgentError, Body, Worker};

/// How many workers may fail at hand-out before the caller gets an error.
const LAUNCH_ATTEMPTS: usize = 2;

/// A session whose client has no answer yet. Dropping it unconfirmed ends it.
pub struct UnconfirmedSession {
    session: Option<Arc<Session>>,
}

impl UnconfirmedSession {
    /// A session that ends unless its client gets the answer that is on its way.
    pub(crate) const fn new(session: Arc<Session>) -> Self {
        Self { session: Some(session) }
    }

    /// The session, which is not the client's yet.
    /// Errors: `Draining`, as [`UnconfirmedSession::confirm`] would find.
    pub fn session(&self) -> Result<&Arc<Session>, Error> {
        self.session.as_ref().ok_or(Error::Service(ServiceError::Draining))
    }

    /// The client is getting the answer: the session is its own now.
    /// Errors: `Draining` when the daemon goes down.
    pub fn confirm(mut self) -> Result<Arc<Session>, Error> {
        self.session.take().ok_or(Error::Service(ServiceError::Draining))
    }
}

impl Drop for UnconfirmedSession {
    fn drop(&mut self) {
        if let Some(session) = self.session.take() {
            session.end(Ending::ClientGone);
        }
    }
}

impl Sessions {
    /// Creates a session: waits for a worker, wakes it, applies the settings, and writes the record.
    ///
    /// A client that leaves while it waits leaves the queue; once it has a worker the rest goes on without it, and the
    /// session ends as soon as nobody takes it.
    /// Errors: those of [`Pool::lease`](warmpool_workers::pool::Pool::lease), `InvalidKey` when the key was revoked meanwhile,
    /// `DiskNearlyFull` and `StoreBusy`, before a worker is spent, and `Worker` when no worker could be made ready.
    pub async fn create(&self, owner: KeyId, options: Options) -> Result<UnconfirmedSession, Error> {
        let span = tracing::info_span!(
            target: TRACES,
            "create session",
            warmpool.engine = options.engine.as_str(),
            warmpool.mode = options.mode.as_str(),
            warmpool.session = Empty,
        );
        self.create_traced(owner, options).instrument(span).await
    }

    async fn create_traced(&self, owner: KeyId, mut options: Options) -> Result<UnconfirmedSession, Error> {
        if self.shared.drain.phase() >= Phase::Draining {
            return Err(Error::Service(ServiceError::Draining));
        }
        // Before a worker is spent on it.
        self.check_store()?;
        self.check_upstream(&options)?;
        let begun = Instant::now();
        // Before a worker is spent on it, too.
        let extensions = self.shared.extensions.begin(&owner, &options.extensions).await?;
        let (writer, folder) = self.begin_profile(&owner, &mut options).await?;
        let key = options.pool_key();
        let trust = self.shared.keys.egress(&owner).trust();
        let leasing = self.shared.pool.lease(options.wanted(&trust), &owner);
        let lease = tokio::select! {
            biased;
            // A worker that is handed to a key at the moment of its end goes back unused.
            () = self.shared.keys.revoked(&owner) => return Err(warmpool_keys::Error::InvalidKey.into()),
            lease = leasing.instrument(tracing::info_span!(target: TRACES, "lease worker")) => lease?,
        };
        // It may have gone while the caller waited.
        self.check_upstream(&options)?;
        let sessions = self.clone();
        let work = self.shared.drain.spawn(
            async move { sessions.begin(owner, options, lease, writer, folder, extensions).await }.in_current_span(),
        );
        let created = work.await.map_err(Error::internal)?;
        if let Ok(session) = created.as_ref().map_err(drop).and_then(|created| created.session().map_err(drop)) {
            Span::current().record("warmpool.session", session.id.as_str());
        }
        if created.is_ok() {
            self.shared.create_times.add(begun.elapsed());
            metrics::histogram!("warmpool_session_create_seconds", "engine" => key.engine.as_str(), "mode" => key.mode.as_str())
                .record(begun.elapsed());
        }
        created
    }

    /// Fails where the record of a session could not be written, as far as is known: its worker would be woken for nothing.
    /// Errors: `DiskNearlyFull`, `StoreBusy`.
    fn check_store(&self) -> Result<(), Error> {
        self.shared.store.shortage().map_or(Ok(()), |shortage| Err(shortage.into()))
    }

    /// Fails where no upstream proxy answers that a session wants.
    /// Errors: `Field`, `NoUpstream`.
    fn check_upstream(&self, options: &Options) -> Result<(), Error> {
        let Some(wanted) = &options.proxy else { return Ok(()) };
        Ok(self.shared.egress_context.upstreams.choose(wanted, "").map(drop)?)
    }

    /// Takes the profile that a session is to begin with: its state or its folder, and the right to write it.
    /// Errors: those of [`Profiles::begin`](warmpool_profiles::Profiles::begin).
    async fn begin_profile(
        &self,
        owner: &KeyId,
        options: &mut Options,
    ) -> Result<(Option<Writer>, Option<OpenedFolder>), Error> {
        let Some(choice) = &mut options.profile else { return Ok((None, None)) };
        let opened = self.shared.profiles.begin(owner, choice, options.engine).await?;
        let OpenedProfile { state, folder, kind, writer } = opened;
        // After a restart of the daemon too it says how the profile is saved.
        choice.kind = Some(kind);
        options.state = state.filter(|state| !state.is_empty()).map(GivenState::kept);
        options.launch.storage = options.state.is_some();
        options.launch.folder = folder.is_some();
        Ok((writer, folder))
    }

    async fn begin(
        &self,
        owner: KeyId,
        options: Options,
        mut lease: Lease,
        writer: Option<Writer>,
        folder: Option<OpenedFolder>,
        extensions: Vec<OpenedExtension>,
    ) -> Result<UnconfirmedSession, Error> {
        let now = Now::read();
        let time_left = Duration::from_secs(options.session_timeout);
        let mut record = Record {
            session_id: SessionId::random(),
            owner,
            options,
            created_ms: now.unix_ms(),
            deadline: Some(Deadline::after(time_left, &now)),
            worker: lease.id().clone(),
            driver_session: None,
            client_proxy: None,
            attached: false,
            shares: Vec::new(),
            egress: None,
            captchas: Vec::new(),
            captcha_count: 0,
            page_error: None,
            oom_kills: None,
            profile_saved_ms: None,
            profile_error: None,
            ended: None,
        };
        if let Some(writer) = &writer {
            writer.belongs_to(&record.session_id);
        }
        // It stays in memory no longer than it takes to bring it to the worker.
        let state = record.options.state.take();
        let left_out = state.as_ref().map(GivenState::left_out).unwrap_or_default();
        let state = state.map(|state| state.bytes().map_err(Error::internal)).transpose()?;
        let (playwright, log) = (record.options.playwright.take(), record.options.logs);
        let launch = Launch { playwright, log, ..record.options.launch.clone() };
        let mut attempt = 1;
        let mut warnings = loop {
            record.worker = lease.id().clone();
            // An earlier worker's record may be there.
            let fail = |error: Error| if attempt == 1 { error } else { self.withdraw(&record, error) };
            // The disk may have filled up while the caller waited for the worker, which goes back unused then.
            self.check_store().map_err(fail)?;
            let worker = Arc::clone(lease.use_worker());
            let ad_rules = self.ad_rules(&record.options, &worker).await.map_err(fail)?;
            if let Some(folder) = &folder {
                check_age(folder, &worker).map_err(fail)?;
            }
            let packed = folder.as_ref().map(|folder| self.packed(folder));
            // Together, since each is a wait; a restart between the two finds a record whose worker is still warm.
            let launching = async {
                // Those of a preset's worker are there.
                if !self.shared.pool.waits_with(worker.key, &record.options.extensions) {
                    worker.agent.give_extensions(&extensions).await?;
                }
                worker.agent.launch(&launch, ad_rules.clone(), state.clone(), packed).await
            };
            let launching = launching.instrument(tracing::info_span!(target: TRACES, "launch browser"));
            let commit = self.shared.store.commit(written(&record)?, Durability::Process);
            let (launched, kept) = tokio::join!(launching, commit);
            kept.map_err(|error| fail(error.into()))?;
            match launched {
                Ok(warnings) => {
                    // A browser that has read a client's folder works for that client alone.
                    if folder.is_none() {
                        self.keep_compiled_ads(ad_rules, worker);
                    }
                    break warnings;
                }
                // Another browser of its kind would refuse the setting as well.
                Err(AgentError::Field(error)) => return Err(self.withdraw(&record, error.into())),
                Err(error) if attempt < LAUNCH_ATTEMPTS => {
                    tracing::warn!(worker = %worker.id, %error, "a warm worker failed at hand-out; taking another");
                    if let (Some(AdRules::Compiled(_)), Some(version)) = (&ad_rules, version(&worker)) {
                        self.shared.ads.forget_compiled(&version).await;
                    }
                    drop(lease);
                    // Another worker of a lost node would fail as well.
                    self.shared.pool.doubt_nodes(&worker).await;
                    let trust = self.shared.keys.egress(&record.owner).trust();
                    lease = match self.shared.pool.lease(record.options.wanted(&trust), &record.owner).await {
                        Ok(lease) => lease,
                        Err(error) => return Err(self.withdraw(&record, error.into())),
                    };
                    attempt += 1;
                }
                Err(error) => {
                    let error = Error::worker("the browser could not be made ready: try again", error);
                    return Err(self.withdraw(&record, error));
                }
            }
        };
        warnings.extend(left_out);
        let session = self.build(record, time_left, &mut lease, warnings, writer);
        let session = self.admit(session, lease);
        // A key is revoked first and then its sessions are looked for, and so with the end of the daemon below.
        if let Err(error) = self.shared.keys.require(&session.owner) {
            session.end(Ending::KeyRevoked);
            return Err(error.into());
        }
        // Draining begins with the phase and then looks into the table: whichever of the two came first here, a session
        // made meanwhile is seen by one of them.
        if self.shared.drain.phase() >= Phase::Draining {
            session.end(Ending::Drained);
            return Err(Error::Service(ServiceError::Draining));
        }
        Ok(UnconfirmedSession::new(session))
    }

    /// A folder as the body of a call to a worker's agent.
    fn packed(&self, folder: &OpenedFolder) -> (Body, FolderQuery) {
        let frames = folder.stream().map_ok(Frame::data).map_err(Cause::from);
        let query = FolderQuery { limit: self.shared.config.profiles.max_folder.bytes() };
        (StreamBody::new(frames).boxed_unsync(), query)
    }

    /// The rules of a session that blocks ads, for its worker.
    /// Errors: when there are none.
    pub(super) async fn ad_rules(&self, options: &Options, worker: &Worker) -> Result<Option<AdRules>, Error> {
        if !options.launch.block_ads {
            return Ok(None);
        }
        Ok(Some(self.shared.ads.rules_for(options.engine, version(worker).as_deref()).await?))
    }

    /// Fetches what a WebKit has just compiled, for those that come after it.
    fn keep_compiled_ads(&self, given: Option<AdRules>, worker: Arc<Worker>) {
        let (Some(AdRules::Plain(rules)), Engine::Webkit, Some(version)) = (given, worker.key.engine, version(&worker))
        else {
            return;
        };
        let ads = self.shared.ads.clone();
        tokio::spawn(async move {
            match worker.agent.compiled_ads().await {
                Ok(ready) => ads.keep_compiled(&rules, version, ready).await,
                Err(error) => tracing::debug!(%error, "compiled rules of ads were not kept"),
            }
        });
    }

    /// Takes back the record of a session that came to nothing, however long the store takes. Returns the error for the
    /// caller.
    fn withdraw(&self, record: &Record, error: Error) -> Error {
        let mut batch = Batch::new();
        batch.delete(Table::Sessions, record.store_key()).essential();
        let (store, id) = (self.shared.store.clone(), record.session_id.clone());
        self.shared.drain.spawn(async move {
            if let Err(error) = store.commit_with_retry(batch, Durability::Process, |_| {}).await {
                tracing::error!(session = %id, %error, "a record could not be taken back");
            }
        });
        error
    }
}

/// Refuses a folder of a newer browser, which an older one would spoil.
fn check_age(folder: &OpenedFolder, worker: &Worker) -> Result<(), Error> {
    let browser = worker.snapshot.borrow().identity.browser.clone().unwrap_or_default();
    if !folder.manifest().is_newer_than(&browser) {
        return Ok(());
    }
    let had = &folder.manifest().browser;
    let problem = format!(
        "has a folder of {had}, and this browser is {browser}: build the images anew, or roll the profile back"
    );
    Err(Error::invalid("profile.name", problem))
}

/// The version of a worker's browser.
fn version(worker: &Worker) -> Option<String> {
    worker.snapshot.borrow().version().map(str::to_owned)
}
