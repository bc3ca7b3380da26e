//! Defaults that depend on the host and on other settings.

use super::*;

#[test]
fn defaults_follow_host_environment_and_other_settings() {
    let user = Host { root: false, ..HOST };
    let data_dir = |vars: &[(&str, &str)]| {
        Config::resolve(None, env(vars), &Flags::default(), &user)
            .map(|config| config.store.data_dir.display().to_string())
    };
    assert_eq!(data_dir(&[("HOME", "/home/a")]).unwrap(), "/home/a/.local/share/warmpool");
    assert_eq!(data_dir(&[("HOME", "/home/a"), ("XDG_DATA_HOME", "/data")]).unwrap(), "/data/warmpool");
    let fault = data_dir(&[]).expect_err("no home").0[0].to_string();
    assert!(fault.contains("neither XDG_DATA_HOME nor HOME is set"), "{fault}");

    let elsewhere = env(&[("DOCKER_HOST", "unix:///run/other.sock")]);
    let config = Config::resolve(None, elsewhere, &Flags::default(), &HOST).unwrap();
    assert_eq!(config.docker.host.to_string(), "unix:///run/other.sock");
    for (engine, socket) in [
        (FoundEngine::Docker, "/var/run/docker.sock"),
        (FoundEngine::Podman, "/run/podman/podman.sock"),
        (FoundEngine::RootlessDocker, "/run/user/1000/docker.sock"),
        (FoundEngine::RootlessPodman, "/run/user/1000/podman/podman.sock"),
    ] {
        let (host, vars) = (Host { engine, ..HOST }, [("XDG_RUNTIME_DIR", "/run/user/1000")]);
        let config = Config::resolve(None, env(&vars), &Flags::default(), &host).unwrap();
        assert_eq!(config.docker.host.socket().to_str(), Some(socket));
        let named = env(&[vars[0], ("DOCKER_HOST", "unix:///run/other.sock")]);
        let config = Config::resolve(None, named, &Flags::default(), &host).unwrap();
        assert_eq!(config.docker.host.to_string(), "unix:///run/other.sock");
    }
    // As a service of a user has no XDG_RUNTIME_DIR.
    let host = Host { engine: FoundEngine::RootlessPodman, ..HOST };
    let config = Config::resolve(None, [], &Flags::default(), &host).unwrap();
    let socket = format!("/run/user/{}/podman/podman.sock", nix::unistd::geteuid());
    assert_eq!(config.docker.host.socket().to_str(), Some(&*socket));
    let remote = env(&[("DOCKER_HOST", "tcp://10.0.0.1:2375")]);
    let fault = Config::resolve(None, remote, &Flags::default(), &HOST).expect_err("a fault").0[0].to_string();
    assert!(fault.starts_with("default, from DOCKER_HOST: docker.host:"), "{fault}");

    for (memory, most) in [(1_u64, 2), (8 << 30, 6), (1 << 40, 64)] {
        let host = Host { memory, cores: 1, root: true, ..Host::default() };
        let config = Config::resolve(None, [], &Flags::default(), &host).unwrap();
        assert_eq!((config.pool.max_workers, config.pool.start_concurrency), (most, 1));
    }
    for (memory, given, warm) in [
        (16_u64, &[][..], (1, 1)),
        (7, &[], (0, 0)),
        (16, &[("pool.max_workers", "7")], (0, 0)),
        (16, &[("pool.max_workers", "8")], (1, 1)),
        (16, &[("pool.firefox_headed", "0")], (0, 1)),
        (16, &[("pool.max_workers", "8"), ("pool.firefox_headless", "1")], (0, 0)),
        (
            16,
            &[
                ("pool.max_workers", "8"),
                (
                    "pool.presets",
                    r#"[{ name = "a", engine = "chromium", mode = "headed", count = 1, locales = ["de"] }]"#,
                ),
            ],
            (0, 0),
        ),
    ] {
        let flags = given.iter().fold(Flags::default(), |flags, (name, text)| flags.with(name, *text));
        let host = Host { memory: memory << 30, cores: 2, root: true, ..Host::default() };
        let pool = Config::resolve(None, [], &flags, &host).unwrap().sections.pool;
        assert_eq!((pool.firefox_headed, pool.webkit_headed), warm, "{memory} {given:?}");
    }
    for (given, warm) in [
        (&[("pool.max_workers", "1")][..], (1, 0)),
        (&[("pool.max_workers", "2")], (1, 1)),
        (&[("pool.max_workers", "3")], (2, 1)),
        (&[("pool.max_workers", "4")], (2, 2)),
        (&[("pool.max_workers", "4"), ("pool.chromium_headed", "4")], (4, 0)),
        (
            &[
                ("pool.max_workers", "4"),
                (
                    "pool.presets",
                    r#"[{ name = "a", engine = "firefox", mode = "headed", count = 1, locales = ["de"] }]"#,
                ),
            ],
            (2, 1),
        ),
        (&[("pool.max_workers", "4"), ("pool.chromium_headless", "4")], (0, 4)),
    ] {
        let pool = with(given).unwrap().sections.pool;
        assert_eq!((pool.chromium_headed, pool.chromium_headless), warm, "{given:?}");
    }
}

#[test]
fn only_what_somebody_asked_for_is_needed() {
    for (given, needed) in [
        (&[][..], [true, false, false]),
        (&[("pool.firefox_headed", "0")], [true, false, false]),
        (&[("pool.firefox_headless", "1")], [true, true, false]),
        (
            &[("pool.presets", r#"[{ name = "a", engine = "webkit", mode = "headed", count = 0, locales = ["de"] }]"#)],
            [true, false, true],
        ),
    ] {
        let config = with(given).unwrap();
        assert_eq!(Engine::ALL.map(|engine| config.needs_engine(engine)), needed, "{given:?}");
    }
}
