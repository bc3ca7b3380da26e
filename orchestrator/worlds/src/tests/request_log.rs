//! The log of requests.

use super::*;

#[tokio::test]
async fn a_row_of_the_log_is_short_whatever_is_attached() {
    let service = Service::new(&[]).await;
    let key = service.key("ward").await;
    let belongings: Vec<_> = (0..24).map(|_| json!({"label": "\u{1f4fb}".repeat(120)})).collect();
    let body = json!({
        "patient_id": "p", "patient_name": "Ann", "environment_type": "garden", "belongings": belongings,
    });
    let request = WorldRequest::check(serde_json::from_value(body).unwrap(), service.worlds.limits()).unwrap();
    let mut entry = RequestEntry::begin();
    service.worlds.generate(&key, request, &mut entry, ()).await.unwrap();
    service.worlds.log().add(entry, 200).await;
    let rows = service.store.scan(Table::WorldRequests, KeyRange::all(), 9).await.unwrap();
    assert!(rows[0].value.len() < 2048, "{} bytes", rows[0].value.len());
    let (rows, _) = service.logged(RequestQuery::default()).await;
    assert!(rows[0].payload.ends_with("\u{1f4fb} and 23 more"), "{}", rows[0].payload);
}

#[tokio::test]
async fn requests_without_a_key_that_works_take_no_room_on_the_disk() {
    let service = Service::new(&[("WARMPOOL_WORLD_KEEP_UNPROVEN", "50")]).await;
    let key = service.key("ward").await;
    let revoked =
        service.worlds.keys().create(&key.details.owner, "old", IntegrationKind::Live, 9, |_| true).await.unwrap();
    service.worlds.keys().revoke(&revoked.record.id).await.unwrap();
    let log = service.worlds.log();
    let query = RequestQuery { owner: Some(key.details.owner.clone()), ..RequestQuery::default() };
    let mut followed = std::pin::pin!(log.follow(query.clone()));
    let before = service.faults.calls(FaultPoint::Apply);
    for number in 0..10_000 {
        let sent = [None, Some("wk_live_0123456789abcdef0123456789"), Some(revoked.secret.expose())][number % 3];
        let mut entry = RequestEntry::begin();
        assert!(service.worlds.identify(b"{}", sent, &mut entry).is_err());
        log.add(entry, 401).await;
    }
    assert_eq!(service.faults.calls(FaultPoint::Apply), before, "nothing was written");
    let (rows, total) = service.logged(query.clone()).await;
    assert_eq!((rows.len(), total), (50, 50), "the newest are listed");
    assert!(rows.iter().all(|row| row.status == "401 Unauthorized"));
    assert_eq!(
        rows.iter().filter(|row| row.key_id.as_ref() == Some(&revoked.record.id)).count(),
        17,
        "the log names it"
    );

    // However many they were, nobody who follows misses a request of their own.
    let mut entry = RequestEntry::begin();
    service.worlds.identify(b"{}", Some(service.secret(&key).await.expose()), &mut entry).unwrap();
    log.add(entry, 422).await;
    assert_eq!(followed.next().await.unwrap().unwrap().status, "422 Unprocessable Entity");
    assert_eq!(service.faults.calls(FaultPoint::Apply), before + 2);
    assert_eq!(service.logged(query).await.1, 51);
    assert_eq!(service.store.scan(Table::WorldRequests, KeyRange::all(), 9).await.unwrap().len(), 1);
}

#[tokio::test]
async fn old_requests_are_removed_while_the_disk_is_nearly_full() {
    let service = Service::new(&[]).await;
    let key = service.key("ward").await;
    let mut entry = RequestEntry::begin();
    service.worlds.identify(b"{}", Some(service.secret(&key).await.expose()), &mut entry).unwrap();
    entry.row.at_ms = 1000;
    service.worlds.log().add(entry, 200).await;
    service.worlds.keys().touch(&key.id);
    assert_eq!(service.logged(RequestQuery::default()).await.1, 1);
    service.faults.set_free_bytes(MIN_FREE / 2);
    service.worlds.forget_old(0).await.unwrap();
    assert_eq!(service.logged(RequestQuery::default()).await.1, 1, "the clock is not set yet");
    service.worlds.forget_old(warmpool_core::clock::unix_ms()).await.unwrap();
    assert_eq!(service.logged(RequestQuery::default()).await.1, 0);
    assert!(service.store.scan(Table::WorldRequests, KeyRange::all(), 9).await.unwrap().is_empty());
}

#[tokio::test]
async fn the_log_keeps_the_newest_requests_of_each_owner() {
    let service = Service::new(&[("WARMPOOL_WORLD_KEEP_LOG", "3")]).await;
    let (one, other) = (service.key("one").await, service.key_of("ba9876543210", "other").await);
    let (first, second) = (service.secret(&one).await, service.secret(&other).await);
    let log = service.worlds.log();
    let add = async |secret: &str, at_ms: u64| {
        let mut entry = RequestEntry::begin();
        let _ = service.worlds.identify(b"{}", Some(secret), &mut entry);
        entry.row.at_ms = at_ms;
        log.add(entry, 200).await;
    };
    let now = warmpool_core::clock::unix_ms();
    for number in 0..700 {
        add(first.expose(), now + number).await;
    }
    add(second.expose(), now).await;
    add("wk_live_0123456789abcdef0123456789", now).await;
    service.worlds.forget_old(now).await.unwrap();
    let of =
        |owner: &IntegrationKey| RequestQuery { owner: Some(owner.details.owner.clone()), ..RequestQuery::default() };
    let (rows, total) = service.logged(of(&one)).await;
    let times: Vec<u64> = rows.iter().map(|row| row.timestamp - now).collect();
    assert_eq!((times, total), (vec![699, 698, 697, 0], 4), "the last is nobody's");
    assert_eq!(service.logged(of(&other)).await.1, 2);
    assert_eq!(service.store.scan(Table::WorldRequests, KeyRange::all(), 9).await.unwrap().len(), 4);
}

#[tokio::test]
async fn a_known_client_finds_its_faulty_requests_in_its_log() {
    let service = Service::new(&[]).await;
    let key = service.key("ward").await;
    let secret = service.secret(&key).await;
    let own = RequestQuery { key: Some(key.id.clone()), ..RequestQuery::default() };
    let attached = r#""images": [{"data": "AAAA"}, 5], "belongings": [{"label": "radio"}]"#;
    let body = |rest: &str| format!(r#"{{"api_key": "{}", {attached}{rest}"#, secret.expose());
    for (body, header, payload) in [
        (body(r#", "environment_type": 5}"#), None, "2 images, 1 belonging"),
        (body(r#", "environment_type": "beach"}"#), None, "2 images, 1 belonging"),
        (body(",}"), None, "not read"),
        (format!("{{{attached}}}"), Some(secret.expose()), "2 images, 1 belonging"),
        ("{\"images\": ".to_owned(), Some(secret.expose()), "not read"),
        (String::new(), Some(secret.expose()), "not read"),
    ] {
        let mut entry = RequestEntry::begin();
        let (found, _) = service.worlds.identify(body.as_bytes(), header, &mut entry).unwrap();
        assert_eq!(found.id, key.id, "{body}");
        service.worlds.log().add(entry, 400).await;
        let (rows, _) = service.logged(own.clone()).await;
        assert_eq!(rows[0].payload, payload, "{body}");
    }
    assert_eq!(service.rows(Table::WorldRequests).await, 6, "its key works, so they are kept");
}

#[tokio::test]
async fn a_body_that_is_no_json_does_not_pass_for_one_without_a_key() {
    let service = Service::new(&[]).await;
    let identified =
        |body: &str| service.worlds.identify(body.as_bytes(), None, &mut RequestEntry::begin()).map(drop).unwrap_err();
    assert!(matches!(identified("{\"patient_id\": ,}"), Error::InvalidBody { .. }));
    assert!(matches!(identified("[]"), Error::InvalidBody { .. }));
    let missing = identified("{\"patient_id\": \"p\", \"environment_type\": 5}");
    assert!(matches!(missing, Error::Key(warmpool_keys::Error::MissingApiKey)), "{missing}");
}

#[tokio::test]
async fn a_request_that_is_refused_has_used_its_key() {
    let service = Service::new(&[]).await;
    let key = service.key("ward").await;
    let secret = service.secret(&key).await;
    let used = || service.worlds.keys().get(&key.id).unwrap().last_used_ms;
    let identify = || service.worlds.identify(b"{}", Some(secret.expose()), &mut RequestEntry::begin()).map(drop);
    assert_eq!(used(), None);
    identify().unwrap();
    let first = used();
    assert!(first.is_some());
    service.worlds.keys().revoke(&key.id).await.unwrap();
    assert!(identify().is_err());
    assert_eq!(used(), first, "a key that does not work is not used");
}
