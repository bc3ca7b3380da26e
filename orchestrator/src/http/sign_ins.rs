//! Who is signed in to the console.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};

use crate::engine::random_text;
use crate::keys::KeyId;

/// How long a sign-in lasts without use.
pub(super) const IDLE_TIMEOUT: Duration = Duration::from_secs(12 * 3600);
/// Sign-ins at once; with more, the one that was idle longest ends.
const MAX_SIGN_INS: usize = 1000;

/// Who is signed in. Clones share it; it ends with the process.
#[derive(Clone, Default)]
pub(crate) struct SignIns(Arc<Mutex<HashMap<[u8; 32], SignIn>>>);

struct SignIn {
    key: KeyId,
    used: Instant,
}

impl SignIns {
    pub(super) fn add(&self, key: KeyId) -> String {
        let token = random_text::<32>();
        let mut signed_in = self.0.lock();
        signed_in.retain(|_, sign_in| sign_in.used.elapsed() < IDLE_TIMEOUT);
        if signed_in.len() >= MAX_SIGN_INS
            && let Some(oldest) = signed_in.iter().min_by_key(|(_, sign_in)| sign_in.used).map(|(hash, _)| *hash)
        {
            signed_in.remove(&oldest);
        }
        signed_in.insert(hash(&token), SignIn { key, used: Instant::now() });
        token
    }

    pub(super) fn find(&self, token: &str) -> Option<KeyId> {
        let mut signed_in = self.0.lock();
        let sign_in = signed_in.get_mut(&hash(token)).filter(|sign_in| sign_in.used.elapsed() < IDLE_TIMEOUT)?;
        sign_in.used = Instant::now();
        Some(sign_in.key.clone())
    }

    pub(super) fn remove(&self, token: &str) {
        self.0.lock().remove(&hash(token));
    }
}

fn hash(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}
