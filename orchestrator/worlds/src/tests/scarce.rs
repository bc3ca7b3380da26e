//! Worlds on a disk that is full, a store that does not answer, and one that came back from a backup.

use super::*;
use warmpool_store::fault::{FaultGate, StoreFault};

/// The files of a world that was rendered from one picture.
const MADE: [&str; 6] = ["depth.png", "panorama.jpg", "panorama.png", "picture-0.jpg", "preview.jpg", "thumbnail.jpg"];

impl Service {
    /// A renderer that has rendered a scene as soon as it has its job.
    fn renderer(&self) -> Renderer {
        let (jpeg, png) = (b"\xff\xd8\xff\xe0".as_slice(), b"\x89PNG\r\n\x1a\n".as_slice());
        let hotspots = json!({"initial_view": {"yaw": 1.0}, "items": []}).to_string();
        let files = [
            ("preview.jpg", jpeg),
            ("thumbnail.jpg", jpeg),
            ("hotspots.json", hotspots.as_bytes()),
            ("scene.jpg", jpeg),
            ("scene.png", png),
            ("depth.png", png),
        ];
        let coded = |bytes: &[u8]| base64::engine::general_purpose::STANDARD.encode(bytes);
        let mut said: Vec<_> =
            files.map(|(name, bytes)| json!({"event": "file", "name": name, "data": coded(bytes)})).into();
        said.push(json!({"event": "done"}));
        let lines = said.into_iter().map(|event| Ok(format!("{event}\n").into()));
        let output = futures_util::stream::iter(lines).chain(futures_util::stream::pending()).boxed();
        Renderer::behind(RendererPipes { input: Box::pin(tokio::io::sink()), output }, &self.worlds)
    }

    /// Renders a world, and returns what it shows then.
    async fn render(&self, world: &WorldRecord) -> Result<Content, RenderError> {
        let patient = self.worlds.patient(world).await.unwrap();
        let (live, mut content) = (LiveWorld::new(world.clone()), world.open(&patient.cipher));
        self.worlds.render(&live, &patient.cipher, &mut content, Some(self.renderer())).await?;
        Ok(content)
    }

    fn sorted_files(&self, world: &WorldRecord) -> Vec<String> {
        let mut files = self.files(world);
        files.sort_unstable();
        files
    }
}

#[tokio::test]
async fn a_full_disk_fails_no_world() {
    let service = Service::new(&[]).await;
    let key = service.key("ward").await;
    let world = service.attach(&key, &picture()).await;
    // The first time that one of these is written, there is no room for it.
    for name in ["picture-0.jpg", "preview.jpg", "depth.png"] {
        let unfinished = service.worlds.shared.files.path(&world.world_id, &format!("{name}.new"));
        std::os::unix::fs::symlink("/dev/full", unfinished).unwrap();
    }
    let content = timeout(PATIENCE, service.render(&world)).await.unwrap().unwrap();
    assert_eq!(content.pictures().next().unwrap(), Some("picture-0.jpg"));
    assert_eq!(service.sorted_files(&world), MADE);
}

#[tokio::test]
async fn a_store_that_does_not_answer_takes_nothing_of_a_scenes_time() {
    let service = Service::new(&[("WARMPOOL_WORLD_RENDER_TIMEOUT", "60s")]).await;
    let key = service.key("ward").await;
    let world = service.generate(&key, 0).await.unwrap();
    let patient = service.worlds.patient(&world).await.unwrap();
    let (live, mut content) = (LiveWorld::new(world.clone()), world.open(&patient.cipher));
    let gate = FaultGate::default();
    service.faults.next(FaultPoint::Read, StoreFault::Hang(gate.clone()));
    tokio::time::pause();
    let renderer = Some(service.renderer());
    let mut rendering = std::pin::pin!(service.worlds.render(&live, &patient.cipher, &mut content, renderer));
    let waited = timeout(Duration::from_secs(600), &mut rendering).await;
    assert!(waited.is_err(), "it waits with what it has: {waited:?}");
    tokio::time::resume();
    gate.open();
    timeout(PATIENCE, rendering).await.unwrap().unwrap();
    assert_eq!(live.record().open(&patient.cipher).initial_yaw, 1.0, "what it shows is kept");
}

#[tokio::test]
async fn a_world_whose_turn_comes_waits_for_the_store() {
    let service = Service::new(&[]).await;
    let key = service.key("ward").await;
    let world = service.attach(&key, &picture()).await;
    let gate = FaultGate::default();
    service.faults.next(FaultPoint::Read, StoreFault::Hang(gate.clone()));
    tokio::time::pause();
    let worlds = service.worlds.clone();
    let renderer = tokio::spawn(async move { worlds.render_in_turn().await });
    tokio::time::sleep(Duration::from_secs(600)).await;
    tokio::time::resume();
    gate.open();
    until("it is prepared", || service.files(&world) == ["picture-0.jpg"]).await;
    assert_eq!(service.find(&key, &world).await.unwrap().status, Status::Rendering);
    renderer.abort();
}

#[tokio::test]
async fn no_world_leaves_the_queue_while_the_disk_is_nearly_full() {
    let service = Service::new(&[]).await;
    let key = service.key("ward").await;
    let worlds = [service.generate(&key, 0).await.unwrap(), service.generate(&key, 1).await.unwrap()];
    service.faults.set_free_bytes(MIN_FREE / 2);
    until("it is measured", || service.store.shortage().is_some()).await;
    let of = service.worlds.clone();
    let renderer = tokio::spawn(async move { of.render_in_turn().await });
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(service.worlds.counts(), (2, 0));
    // What waits can be deleted meanwhile.
    service.worlds.delete(worlds[0].world_id.as_str(), &caller(&key)).await.unwrap();
    service.faults.set_free_bytes(MIN_FREE);
    service.reaches(&worlds[1], Status::Rendering).await;
    renderer.abort();
}

#[tokio::test]
async fn a_world_whose_record_is_older_than_its_files_is_made_of_them() {
    let service = Service::new(&[]).await;
    let key = service.key("ward").await;
    let attached = service.attach(&key, &picture()).await;
    let unmarked = service.attach(&key, &[picture(), vec![0]].concat()).await;
    let fetched = {
        let body = json!({
            "patient_id": "p", "patient_name": "Ann", "environment_type": "garden",
            "images": [{"label": "Our wedding", "url": "https://gone.example/wedding.jpg"}],
        });
        let request = WorldRequest::check(serde_json::from_value(body).unwrap(), service.worlds.limits()).unwrap();
        service.worlds.generate(&key, request, &mut RequestEntry::begin(), ()).await.unwrap().record
    };
    let (cipher, files) = (service.worlds.patient(&attached).await.unwrap().cipher, &service.worlds.shared.files);
    for world in [&attached, &unmarked, &fetched] {
        files.put(&cipher, &world.world_id, "picture-0.jpg", "made before".into()).await.unwrap();
    }
    // As the restore of a backup leaves a world that was queued in it, and was rendered since.
    files.remove(&attached.world_id, "upload-0").await.unwrap();
    for world in [&attached, &unmarked, &fetched] {
        let content = service.render(world).await.unwrap();
        assert_eq!(content.pictures().next().unwrap(), Some("picture-0.jpg"));
        assert_eq!(service.sorted_files(world), MADE);
    }
    let kept = async |world: &WorldRecord| files.get(&cipher, &world.world_id, "picture-0.jpg").await.unwrap();
    assert_eq!((kept(&attached).await, kept(&fetched).await), ("made before".into(), "made before".into()));
    assert_ne!(kept(&unmarked).await, "made before", "what was sent is still there");
}
