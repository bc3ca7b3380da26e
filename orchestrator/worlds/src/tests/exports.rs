//! Exports of all that is kept of a patient.

use super::*;

/// Whether this process has an archive in a file that no folder names.
fn has_unnamed_archive() -> bool {
    let open = std::fs::read_dir("/proc/self/fd").unwrap().filter_map(|entry| Some(entry.ok()?.path()));
    let unnamed = |path: &std::path::PathBuf| {
        std::fs::read_link(path).is_ok_and(|link| link.to_string_lossy().ends_with("(deleted)"))
    };
    open.filter(unnamed).any(|path| std::fs::read(path).is_ok_and(|bytes| bytes.starts_with(b"PK")))
}

#[tokio::test]
async fn an_export_is_read_without_a_file_and_one_at_a_time() {
    let service = Service::new(&[]).await;
    let (key, other) = (service.key("ward").await, service.key_of("ba9876543210", "other").await);
    let picture = picture();
    let world = service.attach(&key, &picture).await;
    service.generate(&other, 0).await.unwrap();

    let export = async |key: &IntegrationKey| service.worlds.export("p", &caller(key)).await.map(Box::pin);
    let mut reading = export(&key).await.unwrap();
    let mut bytes = reading.next().await.unwrap().unwrap().to_vec();
    assert!(!has_unnamed_archive(), "nothing of it lies on the disk");
    assert!(matches!(export(&key).await.map(drop), Err(Error::Exporting)));
    assert!(export(&other).await.is_ok(), "another key's does not wait for it");
    while let Some(piece) = reading.next().await {
        bytes.extend_from_slice(&piece.unwrap());
    }
    let mut archive = zip::ZipArchive::new(std::io::Cursor::new(bytes)).unwrap();
    let mut read = |name: &str| {
        let mut content = Vec::new();
        std::io::Read::read_to_end(&mut archive.by_name(name).unwrap(), &mut content).unwrap();
        content
    };
    let about: serde_json::Value = serde_json::from_slice(&read("patient.json")).unwrap();
    let patient = &about["patients"][0];
    assert_eq!((&patient["patient_name"], &patient["worlds"][0]["status"]), (&json!("Ann"), &json!("queued")));
    assert_eq!(read(&format!("{}/upload-0", world.world_id)), picture);
    drop(export(&key).await.unwrap());
    assert!(export(&key).await.is_ok(), "one that is dropped gives its place back");
    let unknown = service.worlds.export("q", &caller(&key)).await.map(drop);
    assert!(matches!(unknown, Err(Error::UnknownPatient)) && export(&key).await.is_ok());
}

#[tokio::test]
async fn an_export_of_many_worlds_has_one_at_a_time_in_memory() {
    const WORLDS: usize = 30;
    let service = Service::new(&[]).await;
    let key = service.key("ward").await;
    for variation in 0..WORLDS {
        // Nothing that a compression makes short.
        let url = || format!("https://a.example/?{}", hex::encode(warmpool_core::ids::random_bytes::<400>()));
        let images: Vec<_> = (0..12).map(|_| json!({"url": url(), "label": "y"})).collect();
        let belongings: Vec<_> = (0..20).map(|_| json!({"url": url(), "label": "y"})).collect();
        let body = json!({
            "patient_id": "p", "patient_name": "Ann", "environment_type": "garden", "variation": variation,
            "images": images, "belongings": belongings,
        });
        let request = WorldRequest::check(serde_json::from_value(body).unwrap(), service.worlds.limits()).unwrap();
        service.worlds.generate(&key, request, &mut RequestEntry::begin(), ()).await.unwrap();
    }
    let mut reading = Box::pin(service.worlds.export("p", &caller(&key)).await.unwrap());
    let mut bytes = Vec::new();
    while let Some(piece) = reading.next().await {
        let piece = piece.unwrap();
        assert!((1..128 << 10).contains(&piece.len()), "a piece of {} bytes", piece.len());
        bytes.extend_from_slice(&piece);
    }
    assert!(bytes.len() > 256 << 10, "{} bytes are more than one piece", bytes.len());
    let mut archive = zip::ZipArchive::new(std::io::Cursor::new(bytes)).unwrap();
    let about: serde_json::Value = serde_json::from_reader(archive.by_name("patient.json").unwrap()).unwrap();
    let worlds = about["patients"][0]["worlds"].as_array().unwrap();
    assert_eq!(worlds.len(), WORLDS);
    assert!(worlds.iter().all(|world| world["content"]["items"].as_array().unwrap().len() == 32));
}

#[tokio::test]
async fn an_export_tells_the_people_apart_whom_two_integrations_call_the_same() {
    let service = Service::new(&[]).await;
    let (one, two, other) =
        (service.key("one").await, service.key("two").await, service.key_of("ba9876543210", "other").await);
    let mut worlds = Vec::new();
    for (key, name) in [(&one, "Ann"), (&two, "Bob"), (&other, "Eve")] {
        let request = WorldRequest { patient_name: name.to_owned(), ..service.request(0) };
        let accepted = service.worlds.generate(key, request, &mut RequestEntry::begin(), ()).await.unwrap();
        worlds.push(accepted.record.world_id);
    }
    let patients = async |caller: WorldCaller| {
        let mut reading = Box::pin(service.worlds.export("p", &caller).await.unwrap());
        let mut bytes = Vec::new();
        while let Some(piece) = reading.next().await {
            bytes.extend_from_slice(&piece.unwrap());
        }
        let mut archive = zip::ZipArchive::new(std::io::Cursor::new(bytes)).unwrap();
        let about: serde_json::Value = serde_json::from_reader(archive.by_name("patient.json").unwrap()).unwrap();
        let mut patients = about["patients"].as_array().unwrap().clone();
        patients.sort_by_key(|patient| patient["patient_name"].to_string());
        let said = |patient: &serde_json::Value| {
            let worlds = patient["worlds"].as_array().unwrap().iter().map(|world| world["world_id"].clone());
            let text = |member: &str| patient[member].as_str().unwrap().to_owned();
            (text("patient_id"), text("patient_name"), text("key_id"), text("key_name"), worlds.collect::<Vec<_>>())
        };
        patients.iter().map(said).collect::<Vec<_>>()
    };
    let expected = |name: &str, key: &IntegrationKey, world: &WorldId| {
        ("p".to_owned(), name.to_owned(), key.id.to_string(), key.name.clone(), vec![json!(world)])
    };
    let (ann, bob) = (expected("Ann", &one, &worlds[0]), expected("Bob", &two, &worlds[1]));
    assert_eq!(patients(WorldCaller::Operator(one.details.owner.clone())).await, [ann.clone(), bob]);
    assert_eq!(patients(caller(&one)).await, [ann]);
}
