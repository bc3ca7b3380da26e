//! Holding a client's commands while a person drives its browser.

use std::sync::Arc;

use tokio::sync::watch;

/// A gate on the way from the client to its browser. It stands open unless somebody holds it shut.
#[derive(Debug, Clone)]
pub(crate) struct Gate {
    shut: Arc<watch::Sender<bool>>,
}

/// While this lives, the gate is shut.
#[derive(Debug)]
pub(crate) struct HeldGate {
    gate: Gate,
}

impl Gate {
    pub(crate) fn new() -> Self {
        Self { shut: Arc::new(watch::Sender::new(false)) }
    }

    /// Shuts it until the return value is dropped. `None` when it is shut already.
    #[must_use]
    pub(crate) fn shut(&self) -> Option<HeldGate> {
        let was = self.shut.send_replace(true);
        (!was).then(|| HeldGate { gate: self.clone() })
    }

    pub(crate) fn is_open(&self) -> bool {
        !*self.shut.borrow()
    }

    /// Waits until it is open.
    pub(crate) async fn open(&self) {
        if !self.is_open() {
            // The sender is a field of `self`: it does not go while we wait.
            let _ = self.shut.subscribe().wait_for(|shut| !shut).await;
        }
    }
}

impl Drop for HeldGate {
    fn drop(&mut self) {
        self.gate.shut.send_replace(false);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_opens_when_its_holder_goes() {
        let gate = Gate::new();
        gate.open().await;
        let shut = gate.shut().unwrap();
        assert!(gate.shut().is_none(), "one at a time");
        assert!(timeout(Duration::from_secs(60), gate.open()).await.is_err());
        let waiting = tokio::spawn({
            let gate = gate.clone();
            async move { gate.open().await }
        });
        drop(shut);
        waiting.await.unwrap();
    }
}
