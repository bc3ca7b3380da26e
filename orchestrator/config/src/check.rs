//! What settings must be beyond their types, alone and together.

mod kubernetes;

use std::time::Duration;

use humantime::format_duration;
use url::Url;
use warmpool_protocol::BODY_LIMIT;
use warmpool_protocol::firefox::{arguments, prefs};
use warmpool_protocol::{playwright_minor, preferences::may_be_allowed, switches::check_allowed};

use super::{
    BUILT_IN_AD_LIST,
    layers::Layers,
    table::Sections,
    units::{AgentTransport, ByteSize, CaptchaMode},
};

/// What a byte of a body takes in memory at least: as text, parsed, and copied.
const BODY_MEMORY_PER_BYTE: u64 = 4;

/// The same of a file that is not parsed, and may be in a form.
const UPLOAD_MEMORY_PER_BYTE: u64 = 2;

/// The widest scene that a renderer makes, in pixels.
const MAX_SCENE_WIDTH: u32 = 4096;

/// The most samples that a renderer takes for a pixel.
const MAX_SCENE_SAMPLES: u32 = 1024;

/// The most images, videos or belongings that a renderer takes for a scene.
const MAX_SCENE_ITEMS: usize = 100;

/// The most artifacts of a task: its record names all of them, and is one value of the store.
const MAX_ARTIFACTS: usize = 200;

/// The most versions of a profile, for the same reason. One of a folder takes up to 460 bytes.
pub const MAX_VERSIONS: usize = 100;

/// The most share links of a session, for the same reason. One takes 250 bytes.
pub const MAX_SHARES: usize = 200;

/// Notes every fault of the settings as a whole. Settings that are wrong by themselves are left out.
pub(super) fn check(config: &Sections, layers: &mut Layers<'_>) {
    server(config, layers);
    bodies(config, layers);
    docker(config, layers);
    swarm(config, layers);
    kubernetes::check(config, layers);
    worker(config, layers);
    playwright(config, layers);
    pool(config, layers);
    session(config, layers);
    tasks(config, layers);
    ads(config, layers);
    services(config, layers);
    traces(config, layers);
    world(config, layers);
    records(config, layers);
    if tracing_subscriber::EnvFilter::try_new(&config.log.filter).is_err() {
        let remedy =
            "write error, warn, info, debug or trace, or such levels by module: info,warmpool_workers::pool=debug";
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

/// Notes a fault of a setting for each that was found, unless the setting is wrong by itself.
fn faults(layers: &mut Layers<'_>, name: &str, remedy: &str, found: impl IntoIterator<Item = String>) {
    if layers.sound(&[name]) {
        found.into_iter().for_each(|what| layers.fault(name, what, remedy));
    }
}

fn time(duration: Duration) -> String {
    format_duration(duration).to_string()
}

/// What one record names all of.
fn records(config: &Sections, layers: &mut Layers<'_>) {
    for (name, number, most) in [
        ("tasks.max_artifacts", config.tasks.max_artifacts, MAX_ARTIFACTS),
        ("profiles.keep_versions", config.profiles.keep_versions, MAX_VERSIONS),
        ("live.max_shares", config.live.max_shares, MAX_SHARES),
    ] {
        let wrong = (number > most).then(|| format!("{number} are too many"));
        faults(layers, name, &format!("write a number up to {most}"), wrong);
    }
}

/// What a renderer takes; more it refuses, and then every world fails.
fn world(config: &Sections, layers: &mut Layers<'_>) {
    let world = &config.world;
    for (name, width) in [("world.width", world.width), ("world.preview_width", world.preview_width)] {
        let wrong = width > MAX_SCENE_WIDTH || width % 2 != 0;
        let remedy = format!("write an even number, {MAX_SCENE_WIDTH} at most");
        faults(layers, name, &remedy, wrong.then(|| format!("{width} is not a width of a scene")));
    }
    let samples = world.samples;
    let remedy = format!("write a number from 1 to {MAX_SCENE_SAMPLES}, or 0 to leave it to the renderer");
    let wrong = (samples > MAX_SCENE_SAMPLES).then(|| format!("{samples} samples are more than a renderer takes"));
    faults(layers, "world.samples", &remedy, wrong);
    for (name, items) in [
        ("world.max_images", world.max_images),
        ("world.max_videos", world.max_videos),
        ("world.max_belongings", world.max_belongings),
    ] {
        let wrong = (items > MAX_SCENE_ITEMS).then(|| format!("{items} are more than a renderer takes"));
        faults(layers, name, &format!("write a number up to {MAX_SCENE_ITEMS}"), wrong);
    }
}

fn traces(config: &Sections, layers: &mut Layers<'_>) {
    let traces = &config.traces;
    let wrong = |url: &&Url| url.scheme() != "http" || plain_url(url).is_err();
    let remedy = "run a collector beside the daemon and write its address, such as http://127.0.0.1:4318";
    let what = |url| format!("{url} is not the plain http address of a collector");
    faults(layers, "traces.endpoint", remedy, traces.endpoint.as_ref().filter(wrong).map(what));
    if traces.sample > 1.0 {
        layers.fault("traces.sample", format!("{} is more than all", traces.sample), "write a number from 0 to 1");
    }
}

fn server(config: &Sections, layers: &mut Layers<'_>) {
    let server = &config.server;
    let remedy = "write scheme, host, port and at most a path, such as https://browsers.example.com/pool";
    let wrong = server.public_url.as_ref().and_then(|url| plain_url(url).err());
    faults(layers, "server.public_url", remedy, wrong);
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
    let is_host = |host: &String| !host.contains('*') && is_plain_origin(&format!("http://{host}"));
    let wrong = server.allowed_hosts.iter().filter(|host| !is_host(host));
    let what = wrong.map(|host| format!("{host:?} is not a host name"));
    faults(layers, "server.allowed_hosts", "write names only, such as browsers.example.com", what);
    let wrong = server.allowed_origins.iter().filter(|origin| !is_plain_origin(origin));
    let what = wrong.map(|origin| format!("{origin:?} is not an origin"));
    faults(layers, "server.allowed_origins", "write scheme and host, such as https://app.example.com", what);
}

fn ads(config: &Sections, layers: &mut Layers<'_>) {
    let own = config.ads.lists.iter().filter(|list| *list != BUILT_IN_AD_LIST);
    let unread = own.filter_map(|list| Some((list, std::fs::File::open(list).err()?)));
    let what = unread.map(|(list, error)| format!("{list:?} cannot be read: {error}"));
    faults(layers, "ads.lists", "write paths of files that can", what);
}

fn services(config: &Sections, layers: &mut Layers<'_>) {
    let captcha = &config.captcha;
    for (name, url) in [
        ("captcha.webhook_url", &captcha.webhook_url),
        ("captcha.solver_url", &captcha.solver_url),
        ("webhooks.url", &config.webhooks.url),
    ] {
        if url.as_ref().is_some_and(|url| !matches!(url.scheme(), "http" | "https") || url.host_str().is_none()) {
            layers.fault(name, "is not an address of http or https", "write one such as https://api.example.com");
        }
    }
    let solver = (captcha.mode == CaptchaMode::Solver, "captcha.mode = \"solver\"");
    let webhook = (captcha.webhook_url.is_some(), "captcha.webhook_url");
    let own = (config.webhooks.url.is_some(), "webhooks.url");
    let key = "name a file with the key of your account";
    let secret = "name a file with a secret, such as one made with `openssl rand -base64 32`";
    for (name, present, (wanted, because), remedy) in [
        ("captcha.solver_url", captcha.solver_url.is_some(), solver, "name the service's address"),
        ("captcha.solver_key_file", captcha.solver_key_file.is_some(), solver, key),
        ("captcha.webhook_secret_file", captcha.webhook_secret_file.is_some(), webhook, secret),
        ("webhooks.secret_file", config.webhooks.secret_file.is_some(), own, secret),
    ] {
        faults(layers, name, remedy, (wanted && !present).then(|| format!("is wanted with {because}")));
    }
}

fn bodies(config: &Sections, layers: &mut Layers<'_>) {
    let server = &config.server;
    let size = |size: ByteSize| size.to_string();
    let share = ("server.keyless_body_share", server.keyless_body_share);
    bounded(layers, share, ("server.keyless_body_memory", server.keyless_body_memory), size);
    bounded(layers, ("server.max_keyless_body", server.max_keyless_body), share, size);
    let share = ("server.body_share", server.body_share);
    bounded(layers, share, ("server.body_memory", server.body_memory), size);
    let share = ("server.answer_share", server.answer_share);
    bounded(layers, share, ("server.answer_memory", server.answer_memory), size);
    let most = ByteSize(BODY_LIMIT as u64);
    for (name, size) in [
        ("server.max_body", server.max_body),
        ("webdriver.max_session_body", config.webdriver.max_session_body),
        ("session.max_state", config.session.max_state),
        ("profiles.max_size", config.profiles.max_size),
    ] {
        let wrong = (size > most).then(|| format!("{size} is more than a worker takes"));
        faults(layers, name, &format!("write {most} or less"), wrong);
    }
    let memory = server.body_memory;
    let parsed = [
        ("server.max_body", config.server.max_body),
        ("webdriver.max_session_body", config.webdriver.max_session_body),
        ("session.max_state", config.session.max_state),
        ("profiles.max_size", config.profiles.max_size),
        ("tasks.max_body", config.tasks.max_body),
        ("pages.max_body", config.pages.max_body),
        ("mcp.max_body", config.mcp.max_body),
    ];
    let parsed = parsed.into_iter().map(|(name, size)| (name, size, BODY_MEMORY_PER_BYTE));
    let uploads = [("extensions.max_size", config.extensions.max_size, UPLOAD_MEMORY_PER_BYTE)];
    for (name, size, times) in parsed.chain(uploads) {
        let needs = size.bytes().saturating_mul(times);
        if layers.sound(&["server.body_memory", name]) && needs > memory.bytes() {
            let what = format!("{memory} is less than {times} times {name}, {size}: no such body would fit");
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

/// Whether this is a URL of nothing but http or https, host and port.
fn is_plain_origin(text: &str) -> bool {
    Url::parse(text).is_ok_and(|url| url.path() == "/" && plain_url(&url).is_ok())
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
    if config.docker.selinux_type.is_some() {
        let what = "nodes' own engines label the workers of a swarm";
        layers.fault("docker.selinux_type", what, "set it in each node's engine, and unset this");
    }
    if config.worker.page_out_after.is_some() {
        let what = "the daemon cannot write the control groups of other nodes";
        layers.fault("worker.page_out_after", what, "unset it, or set swarm.enabled = false");
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
    if layers.sound(&["worker.page_out_after"]) && worker.page_out_after.is_some() && !worker.freeze {
        let what = "a browser that is not frozen takes its memory back at once";
        layers.fault("worker.page_out_after", what, "unset it, or set worker.freeze = true");
    }
    let too_little = worker.cpus > 0.0 && worker.cpus < 0.1;
    let what = too_little.then(|| format!("{} of a core cannot run a browser", worker.cpus));
    faults(layers, "worker.cpus", "write 0.1 or more, or 0 for no limit", what);
    let wrong = worker.chromium_switches.iter().filter_map(|entry| Some((entry, check_allowed(entry).err()?)));
    let what = wrong.map(|(entry, problem)| format!("{entry:?} {problem}"));
    let remedy =
        "write names such as use-file-for-fake-video-capture, and items of lists such as enable-features=WebMCP";
    faults(layers, "worker.chromium_switches", remedy, what);
    let named = |names: &[String], known: fn(&str) -> bool, problem: &str| -> Vec<String> {
        names.iter().filter(|name| !known(name)).map(|name| format!("{name:?} {problem}")).collect()
    };
    let problem = "is not the dotted name of a preference, or has those below it that would weaken the fence";
    let remedy = "write narrower names such as custom_handlers or extensions.ui";
    faults(layers, "worker.chromium_prefs", remedy, named(&worker.chromium_prefs, may_be_allowed, problem));
    let problem = "is not the dotted name of a preference, or would weaken the fence";
    let remedy = "write names such as toolkit.backgroundtasks";
    faults(layers, "worker.firefox_prefs", remedy, named(&worker.firefox_prefs, prefs::may_be_allowed, problem));
    let unknown = |name: &str| arguments::class(name, &[]) == arguments::Class::Unknown;
    let problem = "is known: it has its effect already, or would weaken the fence";
    faults(layers, "worker.firefox_args", "leave it out", named(&worker.firefox_args, unknown, problem));
}

fn playwright(config: &Sections, layers: &mut Layers<'_>) {
    let versions = config.playwright.versions.iter();
    let wrong = versions.filter(|version| playwright_minor(version) != Some(version.as_str()));
    let what = wrong.map(|version| format!("{version:?} is not a minor version"));
    faults(layers, "playwright.versions", "write major and minor version alone, such as 1.65", what);
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
    bounded(layers, ("pages.timeout", config.pages.timeout), longest, time);
    let scheme = session.default_url.scheme();
    let wrong = !matches!(scheme, "http" | "https" | "about" | "data");
    let what = wrong.then(|| format!("{scheme}: pages are not opened"));
    faults(layers, "session.default_url", "write an http, https, about or data URL", what);
}

fn tasks(config: &Sections, layers: &mut Layers<'_>) {
    let tasks = &config.tasks;
    let longest = ("tasks.max_timeout", tasks.max_timeout);
    bounded(layers, ("tasks.timeout", tasks.timeout), longest, time);
    bounded(layers, longest, ("session.max_timeout", config.session.max_timeout), time);
    let most = ("pool.max_workers", config.pool.max_workers);
    bounded(layers, ("tasks.workers", tasks.workers), most, |workers| workers.to_string());
    let share = ("tasks.keep_size_per_key", tasks.keep_size_per_key);
    bounded(layers, share, ("tasks.keep_size", tasks.keep_size), |size| size.to_string());
}
