//! Keeps messages, sends them, and sends them again until they arrive.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use tokio_rustls::rustls::ClientConfig;
use url::Url;

use super::address::policy;
use super::lane::{LanePermit, Lanes};
use super::message::{Event, Message, Receiver};
use super::post::{Post, PostError, ReceiverDialler};
use warmpool_config::Config;
use warmpool_core::clock::{millis, unix_ms};
use warmpool_core::instance::Instance;
use warmpool_core::secret::Secret;
use warmpool_dial::{Dialler, Lookups};
use warmpool_keys::{KeyId, Keys};
use warmpool_store::{Batch, Durability, Store, StoreError, Table, carry_out};

/// The longest pause between two attempts.
const MAX_PAUSE: Duration = Duration::from_secs(3600);

/// Why webhooks cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum WebhookError {
    /// The file with the secret cannot be read.
    #[error("`webhooks.secret_file` {path} cannot be read: {source}")]
    Read {
        /// The file.
        path: String,
        /// What the system says.
        source: std::io::Error,
    },
    /// The file has no secret in it.
    #[error("`webhooks.secret_file` {path} is empty: write the secret into it")]
    Empty {
        /// The file.
        path: String,
    },
    /// The store does not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Sends messages. Clones share it.
#[derive(Clone)]
pub struct Webhooks(Arc<Shared>);

struct Shared {
    config: Arc<Config>,
    instance: Arc<Instance>,
    keys: Keys,
    store: Store,
    lookups: Lookups,
    tls: Arc<ClientConfig>,
    /// Where the operator hears of everything.
    own: Option<(Url, Secret)>,
    lanes: Lanes,
}

/// Messages that a batch holds. They are sent once the batch is in the store.
#[derive(Default)]
#[must_use]
pub struct QueuedMessages(Vec<(Message, LanePermit)>);

impl std::fmt::Debug for Webhooks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Webhooks")
    }
}

impl Webhooks {
    /// Reads the secret that the settings name.
    /// Errors: when it cannot be read.
    pub fn open(
        config: Arc<Config>,
        instance: Arc<Instance>,
        keys: Keys,
        store: Store,
        lookups: Lookups,
        tls: Arc<ClientConfig>,
    ) -> Result<Self, WebhookError> {
        let own = match (&config.webhooks.url, &config.webhooks.secret_file) {
            (Some(url), Some(file)) => {
                let path = file.display().to_string();
                let text = std::fs::read_to_string(file);
                let text = text.map_err(|source| WebhookError::Read { path: path.clone(), source })?;
                let secret = text.trim();
                if secret.is_empty() {
                    return Err(WebhookError::Empty { path });
                }
                Some((url.clone(), Secret::new(secret.to_owned())))
            }
            _ => None,
        };
        Ok(Self(Arc::new(Shared { config, instance, keys, store, lookups, tls, own, lanes: Lanes::default() })))
    }

    /// Sends what an earlier process left.
    /// Errors: the store cannot be read.
    pub async fn resume(&self) -> Result<(), StoreError> {
        let mut pages = self.0.store.pages(Table::Webhooks);
        while let Some(rows) = pages.next().await? {
            for row in &rows {
                match row.json::<Message>(Table::Webhooks) {
                    Ok(message) => {
                        if let Some(place) = self.0.lanes.enter(&message.receiver, None) {
                            self.deliver(message, place);
                        }
                    }
                    Err(error) => tracing::error!(%error, "a message of a webhook cannot be read; it is left out"),
                }
            }
        }
        Ok(())
    }

    /// How many receivers messages wait for, or did until lately.
    #[must_use]
    pub fn receivers(&self) -> usize {
        self.0.lanes.len()
    }

    /// The secret that signs messages to the addresses that a key's clients name, as libraries for Standard Webhooks take it.
    #[must_use]
    pub fn secret(&self, key: &KeyId) -> String {
        self.0.instance.webhook_secret(key.as_str())
    }

    /// Puts the messages of an event into the batch that writes it. Hand the result to [`Webhooks::send`] when the store has the
    /// batch.
    pub fn add_to_batch(&self, batch: &mut Batch, event: &Event<'_>) -> QueuedMessages {
        let mut enclosed = QueuedMessages::default();
        let of_client =
            event.address.map(|address| (Receiver::Client { key: event.owner.clone() }, Some(address.to_owned())));
        let of_operator = self.0.own.as_ref().map(|_| (Receiver::Operator, None));
        for (receiver, address) in of_client.into_iter().chain(of_operator) {
            let message = Message {
                id: event.message_id(),
                event: event.kind.as_str().to_owned(),
                receiver,
                address,
                body: event.body(),
                created_ms: unix_ms(),
            };
            let Some(place) = self.0.lanes.enter(&message.receiver, Some(self.0.config.webhooks.queue_length)) else {
                tracing::warn!(id = message.id, "a webhook's message is dropped: `webhooks.queue_length` wait already");
                count(&message, "dropped");
                continue;
            };
            if batch.put_json(Table::Webhooks, message.store_key(), &message).is_ok() {
                enclosed.0.push((message, place));
            }
        }
        enclosed
    }

    /// Sends messages whose batch is in the store, in the background.
    pub fn send(&self, enclosed: QueuedMessages) {
        for (message, place) in enclosed.0 {
            self.deliver(message, place);
        }
    }

    /// Keeps an event's messages and sends them. While the disk is nearly full or the store is busy, they are sent without being kept:
    /// somebody waits for what they tell.
    /// Errors: the store will never take them; nothing is sent.
    pub async fn announce(&self, event: &Event<'_>) -> Result<(), StoreError> {
        let mut batch = Batch::new();
        let enclosed = self.add_to_batch(&mut batch, event);
        if batch.is_empty() {
            return Ok(());
        }
        let webhooks = self.clone();
        carry_out(async move {
            match webhooks.0.store.commit(batch, Durability::Process).await {
                Err(error) if error.is_shortage() => {
                    tracing::warn!(%error, "a webhook's message is not kept; a restart before it has arrived loses it");
                }
                kept => kept?,
            }
            webhooks.send(enclosed);
            Ok(())
        })
        .await
    }

    /// Whether anybody hears of the events of a client that named this address.
    #[must_use]
    pub fn is_heard(&self, address: Option<&str>) -> bool {
        address.is_some() || self.0.own.is_some()
    }

    fn deliver(&self, message: Message, place: LanePermit) {
        let webhooks = self.clone();
        // Not on the drain, which need not wait: what has not arrived stays in the store.
        tokio::spawn(async move {
            let result = webhooks.try_until_taken(&message, &place).await;
            count(&message, result);
            let mut batch = Batch::new();
            batch.delete(Table::Webhooks, message.store_key()).essential();
            if let Err(error) = webhooks.0.store.commit_with_retry(batch, Durability::Process, |_| {}).await {
                tracing::warn!(id = message.id, %error, "a webhook's message is still kept, and is sent again after the next start");
            }
        });
    }

    /// Sends a message until it is taken or not worth another try; returns what came of it.
    async fn try_until_taken(&self, message: &Message, place: &LanePermit) -> &'static str {
        let settings = &self.0.config.webhooks;
        let until = message.created_ms.saturating_add(millis(settings.keep_trying));
        let mut pause = settings.retry_delay;
        loop {
            let outcome = {
                let _turn = place.turn().await;
                self.post(message).await
            };
            let Err(error) = outcome else { return "sent" };
            let host = self.url(message).and_then(|url| url.host_str().map(str::to_owned));
            let gives_up = !error.is_passing() || unix_ms().saturating_add(millis(pause)) > until;
            tracing::warn!(id = message.id, host, %error, gives_up, "a webhook did not take a message");
            match error {
                PostError::Refused { .. } => return "refused",
                _ if gives_up => return "failed",
                _ => sleep(pause).await,
            }
            pause = pause.saturating_mul(2).min(MAX_PAUSE);
        }
    }

    fn url(&self, message: &Message) -> Option<Url> {
        match &message.address {
            Some(address) => Url::parse(address).ok(),
            None => self.0.own.as_ref().map(|(url, _)| url.clone()),
        }
    }

    async fn post(&self, message: &Message) -> Result<(), PostError> {
        let Shared { config, lookups, keys, tls, own, .. } = &*self.0;
        let limit = config.webhooks.timeout;
        let (dialler, secret) = match &message.receiver {
            Receiver::Client { key } => {
                let policy = policy(config, vec![keys.egress(key)]);
                (
                    ReceiverDialler::Restricted(Dialler::new(policy, lookups.clone(), limit)),
                    Secret::new(self.secret(key)),
                )
            }
            Receiver::Operator => match own {
                Some((_, secret)) => (ReceiverDialler::Unrestricted(lookups.clone()), secret.clone()),
                None => return Err(PostError::Gone),
            },
        };
        let url = self.url(message).ok_or(PostError::Gone)?;
        let post = Post {
            dialler,
            url: &url,
            secret: &secret,
            id: &message.id,
            seconds: unix_ms() / 1000,
            body: &message.body,
            limit,
            tls,
        };
        post.send().await
    }
}

fn count(message: &Message, result: &'static str) {
    metrics::counter!("warmpool_webhooks_total", "event" => message.event.clone(), "result" => result).increment(1);
}

#[cfg(any(test, feature = "testing"))]
impl Webhooks {
    /// Webhooks of a daemon that reaches nobody.
    #[expect(clippy::unwrap_used, reason = "only tests use it")]
    pub fn nowhere(config: &Arc<Config>, instance: &Arc<Instance>, keys: &Keys, store: &Store) -> Self {
        let lookups = warmpool_dial::Resolver::nowhere().share();
        let tls = warmpool_core::tls::client_config().unwrap();
        Self::open(Arc::clone(config), Arc::clone(instance), keys.clone(), store.clone(), lookups, tls).unwrap()
    }
}
