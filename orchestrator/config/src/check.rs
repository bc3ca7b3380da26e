//! What settings must be beyond their types, alone and together.

use std::time::Duration;

use humantime::format_duration;
use url::Url;
use warmpool_protocol::firefox::{arguments, prefs};
use warmpool_protocol::{preferences::may_be_allowed, switches::check_allowed};

use super::{
    BUILT_IN_AD_LIST,
    layers::Layers,
    table::Sections,
    units::{AgentTransport, ByteSize, CaptchaMode},
};

/// What a byte of a body takes in memory at least: as text, parsed, and copied.
const BODY_MEMORY_PER_BYTE: u64 = 4;

/// Notes every fault of the settings as a whole. Settings that are wrong by themselves are left out.
pub(super) fn check(config: &Sections, layers: &mut Layers<'_>) {
    server(config, layers);
    bodies(config, layers);
    docker(config, layers);
    swarm(config, layers);
    worker(config, layers);
    pool(config, layers);
    session(config, layers);
    tasks(config, layers);
    ads(config, layers);
    captcha(config, layers);
    traces(config, layers);
    if tracing_subscriber::EnvFilter::try_new(&config.log.filter).is_err() {
        let remedy = "write error, warn, info, debug or trace, or such levels by module: info,warmpool::pool=debug";
        layers.fault("log.filter", format!("{:?} is not a log filter", config.log.filter), remedy);
    }
}

/// Notes a fault where a setting is more than another that bounds it.
fn bounded<T: PartialOrd>(
    layers: &mut Layers<'_>,
    (name, value): (&str, T),
    (bound_name, bound): (&str, T),
    shown: impl Fn(T) -> String,
) {
    if layers.sound(&[name, bound_name]) && value > bound {
        let what = format!("{} is more than {bound_name}, {}", shown(value), shown(bound));
        layers.fault(name, what, format!("lower it, or raise {bound_name}"));
    }
}

fn time(duration: Duration) -> String {
    format_duration(duration).to_string()
}

fn traces(config: &Sections, layers: &mut Layers<'_>) {
    let traces = &config.traces;
    if layers.sound(&["traces.endpoint"])
        && let Some(url) = &traces.endpoint
        && (url.scheme() != "http" || plain_url(url).is_err())
    {
        layers.fault(
            "traces.endpoint",
            format!("{url} is not the plain http address of a collector"),
            "run a collector beside the daemon and write its address, such as http://127.0.0.1:4318",
        );
    }
    if traces.sample > 1.0 {
        layers.fault("traces.sample", format!("{} is more than all", traces.sample), "write a number from 0 to 1");
    }
}

fn server(config: &Sections, layers: &mut Layers<'_>) {
    let server = &config.server;
    if layers.sound(&["server.public_url"])
        && let Some(url) = &server.public_url
        && let Err(what) = plain_url(url)
    {
        layers.fault(
            "server.public_url",
            what,
            "write scheme, host, port and at most a path, such as https://browsers.example.com/pool",
        );
    }
    if layers.sound(&["server.tls_cert", "server.tls_key"]) {
        let lonely = match (&server.tls_cert, &server.tls_key) {
            (Some(_), None) => Some(("server.tls_cert", "server.tls_key")),
            (None, Some(_)) => Some(("server.tls_key", "server.tls_cert")),
            _ => None,
        };
        if let Some((given, missing)) = lonely {
            layers.fault(given, format!("is set without {missing}"), "set both for TLS, or neither");
        }
    }
    for host in &server.allowed_hosts {
        let bare = Url::parse(&format!("http://{host}")).is_ok_and(|url| plain_origin(&url).is_ok());
        if !bare || host.contains('*') {
            layers.fault(
                "server.allowed_hosts",
                format!("{host:?} is not a host name"),
                "write names only, such as browsers.example.com",
            );
        }
    }
    for origin in &server.allowed_origins {
        if !Url::parse(origin).is_ok_and(|url| plain_origin(&url).is_ok()) {
            layers.fault(
                "server.allowed_origins",
                format!("{origin:?} is not an origin"),
                "write scheme and host, such as https://app.example.com",
            );
        }
    }
}

fn ads(config: &Sections, layers: &mut Layers<'_>) {
    for list in config.ads.lists.iter().filter(|list| *list != BUILT_IN_AD_LIST) {
        if let Err(error) = std::fs::File::open(list) {
            layers.fault("ads.lists", format!("{list:?} cannot be read: {error}"), "write paths of files that can");
        }
    }
}

fn captcha(config: &Sections, layers: &mut Layers<'_>) {
    let captcha = &config.captcha;
    for (name, url) in [("captcha.webhook_url", &captcha.webhook_url), ("captcha.solver_url", &captcha.solver_url)] {
        if url.as_ref().is_some_and(|url| !matches!(url.scheme(), "http" | "https") || url.host_str().is_none()) {
            layers.fault(name, "is no address of http or https", "write one such as https://api.example.com");
        }
    }
    let solver = captcha.mode == CaptchaMode::Solver;
    for (wanted, name, present, remedy) in [
        (solver, "captcha.solver_url", captcha.solver_url.is_some(), "name the service's address"),
        (
            solver,
            "captcha.solver_key_file",
            captcha.solver_key_file.is_some(),
            "name a file with the key of your account",
        ),
        (
            captcha.webhook_url.is_some(),
            "captcha.webhook_secret_file",
            captcha.webhook_secret_file.is_some(),
            "name a file with a secret, such as one made with `openssl rand -base64 32`",
        ),
    ] {
        if wanted && !present && layers.sound(&[name]) {
            let because =
                if name.ends_with("secret_file") { "captcha.webhook_url" } else { "captcha.mode = \"solver\"" };
            layers.fault(name, format!("is wanted with {because}"), remedy);
        }
    }
}

fn bodies(config: &Sections, layers: &mut Layers<'_>) {
    let memory = config.server.body_memory;
    for (name, size) in [
        ("server.max_body", config.server.max_body),
        ("webdriver.max_session_body", config.webdriver.max_session_body),
        ("tasks.max_body", config.tasks.max_body),
    ] {
        let needs = size.bytes().saturating_mul(BODY_MEMORY_PER_BYTE);
        if layers.sound(&["server.body_memory", name]) && needs > memory.bytes() {
            let what =
                format!("{memory} is less than {BODY_MEMORY_PER_BYTE} times {name}, {size}: no such body would fit");
            layers.fault("server.body_memory", what, format!("raise it, or lower {name}"));
        }
    }
}

/// A URL of nothing but http or https, host, port and path.
fn plain_url(url: &Url) -> Result<(), String> {
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!("{:?} is neither http nor https", url.as_str()));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("carries a user name or password".to_owned());
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(format!("{:?} has a query or fragment", url.as_str()));
    }
    Ok(())
}

/// A URL of nothing but http or https, host and port.
fn plain_origin(url: &Url) -> Result<(), String> {
    if url.path() != "/" {
        return Err(format!("{:?} has a path", url.as_str()));
    }
    plain_url(url)
}

fn docker(config: &Sections, layers: &mut Layers<'_>) {
    let network = config.docker.network.as_str();
    let plain = network.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte));
    if !plain || !network.starts_with(|first: char| first.is_ascii_alphanumeric()) {
        layers.fault("docker.network", format!("{network:?} is not a network name"), "use letters, digits, _, . and -");
    } else if matches!(network, "bridge" | "host" | "none" | "default") {
        let what = format!("{network:?} is a network of the engine's own, where workers would not be kept apart");
        layers.fault("docker.network", what, "name another; it is made when it is missing");
    }
    for (name, word) in [
        ("docker.runtime", config.docker.runtime.as_deref()),
        ("worker.chromium_image", Some(config.worker.chromium_image.as_str())),
        ("worker.firefox_image", Some(config.worker.firefox_image.as_str())),
        ("worker.webkit_image", Some(config.worker.webkit_image.as_str())),
    ] {
        if let Some(word) = word.filter(|word| word.contains(char::is_whitespace)) {
            layers.fault(name, format!("{word:?} has white space in it"), "write one name");
        }
    }
}

fn swarm(config: &Sections, layers: &mut Layers<'_>) {
    if !config.swarm.enabled {
        return;
    }
    if config.worker.agent_transport == AgentTransport::Unix {
        let what = "unix shares a folder, and workers of a swarm are on other hosts";
        layers.fault("worker.agent_transport", what, "set tcp or auto, or swarm.enabled = false");
    }
    if config.docker.runtime.is_some() {
        let what = "a service cannot ask for a container runtime";
        layers.fault("docker.runtime", what, "make it the default of each node's engine, and unset this");
    }
    let swarm = &config.swarm;
    let registry = [
        ("swarm.registry", swarm.registry.is_some()),
        ("swarm.registry_user", swarm.registry_user.is_some()),
        ("swarm.registry_password_file", swarm.registry_password_file.is_some()),
    ];
    if registry.iter().any(|(_, present)| *present) {
        for (name, present) in registry {
            if !present && layers.sound(&[name]) {
                let what = "is wanted, as the registry, its user and the password go together";
                layers.fault(name, what, "set all three, or none");
            }
        }
    }
    if layers.sound(&["swarm.lease", "worker.orphan_timeout"]) && config.swarm.lease >= config.worker.orphan_timeout {
        let what = "workers end before another daemon may take them over, by worker.orphan_timeout";
        layers.fault("swarm.lease", what, "lower it, or raise worker.orphan_timeout");
    }
}

fn worker(config: &Sections, layers: &mut Layers<'_>) {
    let worker = &config.worker;
    let size = |size: ByteSize| size.to_string();
    bounded(layers, ("worker.shm", worker.shm), ("worker.memory", worker.memory), size);
    if layers.sound(&["worker.tmp", "worker.file_limit"]) && worker.file_limit > worker.tmp {
        let what = format!("{} is more than worker.tmp, {}, where files are put", worker.file_limit, worker.tmp);
        layers.fault("worker.file_limit", what, "lower it, or raise worker.tmp");
    }
    if layers.sound(&["worker.cpus"]) && worker.cpus > 0.0 && worker.cpus < 0.1 {
        layers.fault(
            "worker.cpus",
            format!("{} of a core cannot run a browser", worker.cpus),
            "write 0.1 or more, or 0 for no limit",
        );
    }
    for entry in &worker.chromium_switches {
        if let Err(problem) = check_allowed(entry) {
            layers.fault(
                "worker.chromium_switches",
                format!("{entry:?} {problem}"),
                "write names such as use-file-for-fake-video-capture, and items of lists such as enable-features=WebMCP",
            );
        }
    }
    for name in worker.chromium_prefs.iter().filter(|name| !may_be_allowed(name)) {
        layers.fault(
            "worker.chromium_prefs",
            format!(
                "{name:?} is not the dotted name of a preference, or has those below it that would weaken the fence"
            ),
            "write narrower names such as custom_handlers or extensions.ui",
        );
    }
    for name in worker.firefox_prefs.iter().filter(|name| !prefs::may_be_allowed(name)) {
        layers.fault(
            "worker.firefox_prefs",
            format!("{name:?} is not the dotted name of a preference, or would weaken the fence"),
            "write names such as toolkit.backgroundtasks",
        );
    }
    for name in worker.firefox_args.iter().filter(|name| arguments::class(name, &[]) != arguments::Class::Unknown) {
        layers.fault(
            "worker.firefox_args",
            format!("{name:?} is known: it has its effect already, or would weaken the fence"),
            "leave it out",
        );
    }
}

fn pool(config: &Sections, layers: &mut Layers<'_>) {
    let pool = &config.pool;
    let kinds = [
        ("pool.chromium_headed", pool.chromium_headed),
        ("pool.chromium_headless", pool.chromium_headless),
        ("pool.firefox_headed", pool.firefox_headed),
        ("pool.firefox_headless", pool.firefox_headless),
        ("pool.webkit_headed", pool.webkit_headed),
        ("pool.webkit_headless", pool.webkit_headless),
    ];
    let warm = kinds.iter().fold(pool.presets.warm(), |warm, (_, target)| warm.saturating_add(*target));
    let sound = kinds.iter().all(|(name, _)| layers.sound(&[name]));
    let sound = sound && layers.sound(&["pool.max_workers", "pool.presets"]);
    if sound && warm > pool.max_workers {
        let what = format!("{warm} workers would be kept warm where at most {} may run", pool.max_workers);
        layers.fault("pool.max_workers", what, format!("raise it to {warm}, or keep fewer warm"));
    }
}

fn session(config: &Sections, layers: &mut Layers<'_>) {
    let session = &config.session;
    let longest = ("session.max_timeout", session.max_timeout);
    bounded(layers, ("session.default_timeout", session.default_timeout), longest, time);
    let scheme = session.default_url.scheme();
    if layers.sound(&["session.default_url"]) && !matches!(scheme, "http" | "https" | "about" | "data") {
        layers.fault(
            "session.default_url",
            format!("{scheme}: pages are not opened"),
            "write an http, https, about or data URL",
        );
    }
}

fn tasks(config: &Sections, layers: &mut Layers<'_>) {
    let tasks = &config.tasks;
    let longest = ("tasks.max_timeout", tasks.max_timeout);
    bounded(layers, ("tasks.timeout", tasks.timeout), longest, time);
    bounded(layers, longest, ("session.max_timeout", config.session.max_timeout), time);
    let most = ("pool.max_workers", config.pool.max_workers);
    bounded(layers, ("tasks.workers", tasks.workers), most, |workers| workers.to_string());
}
