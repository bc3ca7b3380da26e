//! The configuration from the outside: sources in, settings or faults out.

mod command_line;
mod defaults;

use std::time::Duration;

use super::{setting::DefaultValue, *};

const HOST: Host = Host { memory: 16 << 30, cores: 8, root: true, engine: FoundEngine::Docker };

fn env(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
}

fn from_file(text: &str) -> Result<Config, ConfigErrors> {
    Config::resolve(Some(("w.toml", text)), [], &Flags::default(), &HOST)
}

fn with(pairs: &[(&str, &str)]) -> Result<Config, ConfigErrors> {
    let flags = pairs.iter().fold(Flags::default(), |flags, (name, text)| flags.with(name, *text));
    Config::resolve(None, [], &flags, &HOST)
}

/// The one fault of these flags, as it is shown.
fn fault_of(pairs: &[(&str, &str)]) -> String {
    let faults = with(pairs).expect_err("a fault").0;
    assert_eq!(faults.len(), 1, "{faults:?}");
    faults[0].to_string()
}

#[test]
fn nothing_given_is_sound() {
    let config = with(&[]).unwrap();
    assert_eq!(config.server.listen.to_string(), "127.0.0.1:4444");
    assert_eq!(config.worker.memory.bytes(), 2 << 30);
    assert_eq!(config.session.max_timeout, Duration::from_secs(86_400));
    assert_eq!(config.docker.host.socket().to_str(), Some("/var/run/docker.sock"));
    assert_eq!(config.store.data_dir.to_str(), Some("/var/lib/warmpool"));
    assert_eq!((config.pool.max_workers, config.session.max_sessions, config.pool.start_concurrency), (12, 12, 4));
    assert!(!config.needs_key());
    assert_eq!(config.warnings(), Vec::<String>::new());
}

#[test]
fn scenes_are_what_a_renderer_takes() {
    for (name, text) in [
        ("world.width", "4098"),
        ("world.preview_width", "1023"),
        ("world.samples", "1025"),
        ("world.max_images", "101"),
        ("world.max_videos", "101"),
        ("world.max_belongings", "101"),
    ] {
        let fault = fault_of(&[(name, text)]);
        assert!(fault.contains(name) && fault.contains(text), "{fault}");
    }
    assert!(with(&[("world.width", "4096"), ("world.samples", "1024"), ("world.max_belongings", "100")]).is_ok());
}

#[test]
fn flags_win_over_the_environment_and_both_over_the_file() {
    let file = "[log]\nfilter = \"warn\"\n[relay]\nmax_sockets = 1\n[drain]\ntimeout = 5";
    let vars = env(&[("WARMPOOL_LOG_FILTER", "debug"), ("WARMPOOL_RELAY_MAX_SOCKETS", "2")]);
    let flags = Flags::default().with("log.filter", "trace");
    let config = Config::resolve(Some(("w.toml", file)), vars, &flags, &HOST).unwrap();
    assert_eq!((config.log.filter.as_str(), config.relay.max_sockets), ("trace", 2));
    assert_eq!(config.drain.timeout, Duration::from_secs(5));
    assert_eq!(config.source("log.filter"), Some(&Source::Flag));
    assert_eq!(config.source("relay.max_sockets"), Some(&Source::Env));
    assert_eq!(config.source("drain.timeout"), Some(&Source::File { path: "w.toml".to_owned(), line: 6 }));
    assert_eq!(config.source("server.listen"), Some(&Source::Default));
    assert_eq!(config.source("session.max_sessions"), Some(&Source::Computed("pool.max_workers")));
    assert_eq!(config.inputs(), "w.toml; WARMPOOL_RELAY_MAX_SOCKETS, --log-filter");
    assert_eq!(with(&[]).unwrap().inputs(), "no file; no variables or flags");
}

#[test]
fn there_are_connections_for_all_sessions_also_behind_one_address() {
    let limits = |settings: &[(&str, &str)]| {
        let server = &with(settings).unwrap().server;
        (server.max_connections, server.max_connections_per_address)
    };
    assert_eq!(limits(&[]), (10_000, 8000));
    assert_eq!(limits(&[("pool.max_workers", "5000")]), (20_000, 16_000));
    // Below the smallest limit of one address, there is only the limit of all.
    assert_eq!(limits(&[("server.max_connections", "100")]), (100, 4000));
    assert_eq!(limits(&[("server.max_connections_per_address", "0")]), (10_000, 0));
}

#[test]
fn every_fault_of_every_source_is_reported_at_once() {
    let file = "[server]\nlisten = \"here\"\n[worker]\nmemory = \"100MiB\"\nshmm = \"1GiB\"";
    let vars = env(&[("WARMPOOL_SERVER_LISTN", "x"), ("WARMPOOL_DRAIN_TIMEOUT", "soon")]);
    let flags = Flags::default().with("session.default_timeout", "2d");
    let faults = Config::resolve(Some(("w.toml", file)), vars, &flags, &HOST).expect_err("faults");
    let shown = faults.to_string();
    let lines: Vec<_> = shown.lines().map(str::trim).collect();
    assert_eq!(lines[0], "the configuration has 6 faults:");
    for (line, start) in lines[1..].iter().zip([
        "w.toml:5: worker.shmm: no such setting; did you mean shm?",
        "environment WARMPOOL_SERVER_LISTN: no such setting; did you mean WARMPOOL_SERVER_LISTEN?",
        "w.toml:2: server.listen: \"here\" is not an address and port; write an IP address and a port, such as",
        "w.toml:4: worker.memory: 100MiB is too little; write 256MiB or more",
        "environment WARMPOOL_DRAIN_TIMEOUT: drain.timeout: \"soon\" is not a duration",
        "flag --session-default-timeout: session.default_timeout: 2days is more than session.max_timeout, 1day; lower it",
    ]) {
        assert!(line.starts_with(start), "{line}\n{start}");
    }
}

#[test]
fn variables_of_a_clusters_services_have_a_remedy_of_their_own() {
    let remedies = |more: &[(&str, &str)]| -> Vec<String> {
        let of_service = [
            ("WARMPOOL_PORT", "tcp://10.0.0.7:4444"),
            ("WARMPOOL_PORT_4444_TCP_ADDR", "10.0.0.7"),
            ("WARMPOOL_SERVICE_HOST", "10.0.0.7"),
        ];
        let vars = env(&[&of_service[..], more].concat());
        let faults = Config::resolve(None, vars, &Flags::default(), &HOST).expect_err("faults");
        faults.0.into_iter().map(|fault| fault.remedy).collect()
    };
    let of_pod = |remedy: &String| remedy.contains("set enableServiceLinks: false in the Pod");
    let in_a_pod = remedies(&[("KUBERNETES_SERVICE_HOST", "10.0.0.1")]);
    assert!(in_a_pod.len() == 3 && in_a_pod.iter().all(of_pod), "{in_a_pod:?}");
    let elsewhere = remedies(&[]);
    assert!(!elsewhere.iter().any(of_pod), "{elsewhere:?}");
}

#[test]
fn a_value_that_is_no_value_is_refused_with_a_remedy() {
    for (name, text, said) in [
        ("server.listen", "127.0.0.1", "write an IP address and a port"),
        ("server.public_url", "browsers.example.com", "write one with its scheme"),
        ("server.public_url", "ftp://example.com", "neither http nor https"),
        ("server.public_url", "https://example.com/path?q=1", "has a query"),
        ("server.allowed_origins", "https://example.com/path", "is not an origin"),
        ("server.public_url", "https://me:secret@example.com", "user name or password"),
        ("server.tls_cert", "/c.pem", "is set without server.tls_key"),
        ("server.tls_key", "/k.pem", "is set without server.tls_cert"),
        ("server.allowed_hosts", "a.example.com,https://b.example.com", "\"https://b.example.com\" is not a host name"),
        ("server.allowed_hosts", "*", "is not a host name"),
        ("server.allowed_origins", "app.example.com", "is not an origin"),
        ("server.trusted_proxies", "10.0.0.0/33", "is not an address or network"),
        ("server.max_connections", "0", "write 1 or more"),
        ("server.status_needs_key", "maybe", "write true or false"),
        ("server.max_body", "many", "64KiB"),
        ("server.max_body", "9999999999GiB", "is not a size"),
        ("server.body_memory", "16MiB", "less than 4 times webdriver.max_session_body"),
        ("server.keyless_body_share", "65MiB", "more than server.keyless_body_memory, 64MiB"),
        ("server.body_share", "161MiB", "more than server.body_memory, 160MiB"),
        ("server.answer_share", "257MiB", "more than server.answer_memory, 256MiB"),
        ("tasks.keep_size_per_key", "21GiB", "more than tasks.keep_size, 20GiB"),
        ("server.max_keyless_body", "33MiB", "more than server.keyless_body_share, 32MiB"),
        ("tasks.max_body", "64MiB", "less than 4 times tasks.max_body"),
        ("tasks.max_artifacts", "500", "write a number up to 200"),
        ("profiles.keep_versions", "101", "write a number up to 100"),
        ("live.max_shares", "201", "write a number up to 200"),
        ("store.open_timeout", "10ms", "write 1s or more"),
        ("docker.host", "tcp://10.0.0.1:2375", "in the clear"),
        ("docker.host", "ssh://there", "not supported"),
        ("docker.host", "docker.sock", "write unix://"),
        ("docker.network", "host", "the engine's own"),
        ("docker.network", "a b", "use letters"),
        ("docker.selinux_type", "container", "ends in _t"),
        ("docker.selinux_type", "a,label=disable_t", "ends in _t"),
        ("worker.shm", "4GiB", "more than worker.memory, 2GiB"),
        ("worker.file_limit", "2GiB", "more than worker.tmp"),
        ("worker.page_out_after", "0s", "1s"),
        ("worker.cpus", "0.01", "cannot run a browser"),
        ("worker.cpus", "NaN", "is not a number"),
        ("worker.chromium_switches", "unheard-of,no-sandbox", "\"no-sandbox\" would weaken the fence"),
        ("worker.chromium_switches", "--lang", "is not the name of a switch"),
        ("worker.chromium_switches", "enable-features=MojoJS", "names an item that would weaken the fence"),
        ("worker.chromium_prefs", "extensions", "would weaken the fence"),
        ("worker.firefox_prefs", "network.proxy.type", "would weaken the fence"),
        ("worker.firefox_args", "profile", "would weaken the fence"),
        ("worker.cpus", "-1", "is too little"),
        ("worker.chromium_image", " ", "is empty"),
        ("playwright.versions", "1.64,1.65.1", "\"1.65.1\" is not a minor version"),
        ("playwright.versions", "latest", "is not a minor version"),
        ("pool.chromium_headed", "99", "raise it to"),
        (
            "pool.presets",
            r#"[{ name = "a", engine = "firefox", mode = "headed", count = 99, locales = ["de"] }]"#,
            "raise it to",
        ),
        (
            "pool.presets",
            r#"[{ name = "a", engine = "firefox", mode = "headed", count = 1, locales = ["de_DE"] }]"#,
            "must be a locale tag",
        ),
        ("session.default_url", "file:///etc/passwd", "pages are not opened"),
        ("session.default_timeout", "0", "write 1s or more"),
        ("session.idle_timeout", "0s", "write 1s or more"),
        ("session.max_timeout", "99999999999999999999d", "at most ten years"),
        ("log.format", "xml", "write text or json"),
        ("log.filter", "warmpool=loud", "is not a log filter"),
    ] {
        let fault = fault_of(&[(name, text)]);
        assert!(fault.contains(said), "{name} = {text}: {fault}");
        assert!(fault.contains("; "), "no remedy: {fault}");
    }
}

#[test]
fn no_setting_lets_more_through_than_a_worker_takes() {
    for name in ["server.max_body", "webdriver.max_session_body", "session.max_state", "profiles.max_size"] {
        let memory = ("server.body_memory", "1GiB");
        assert!(with(&[memory, (name, "128MiB")]).is_ok(), "{name}");
        let fault = fault_of(&[memory, (name, "129MiB")]);
        assert!(fault.contains(name) && fault.contains("write 128MiB or less"), "{fault}");
    }
}

#[test]
fn limits_themselves_are_allowed() {
    for pairs in [
        &[("worker.shm", "2GiB")][..],
        &[("worker.file_limit", "1GiB")],
        &[("session.default_timeout", "1d")],
        &[("pool.chromium_headed", "6"), ("pool.chromium_headless", "6")],
        &[("worker.memory", "256MiB"), ("worker.shm", "64MiB")],
        &[("server.body_memory", "32MiB")],
    ] {
        with(pairs).unwrap_or_else(|faults| panic!("{pairs:?}: {faults}"));
    }
}

#[test]
fn a_file_is_held_to_its_names_and_types() {
    for (text, said) in [
        ("[serverr]\nlisten = \"x\"", "w.toml:1: serverr: no such section; did you mean [server]?"),
        ("listen = \"127.0.0.1:1\"", "w.toml:1: listen: stands outside of every section; write it under [server]"),
        (
            "[pool]\nkeep_records = 5",
            "w.toml:2: pool.keep_records: no such setting; did you mean session.keep_records?",
        ),
        ("[pool]\nmax_workers = \"8\"", "w.toml:2: pool.max_workers: is a string; write a number"),
        ("[worker]\nfreeze = 1", "is a whole number; write true or false, without quotes"),
        ("[server]\nallowed_hosts = [1]", "is an array of other things; write an array of strings"),
        ("[server]\nlisten = ", "w.toml:2: is not TOML"),
        ("[log]\nfilter = \"a\"\nfilter = \"b\"", "w.toml:3: is not TOML: duplicate key"),
    ] {
        let faults = from_file(text).expect_err("a fault").0;
        assert!(faults[0].to_string().contains(said), "{text}: {}", faults[0]);
        assert_eq!(faults.len(), 1, "{faults:?}");
    }
}

#[test]
fn values_are_read_in_every_notation() {
    let config = from_file(
        "[server]\nallowed_hosts = [\"a.example.com\", \"b.example.com:8443\"]\ntrusted_proxies = \"10.1.2.3, fd00::/8\"\n\
         max_body = 2048\nmax_header_bytes = \"1.5MiB\"\n[session]\nidle_timeout = 90\nqueue_wait = \"1m 30s\"\n\
         keep_records = 1_000\n[worker]\ncpus = 1\ntmp = \"1gb\"\nshm = \"256m\"",
    )
    .unwrap();
    assert_eq!(config.server.allowed_hosts, ["a.example.com", "b.example.com:8443"]);
    assert_eq!((config.server.max_body.bytes(), config.server.max_header_bytes.bytes()), (2048, 1_572_864));
    assert_eq!(config.session.idle_timeout, Some(Duration::from_secs(90)));
    assert_eq!(config.session.queue_wait, Duration::from_secs(90));
    assert_eq!((config.session.keep_records, config.worker.cpus), (1000, 1.0));
    assert_eq!((config.worker.tmp.bytes(), config.worker.shm.bytes()), (1_000_000_000, 256 << 20));
    for (peer, trusted) in [("10.1.2.3", true), ("::ffff:10.1.2.3", true), ("10.1.2.4", false), ("fd12::1", true)] {
        assert_eq!(config.trusts_proxy(peer.parse().unwrap()), trusted, "{peer}");
    }
}

#[test]
fn only_variables_with_our_prefix_are_judged() {
    let fine = env(&[
        ("PATH", "/bin"),
        ("WARMPOOL_URL", "http://127.0.0.1:4444"),
        ("WARMPOOL_SECRET_KEY", "k"),
        ("WARMPOOL_TEST_ENGINE", "x"),
        ("WARMPOOL_CONFIG", "w.toml"),
        ("WARMPOOL_INTEGRATION_KEY", "k"),
        ("WARMPOOL_IMAGE_REPOSITORY", "registry/warmpool"),
        ("WARMPOOL_IMAGE", "warmpool/daemon:latest"),
        ("WARMPOOL_PUBLISH", "127.0.0.1:4444"),
        ("WARMPOOL_WORLD_NAMES_KEY", "k"),
    ]);
    assert!(Config::resolve(None, fine, &Flags::default(), &HOST).is_ok());
    let unknown = env(&[("WARMPOOL_COLOUR_OF_HATS", "red"), ("WARMPOOL_LISTEN", "[::1]:0")]);
    let faults = Config::resolve(None, unknown, &Flags::default(), &HOST).expect_err("a fault").0;
    assert!(faults[0].to_string().contains("warmpool serve --help"), "{}", faults[0]);
    assert_eq!(faults[1].remedy, "did you mean WARMPOOL_SERVER_LISTEN?");
}

#[test]
fn presets_are_tables_of_the_file() {
    let text = r#"[{ name = "a", engine = "firefox", mode = "headed", count = 1, locales = ["de-DE", "de"] },
        { name = "b", engine = "chromium", mode = "headless", count = 1, user_agent = "x; y" }]"#;
    let tables = "[pool]\nmax_workers = 8\n[[pool.presets]]\nname = 'a'\nengine = 'firefox'\nmode = 'headed'\ncount = 1\n\
                  locales = ['de-DE', 'de']\n[[pool.presets]]\nname = 'b'\nengine = 'chromium'\nmode = 'headless'\n\
                  count = 1\nuser_agent = 'x; y'\n";
    let presets = from_file(tables).unwrap().pool.presets.clone();
    assert_eq!(presets, with(&[("pool.presets", text)]).unwrap().pool.presets);
    assert_eq!(from_file(&format!("[pool]\npresets = {text}")).unwrap().pool.presets, presets);
    for earlier in ["['a: firefox headed 1 locales=de']", "'a: firefox headed 1 locales=de'"] {
        let faults = from_file(&format!("[pool]\npresets = {earlier}")).expect_err("a fault").0;
        assert!(faults[0].remedy.contains("[[pool.presets]]"), "{}", faults[0]);
    }
}

#[test]
fn a_fault_names_the_table_of_its_own_setting() {
    for (section, key, table) in
        [("pool", "presets", "[[pool.presets]]"), ("egress", "upstreams", "[[egress.upstreams]]")]
    {
        let faults = from_file(&format!("[{section}]\n{key} = 1")).expect_err("a fault").0;
        assert_eq!(faults[0].remedy, format!("write one {table} table for each"));
    }
}

#[test]
fn what_others_reach_needs_a_key() {
    for (name, text, needed) in [
        ("server.listen", "0.0.0.0:0", true),
        ("server.listen", "[::1]:0", false),
        ("server.public_url", "https://browsers.example.com", true),
        ("server.public_url", "http://localhost:8080", false),
    ] {
        assert_eq!(with(&[(name, text)]).unwrap().needs_key(), needed, "{text}");
    }
}

#[test]
fn risky_settings_are_warned_of() {
    for (name, text, said) in [
        ("server.listen", "0.0.0.0:4444", "in the clear"),
        ("server.public_url", "http://browsers.example.com", "in the clear"),
        ("worker.sandbox", "false", "sandbox is off"),
        ("worker.tmp", "3GiB", "worker.tmp"),
        ("session.max_sessions", "99", "always wait"),
        ("server.write_timeout", "75s", "server.write_timeout"),
        ("relay.write_timeout", "2m", "relay.write_timeout"),
    ] {
        let warnings = with(&[(name, text)]).unwrap().warnings();
        assert!(warnings.len() == 1 && warnings[0].contains(said), "{name}: {warnings:?}");
    }
}

#[test]
fn only_frozen_workers_of_this_host_are_paged_out() {
    let on = ("worker.page_out_after", "1m");
    with(&[on]).unwrap();
    for (other, said) in
        [(("worker.freeze", "false"), "takes its memory back"), (("swarm.enabled", "true"), "other nodes")]
    {
        let faults = with(&[on, other]).expect_err("a fault").to_string();
        assert!(faults.contains("worker.page_out_after") && faults.contains(said), "{faults}");
    }
}

#[test]
fn a_registry_has_a_user_and_a_password() {
    let on = ("swarm.enabled", "true");
    let all =
        [on, ("swarm.registry", "r:5000"), ("swarm.registry_user", "pool"), ("swarm.registry_password_file", "/p")];
    with(&all).unwrap();
    for left_out in 1..all.len() {
        let some: Vec<_> =
            all.into_iter().enumerate().filter(|(at, _)| *at != left_out).map(|(_, pair)| pair).collect();
        let faults = with(&some).expect_err("a fault").to_string();
        assert!(faults.contains(all[left_out].0) && faults.contains("set all three"), "{faults}");
    }
}

#[test]
fn settings_that_kubernetes_cannot_have_are_refused() {
    let on = ("kubernetes.enabled", "true");
    with(&[on]).unwrap();
    with(&[on, ("kubernetes.timeout", "60s")]).unwrap();
    for (name, text, said) in [
        ("swarm.enabled", "true", "a swarm or on Kubernetes"),
        ("worker.agent_transport", "unix", "Pods are on other hosts"),
        ("docker.runtime", "crun", "kubernetes.runtime_class"),
        ("docker.selinux_type", "disable", "unset it"),
        ("worker.page_out_after", "1m", "other nodes"),
        ("kubernetes.context", "a", "kubernetes.kubeconfig is unset"),
        ("kubernetes.namespace", "No", "lower-case"),
        ("kubernetes.node_selector", "pool", "name=value"),
        ("kubernetes.tolerations", "a:b", "key=value:Effect"),
        ("kubernetes.seccomp_profile", "../a", "below the kubelet's folder"),
        ("kubernetes.lease", "5m", "worker.orphan_timeout"),
        ("kubernetes.timeout", "61s", "a third of kubernetes.lease"),
        ("kubernetes.pull_policy", "sometimes", "if_not_present"),
    ] {
        let faults = with(&[on, (name, text)]).expect_err(name).to_string();
        assert!(faults.contains(said), "{name}: {faults}");
    }
}

#[test]
fn every_text_of_the_table_is_sound() {
    for setting in table::all() {
        let (DefaultValue::Is(text) | DefaultValue::Unset(text) | DefaultValue::Computed(_, _, text)) = setting.default;
        let pair = (setting.name, text);
        let partner = match setting.name {
            "server.tls_cert" => Some(("server.tls_key", "/k")),
            "server.tls_key" => Some(("server.tls_cert", "/c")),
            "captcha.webhook_url" => Some(("captcha.webhook_secret_file", "/s")),
            "webhooks.url" => Some(("webhooks.secret_file", "/s")),
            _ => None,
        };
        let all: Vec<_> = std::iter::once(pair).chain(partner).collect();
        with(&all).unwrap_or_else(|faults| panic!("{faults}"));
        if let Some(min) = setting.min {
            // Another rule may forbid the smallest value, but it must be one.
            let said = with(&[(setting.name, min)]).err().map(|faults| faults.to_string()).unwrap_or_default();
            assert!(!said.contains(" is not a") && !said.contains("too little"), "{said}");
        }
    }
}

#[test]
fn the_effective_configuration_is_a_file_with_the_same_settings() {
    let given = [("server.listen", "0.0.0.0:0"), ("session.idle_timeout", "90s"), ("server.allowed_hosts", "a,b")];
    let config = with(&given).unwrap();
    let shown = config.effective();
    assert!(shown.contains("listen = \"0.0.0.0:0\"  # flag --server-listen\n"), "{shown}");
    assert!(shown.contains("# public_url is not set  # default\n"), "{shown}");
    assert!(shown.contains("max_workers = 12  # default, from the host's memory\n"), "{shown}");
    assert_eq!(*from_file(&shown).unwrap(), *config);
}

#[test]
fn the_sample_is_a_comment_and_each_setting_in_it_is_sound() {
    assert_eq!(*from_file(&sample::sample()).unwrap(), *with(&[]).unwrap());
    let is_setting = |line: &&str| line.starts_with('#') && !line.starts_with("# ");
    let uncommented: Vec<_> = sample::sample()
        .lines()
        .map(|line| if is_setting(&line) { line[1..].to_owned() } else { line.to_owned() })
        .collect();
    let config = from_file(&uncommented.join("\n")).unwrap_or_else(|faults| panic!("{faults}"));
    assert!(table::all().all(|setting| matches!(config.source(setting.name), Some(Source::File { .. }))));
}

#[test]
fn the_sample_in_examples_is_the_tables() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/warmpool.toml");
    if std::env::var_os("WARMPOOL_TEST_WRITE").is_some() {
        std::fs::write(path, sample::sample()).unwrap();
    }
    let kept = std::fs::read_to_string(path).unwrap();
    assert!(kept == sample::sample(), "examples/warmpool.toml is stale: run this test with WARMPOOL_TEST_WRITE=1");
}
