//! The patients whom worlds are for.

use super::*;

#[tokio::test]
async fn the_patients_of_an_owner_have_a_limit() {
    let service = Service::new(&[("WARMPOOL_WORLD_MAX_PATIENTS", "2")]).await;
    let (one, two) = (service.key("one").await, service.key("two").await);
    let other = service.key_of("ba9876543210", "other").await;
    let world = service.generate_for(&one, "ann").await.unwrap();
    service.generate_for(&two, "ann").await.unwrap();
    service.worlds.delete(world.world_id.as_str(), &caller(&one)).await.unwrap();
    let is_refused = async |key: &IntegrationKey| {
        let refused = service.generate_for(key, "zoe").await.map(drop);
        let is_refused = matches!(&refused, Err(error @ Error::PatientLimit { limit: 2 })
            if (error.code().as_str(), error.retry_after()) == ("world_limit", None));
        assert!(is_refused || refused.is_ok(), "{refused:?}");
        is_refused
    };
    assert!(is_refused(&one).await && is_refused(&two).await, "a deleted world leaves its patient");
    service.generate_for(&other, "bob").await.unwrap();
    service.generate_for(&one, "ann").await.unwrap();
    service.generate(&other, 0).await.unwrap();
    assert_eq!((service.rows(Table::Patients).await, service.rows(Table::PatientKeys).await), (4, 4));

    // The next start knows whom there is.
    service.worlds.lock().usage = usage::Usage::default();
    service.worlds.load().await.unwrap();
    assert!(is_refused(&one).await && is_refused(&other).await);
    service.worlds.delete_patient("ann", &caller(&two)).await.unwrap();
    assert!(!is_refused(&one).await);
    assert!(is_refused(&two).await);
}

#[tokio::test]
async fn a_patient_goes_with_the_last_that_names_them() {
    let service = Service::new(&[("WARMPOOL_WORLD_MAX_PATIENTS", "2"), ("WARMPOOL_WORLD_KEEP_LOG", "1")]).await;
    let key = service.key("ward").await;
    let ask = async |patient: &str, at_ms: u64| {
        let mut entry = RequestEntry::begin();
        service.worlds.identify(b"{}", Some(service.secret(&key).await.expose()), &mut entry).unwrap();
        let request = WorldRequest { patient_id: patient.to_owned(), ..service.request(0) };
        let world = service.worlds.generate(&key, request, &mut entry, ()).await.unwrap().record;
        entry.row.at_ms = at_ms;
        service.worlds.log().add(entry, 200).await;
        world
    };
    let forget = async || {
        service.worlds.forget_old(warmpool_core::clock::unix_ms()).await.unwrap();
        let mut range = KeyRange::all();
        service.worlds.forget_unused(&mut range).await.unwrap();
        service.worlds.forget_unused(&mut range).await.unwrap();
        service.rows(Table::Patients).await
    };
    let now = warmpool_core::clock::unix_ms();
    let world = ask("ann", now).await;
    service.worlds.delete(world.world_id.as_str(), &caller(&key)).await.unwrap();
    assert_eq!(forget().await, 1, "the log names her");
    ask("bob", now + 1).await;
    assert_eq!(forget().await, 1, "nothing names her");
    assert_eq!(service.rows(Table::PatientKeys).await, 1);
    service.generate_for(&key, "eve").await.unwrap();
    assert_eq!(forget().await, 2, "his world names him, and hers her");
    assert!(service.generate_for(&key, "ann").await.is_err());
}

#[tokio::test]
async fn others_get_their_turns_while_a_patient_is_deleted() {
    const WORLDS: usize = 40;
    let service = Service::new(&[]).await;
    let key = service.key("ward").await;
    for variation in 0..WORLDS {
        service.generate(&key, variation).await.unwrap();
    }
    let mut batch = Batch::new();
    let patient = service.worlds.shared.patients.reference(&key.id, "p");
    batch.put(Table::PatientWorlds, patient.world_row("wld_gone"), "wld_gone");
    service.store.commit(batch, Durability::Process).await.unwrap();
    let (worlds, of) = (service.worlds.clone(), caller(&key));
    let deleting = tokio::spawn(async move { worlds.delete_patient("p", &of).await });
    let left = loop {
        let _one = service.worlds.shared.accepting.lock().await;
        let left = service.rows(Table::Worlds).await;
        if left < WORLDS {
            break left;
        }
        tokio::task::yield_now().await;
    };
    assert!(left > 0, "none was left when somebody else had a turn");
    let deleted = timeout(PATIENCE, deleting).await.unwrap().unwrap().unwrap();
    assert_eq!((deleted.worlds, deleted.patients), (WORLDS, 1));
    for table in [Table::Worlds, Table::PatientWorlds, Table::Scenes, Table::Patients, Table::PatientKeys] {
        assert_eq!(service.rows(table).await, 0, "{table}");
    }
    assert_eq!(service.worlds.counts(), (0, 0));
}
