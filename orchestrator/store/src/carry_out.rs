//! Changes that go on although nobody waits for them any more.

use tracing::Instrument as _;

/// Carries a change out to its end, whoever still waits for it: a commit, and what follows from it in memory and on the disk. A
/// client that leaves drops the future of its request; between the two, that would leave them apart until the next start.
/// What the change needs, locks and places included, belongs to it. Panics where the change does.
pub async fn carry_out<T: Send + 'static>(change: impl Future<Output = T> + Send + 'static) -> T {
    match tokio::spawn(change.in_current_span()).await {
        Ok(outcome) => outcome,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // Only the runtime's end takes it away, and then the one who waits as well.
            Err(_) => std::future::pending().await,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::super::fault::{Faults, until};
    use super::super::{Batch, Durability, Store, StoreOptions, Table, backup_folder};
    use super::carry_out;

    #[tokio::test]
    async fn a_panic_reaches_who_waits() {
        let waits = tokio::spawn(carry_out(async { panic!("as planned") }));
        assert!(waits.await.unwrap_err().is_panic());
        assert_eq!(carry_out(async { 7 }).await, 7);
    }

    #[tokio::test]
    async fn a_deleted_key_leaves_its_file_although_nobody_waits() {
        let faults = Faults::default();
        let store = Store::faulty(&faults, StoreOptions { min_free_bytes: 0, ..StoreOptions::default() });
        let file = backup_folder::apart_path(store.directory()).unwrap();
        let mut batch = Batch::new();
        batch.put(Table::PatientKeys, "patient", "key").put(Table::PatientKeys, "other", "key");
        store.commit(batch, Durability::Power).await.unwrap();
        store.write_apart().await.unwrap();
        let lines = || std::fs::read_to_string(&file).unwrap().lines().count();
        let before = lines();
        let deleting = store.clone();
        let delete = async move {
            let mut batch = Batch::new();
            batch.delete(Table::PatientKeys, "patient");
            deleting.commit(batch, Durability::Power).await
        };
        faults.abandon(delete).await;
        until("the file holds it no longer", || lines() == before - 1).await;
    }
}
