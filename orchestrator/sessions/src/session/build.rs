//! Assembles a session: its egress, its rules and its solver of challenges.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

use super::activity::{Activity, ActivityFacts};
use super::gate::Gate;
use super::grid_ids::grid_ids;
use super::journal::Journal;
use super::page_error::PageError;
use super::profile::SessionProfile;
use super::share::Shares;
use super::{DriverSession, Options, Record, Session, Sessions};
use warmpool_config::EgressRules;
use warmpool_core::clock::Now;
use warmpool_dial::Policy;
use warmpool_profiles::Writer;
use warmpool_workers::captcha::{SessionCaptchas, SessionFacts};
use warmpool_workers::egress::Egress;
use warmpool_workers::pool::Lease;

impl Sessions {
    /// Assembles a session and opens its egress.
    pub(super) fn build(
        &self,
        record: Record,
        time_left: Duration,
        lease: &mut Lease,
        warnings: Vec<String>,
        writer: Option<Writer>,
    ) -> Session {
        let instance = &self.shared.instance;
        let worker = Arc::clone(lease.use_worker());
        let policy = self.policy(&record);
        let id = record.session_id;
        let egress_context = &self.shared.egress_context;
        let client_proxy = record.client_proxy;
        let wanted = self.wanted_route(&id, &record.options, client_proxy.as_deref());
        let egress =
            Egress::open(Arc::clone(&worker), policy, &self.shared.config, egress_context, wanted, record.egress);
        let view_token = instance.session_token(id.as_str(), "view");
        let captchas = if record.options.launch.captchas.is_some() {
            let facts = SessionFacts { session_id: id.to_string(), view_token: view_token.clone() };
            self.shared.captchas.follow(Arc::clone(&worker), facts, record.captchas, record.captcha_count)
        } else {
            SessionCaptchas::none()
        };
        let kind = record.options.profile.as_ref().and_then(|choice| choice.kind).unwrap_or_default();
        let profile = writer.map(|writer| SessionProfile::new(writer, kind, &self.shared.config.profiles));
        let activity = Activity::new(ActivityFacts {
            attached: record.attached,
            used: record.attached || record.driver_session.is_some(),
            connection_is_use: record.options.connection_is_use,
        });
        Session {
            token: instance.session_token(id.as_str(), "client"),
            view_token,
            grid_ids: grid_ids(instance, &id),
            gate: Gate::new(),
            shares: Shares::new(record.shares, &Now::read()),
            journal: Journal::new(self.shared.store.clone()),
            id,
            owner: record.owner,
            options: record.options,
            created_ms: record.created_ms,
            egress,
            captchas,
            worker,
            warnings,
            deadline: Instant::now() + time_left,
            kept_deadline: record.deadline,
            activity,
            ending: watch::Sender::new(None),
            end_persisted: watch::Sender::new(None),
            page_error: PageError::of_record(record.page_error),
            reading: tokio::sync::Mutex::default(),
            profile,
            client_proxy: Mutex::new(client_proxy),
            driver: Mutex::new(record.driver_session.map_or(DriverSession::Idle, DriverSession::Open)),
        }
    }

    /// The rules of what a session's pages may reach: the nearest first.
    fn policy(&self, record: &Record) -> Policy {
        let Options { engine, mode, launch, extensions, .. } = &record.options;
        let config = &self.shared.config;
        let preset = config.pool.presets.with((*engine, *mode), &launch.settings, extensions);
        let preset = preset.map(|preset| preset.egress.clone());
        let own = EgressRules {
            allow: config.egress.allow.clone(),
            deny: config.egress.deny.clone(),
            ..EgressRules::default()
        };
        Policy::new(vec![self.shared.keys.egress(&record.owner), preset.unwrap_or_default(), own])
    }
}
