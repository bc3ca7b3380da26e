//! Worlds that end before they are rendered.

use super::*;

#[tokio::test]
async fn a_deleted_world_frees_its_renderer() {
    let service = Service::new(&[]).await;
    let key = service.key("ward").await;
    let (first, second) = (service.generate(&key, 0).await.unwrap(), service.generate(&key, 1).await.unwrap());
    let worlds = service.worlds.clone();
    let renderer = tokio::spawn(async move { worlds.render_in_turn().await });
    service.reaches(&first, Status::Rendering).await;
    let caller = caller(&key);
    timeout(PATIENCE, service.worlds.delete(first.world_id.as_str(), &caller)).await.unwrap().unwrap();
    assert!(matches!(service.find(&key, &first).await, Err(Error::UnknownWorld { .. })));
    service.reaches(&second, Status::Rendering).await;
    renderer.abort();
}

#[tokio::test]
async fn a_deleted_world_waits_for_no_spare_renderer() {
    let engine = tempfile::tempdir().unwrap();
    let socket = engine.path().join("docker.sock");
    let host = format!("unix://{}", socket.display());
    let service = Service::new(&[
        ("WARMPOOL_DOCKER_HOST", &host),
        ("WARMPOOL_DOCKER_TIMEOUT", "1h"),
        ("WARMPOOL_DOCKER_WORK_TIMEOUT", "1h"),
        ("WARMPOOL_WORLD_WARM", "true"),
    ])
    .await;
    let key = service.key("ward").await;
    let world = service.generate(&key, 0).await.unwrap();
    let worlds = service.worlds.clone();
    let renderer = tokio::spawn(async move { worlds.render_in_turn().await });
    service.reaches(&world, Status::Rendering).await;
    // From now on there is an engine, and it answers nothing.
    let _silent = tokio::net::UnixListener::bind(&socket).unwrap();
    timeout(PATIENCE, service.worlds.delete(world.world_id.as_str(), &caller(&key))).await.unwrap().unwrap();
    renderer.abort();
}

#[tokio::test]
async fn an_engine_that_hangs_holds_up_no_deletion() {
    let engine = tempfile::tempdir().unwrap();
    let socket = engine.path().join("docker.sock");
    let silent = tokio::net::UnixListener::bind(&socket).unwrap();
    let host = format!("unix://{}", socket.display());
    let service = Service::new(&[("WARMPOOL_DOCKER_HOST", &host), ("WARMPOOL_DOCKER_TIMEOUT", "1h")]).await;
    let key = service.key("ward").await;
    service.worlds.lock().image = Some((std::time::Instant::now(), true));
    let world = service.generate(&key, 0).await.unwrap();
    service.worlds.lock().image = None;
    let generating = tokio::spawn({
        let (worlds, key, request) = (service.worlds.clone(), key.clone(), service.request(1));
        async move { worlds.generate(&key, request, &mut RequestEntry::begin(), ()).await.map(drop) }
    });
    let _asked = silent.accept().await.unwrap();
    let same = timeout(PATIENCE, service.generate(&key, 0)).await.unwrap().unwrap();
    assert_eq!(same.world_id, world.world_id);
    timeout(PATIENCE, service.worlds.delete(world.world_id.as_str(), &caller(&key))).await.unwrap().unwrap();
    generating.abort();
}

#[tokio::test]
async fn a_world_that_failed_keeps_nothing_that_was_uploaded() {
    let service = Service::new(&[]).await;
    let (key, revoked) = (service.key("ward").await, service.key("revoked").await);
    let mut damaged = picture();
    damaged.truncate(damaged.len() / 2);
    let world = service.attach(&key, &damaged).await;
    assert_eq!(service.files(&world), ["upload-0"]);
    let mut changes = service.worlds.changes(&world.world_id).unwrap();
    let worlds = service.worlds.clone();
    let renderer = tokio::spawn(async move { worlds.render_in_turn().await });
    reaches(&mut changes, Status::Failed).await;
    renderer.abort();
    assert!(service.files(&world).is_empty());
    let of_revoked = service.attach(&revoked, &picture()).await;
    service.worlds.keys().revoke(&revoked.id).await.unwrap();
    service.worlds.end_revoked().await;
    assert!(service.files(&of_revoked).is_empty());

    // As a kill between the record and the removal leaves it.
    let waits = service.attach(&key, &picture()).await;
    for name in ["upload-0", "upload-3.new", "picture-1.jpg"] {
        std::fs::write(service.worlds.shared.files.path(&world.world_id, name), "x").unwrap();
    }
    assert!(service.tidy().await.is_empty());
    assert_eq!(service.files(&world), ["picture-1.jpg"]);
    assert_eq!(service.files(&waits), ["upload-0"], "what waits keeps it");
}

#[tokio::test]
async fn a_revoked_key_keeps_no_world_waiting_or_rendering() {
    let service = Service::new(&[]).await;
    let (revoked, other) = (service.key("revoked").await, service.key("other").await);
    let (rendered, waits) =
        (service.generate(&revoked, 0).await.unwrap(), service.generate(&revoked, 1).await.unwrap());
    let others = service.generate(&other, 0).await.unwrap();
    let worlds = service.worlds.clone();
    let renderer = tokio::spawn(async move { worlds.render_in_turn().await });
    let worlds = service.worlds.clone();
    let following = tokio::spawn(async move { worlds.follow_revocations().await });
    service.reaches(&rendered, Status::Rendering).await;
    let mut changes: Vec<_> = [&rendered, &waits].map(|world| service.worlds.changes(&world.world_id).unwrap()).into();
    service.worlds.keys().revoke(&revoked.id).await.unwrap();
    for changes in &mut changes {
        reaches(changes, Status::Failed).await;
    }
    for world in [&rendered, &waits] {
        let failure = service.find(&revoked, world).await.unwrap().failure.unwrap();
        assert_eq!(failure.code, "key_revoked");
    }
    service.reaches(&others, Status::Rendering).await;
    // A request that was checked before the revocation comes too late as well.
    let late = timeout(PATIENCE, service.generate(&revoked, 2)).await.unwrap();
    assert!(matches!(late, Err(Error::Key(warmpool_keys::Error::InvalidApiKey))));
    assert_eq!(service.worlds.counts(), (0, 1));
    renderer.abort();
    following.abort();
}

#[tokio::test]
async fn a_renderer_that_says_nothing_is_given_up() {
    let service = Service::new(&[]).await;
    let key = service.key("ward").await;
    let record = service.generate(&key, 0).await.unwrap();
    let patient = service.worlds.patient(&record).await.unwrap();
    let live = LiveWorld::new(record.clone());
    // Where it may read, and what it says at first. The second takes no job: its pipe is full after a byte.
    for (room, said) in [(1 << 20, &b""[..]), (1, b""), (1 << 20, b"{\"event\": \"pro")] {
        let renderer = || {
            let (input, unread) = tokio::io::duplex(room);
            let said = futures_util::stream::iter([Ok(said.into())]).chain(futures_util::stream::pending());
            let pipes = RendererPipes { input: Box::pin(input), output: said.boxed() };
            (Renderer::behind(pipes, &service.worlds), unread)
        };
        let (mut starting, _unread) = renderer();
        let (renders, _unread) = renderer();
        let mut content = record.open(&patient.cipher);
        tokio::time::pause();
        let for_ever = Duration::from_secs(7 * 86_400);
        let started = timeout(for_ever, starting.ready()).await.expect("the start ends");
        assert!(matches!(&started, Err(RenderError::Crashed(why)) if why == "did not start"), "{started:?}");
        let rendering = service.worlds.render(&live, &patient.cipher, &mut content, Some(renders));
        let rendered = timeout(for_ever, rendering).await.expect("the scene ends");
        assert!(matches!(rendered, Err(RenderError::Slow(_))), "{rendered:?}");
        tokio::time::resume();
    }
}
