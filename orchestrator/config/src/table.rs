//! The settings table: every setting stands here or in [`features`] once, with its type, default, smallest value and help.

mod features;

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use ipnet::IpNet;
use url::Url;

use super::{
    default,
    egress::EgressRule,
    layers::Layers,
    presets::Presets,
    setting::{DefaultValue, Section, Setting},
    settings::{sections, settings},
    units::{AgentTransport, ByteSize, DockerHost, LogFormat},
    upstreams::UpstreamProxies,
    value::Value,
};

use DefaultValue::{Computed, Is, Unset};
pub use features::Captcha;
pub(crate) use features::{Ads, Tasks, World};

settings! {
    /// Where clients reach the daemon, and how much one may ask of it.
    server: Server {
        /// Address and port to listen on; port 0 takes any free one. One that other hosts can reach needs a key.
        listen: SocketAddr = Is("127.0.0.1:4444");
        /// The scheme, host, port and path that clients see, if a reverse proxy stands in front; URLs in replies start with it.
        /// The proxy takes the path away again.
        public_url: Option<Url> = Unset("https://browsers.example.com");
        /// Certificate chain, a PEM file, read again when it changes. With `tls_key` it turns TLS on.
        tls_cert: Option<PathBuf> = Unset("/etc/warmpool/tls/fullchain.pem");
        /// Private key of the certificate, a PEM file, read again when it changes.
        tls_key: Option<PathBuf> = Unset("/etc/warmpool/tls/privkey.pem");
        /// Host names requests may carry beside loopback names, the listening address and the host of `public_url`.
        allowed_hosts: Vec<String> = Unset("browsers.example.com");
        /// Origins whose pages may call the daemon, such as `https://app.example.com`.
        allowed_origins: Vec<String> = Unset("https://app.example.com");
        /// Addresses or networks of proxies whose Forwarded headers are believed.
        trusted_proxies: Vec<IpNet> = Unset("10.0.0.0/8");
        /// Connections open at once; more are left waiting in the listening queue.
        max_connections: usize = Is("10000"), min "1";
        /// Connections open at once from one address, or from one IPv6 network of 64 bits; more are refused. 0 sets no limit.
        /// Trusted proxies have none.
        max_connections_per_address: usize = Is("4000");
        /// Time for a client to send the whole of a request's head.
        header_timeout: Duration = Is("10s"), min "1s";
        /// Time for a client to send the whole of a body that is read at once; within an upload, the time it may pause.
        body_timeout: Duration = Is("60s"), min "1s";
        /// Time a client may take nothing of what is being sent to it; websockets have settings of their own.
        write_timeout: Duration = Is("60s"), min "1s";
        /// Time without a word after which a client's machine is asked whether it is there (TCP keepalive).
        tcp_keepalive: Duration = Is("15s"), min "1s";
        /// Time that such a question, or anything sent, may stay unacknowledged before the connection is given up; longer
        /// than all write_timeouts, since the kernel counts the time in which a client takes nothing as well.
        tcp_user_timeout: Duration = Is("75s"), min "1s";
        /// Size of a request's head.
        max_header_bytes: ByteSize = Is("64KiB"), min "8KiB";
        /// Size of a JSON request's body.
        max_body: ByteSize = Is("1MiB"), min "1KiB";
        /// Memory for the bodies of all requests together, and for what is made of them; where it is full, requests are refused.
        body_memory: ByteSize = Is("128MiB"), min "1MiB";
        /// Whether `/status` and `/metrics` need a key.
        status_needs_key: bool = Is("false");
        /// Failed sign-ins to the console from one address, or from one IPv6 network of 64 bits, within a minute; further
        /// ones get 429 for the rest of that minute, and right keys still pass. 0 sets no limit.
        failed_sign_ins: usize = Is("10");
    }

    /// The container engine.
    docker: Docker {
        /// The Docker engine's socket, as `unix:///path`.
        host: DockerHost = Computed(default::docker_host, "DOCKER_HOST, else unix:///var/run/docker.sock", "unix:///var/run/docker.sock");
        /// The bridge network of the workers, which leads nowhere; made when it is missing.
        network: String = Is("warmpool-workers");
        /// Time for one answer of the engine, to its last byte.
        timeout: Duration = Is("10s"), min "1s";
        /// The same where the engine starts or removes something, which takes longer.
        work_timeout: Duration = Is("60s"), min "1s";
        /// Time between two comparisons of the engine's containers with the pool.
        reconcile_interval: Duration = Is("30s"), min "1s";
        /// The container runtime to ask for; the engine's own default when unset.
        runtime: Option<String> = Unset("crun");
    }

    /// Workers on the nodes of a Docker Swarm, in place of containers on this host. The engine of `docker.host` is then a manager.
    swarm: Swarm {
        /// Whether workers are services of the swarm.
        enabled: bool = Is("false");
        /// Where Swarm may put workers, such as `node.role==worker`; all of these must hold.
        constraints: Vec<String> = Unset("node.role==worker");
        /// The same for Chromium workers alone.
        chromium_constraints: Vec<String> = Unset("node.labels.browser==chromium");
        /// The same for Firefox workers alone.
        firefox_constraints: Vec<String> = Unset("node.labels.browser==firefox");
        /// The same for WebKit workers alone.
        webkit_constraints: Vec<String> = Unset("node.labels.browser==webkit");
        /// The label of nodes over whose values workers are spread evenly.
        spread_over: Option<String> = Unset("node.labels.rack");
        /// The registry, as images name it, that asks nodes for a password.
        registry: Option<String> = Unset("registry.example:5000");
        /// Who the nodes are there.
        registry_user: Option<String> = Unset("warmpool");
        /// File with the password. It is read for each worker, so that it can be changed.
        registry_password_file: Option<PathBuf> = Unset("/run/secrets/warmpool-registry");
        /// Cores of a node that a worker reserves; worker.cpus when unset, and 0 reserves none. Of memory it reserves worker.memory.
        reserved_cpus: Option<f64> = Unset("0.5"), min "0";
        /// Time for Swarm to find a node for a worker.
        placement_timeout: Duration = Is("5s"), min "1s";
        /// Time from a worker's order until its container runs; its node may have to fetch the image first.
        start_timeout: Duration = Is("2m"), min "1s";
        /// Time for which a node that could not start an image gets no more workers of it.
        avoid_for: Duration = Is("1m"), min "1s";
        /// Time without a renewal after which another daemon may take the workers of this instance over. This one stops when it
        /// could not renew its lease for two thirds of it.
        lease: Duration = Is("1m"), min "5s";
        /// Whether the workers' network, which has the name of `docker.network`, must encrypt what goes from node to node.
        encrypted: bool = Is("true");
    }

    /// What leaves the workers. Pages may reach public addresses, and others only where a rule allows it. A rule is a network,
    /// an address or a host name (`*.corp.example` for all below a name, `*` for all that no other rule names), with a port or
    /// without. Keys and presets may have rules of their own, which come first.
    egress: Egress {
        /// What pages may reach beside public addresses: your own sites, on this host as well, such as `127.0.0.1:3000`.
        allow: Vec<EgressRule> = Unset("10.0.0.0/8,intranet.example:8080,127.0.0.1:3000");
        /// What pages may not reach, whatever `allow` says.
        deny: Vec<EgressRule> = Unset("*.tracker.example");
        /// Proxies that sessions with `advanced.proxy` go through. Each is an `[[egress.upstreams]]` table: name, url
        /// (http://, https:// or socks5://), and where wanted username (`{country}`, `{state}`, `{city}`, `{zip}` and `{session}`
        /// in it are filled in), one of password, password_file and password_env, the place (country, state, city, zip) and
        /// weight. A variable or flag takes an array of inline tables.
        upstreams: UpstreamProxies = Unset(r#"[{ name = "germany", url = "socks5://proxy.example.com:1080", username = "user-{session}", password = "secret", country = "de" }]"#);
        /// Time between two looks whether the upstreams answer.
        health_interval: Duration = Is("30s"), min "1s";
        /// Connections open at once from one session.
        max_connections: usize = Is("512"), min "8";
        /// Time for a connection to a site to be there.
        connect_timeout: Duration = Is("30s"), min "1s";
        /// Names that are looked up at once for one session; its others wait.
        max_lookups: usize = Is("16"), min "1";
        /// Time for a name to be looked up.
        lookup_timeout: Duration = Is("10s"), min "1s";
        /// The longest time that the addresses of a name are kept; name servers may say less.
        max_ttl: Duration = Is("1m"), min "0s";
        /// The longest time that it is kept that there is no such name.
        max_negative_ttl: Duration = Is("5s"), min "0s";
    }

    /// One worker: its image, its limits, its life.
    worker: Worker {
        /// Image of the Chromium workers.
        chromium_image: String = Is("warmpool/chromium:latest");
        /// Image of the Firefox workers.
        firefox_image: String = Is("warmpool/firefox:latest");
        /// Image of the WebKit workers.
        webkit_image: String = Is("warmpool/webkit:latest");
        /// How the daemon reaches the agent in a worker: unix shares a folder with each, which must be on this host and
        /// have the same path for the engine; tcp goes over the workers' network; auto takes unix, and tcp with a
        /// docker.runtime that shares no sockets.
        agent_transport: AgentTransport = Is("auto");
        /// Memory of a worker, swap included.
        memory: ByteSize = Is("2GiB"), min "256MiB";
        /// Shared memory (/dev/shm) of a worker; counts towards its memory.
        shm: ByteSize = Is("512MiB"), min "64MiB";
        /// Size of a worker's home and temporary directories, each in memory.
        tmp: ByteSize = Is("1GiB"), min "64MiB";
        /// Cores of a worker; 0 sets no limit.
        cpus: f64 = Is("2.0"), min "0";
        /// Processes and threads of a worker.
        pids: u32 = Is("1024"), min "128";
        /// Time from a worker's start until its browser can be driven.
        ready_timeout: Duration = Is("60s"), min "1s";
        /// Time a worker lives on while it does not hear from the daemon.
        orphan_timeout: Duration = Is("5m"), min "10s";
        /// Time a browser may leave its agent unanswered before it counts as dead.
        unresponsive_timeout: Duration = Is("60s"), min "1s";
        /// Whether the browser's own sandbox is on. Without it a page is held by the container alone.
        sandbox: bool = Is("true");
        /// Switches of Chromium that clients may give beyond those that are known to be safe, by name: `unheard-of`, or
        /// `enable-features=WebMCP` for one item of a list. Those that would weaken the fence stay refused.
        chromium_switches: Vec<String> = Unset("enable-features=WebMCP,use-file-for-fake-video-capture");
        /// The same for Chromium's preferences; each name stands for all that is below it.
        chromium_prefs: Vec<String> = Unset("custom_handlers");
        /// Preferences of Firefox that clients may set beyond those that are known to be safe; each name stands for all that is
        /// below it. Those that would weaken the fence stay refused.
        firefox_prefs: Vec<String> = Unset("toolkit.backgroundtasks");
        /// The same for Firefox's arguments, by name and without a value.
        firefox_args: Vec<String> = Unset("unheard-of");
        /// Whether waiting workers are frozen, so that they use no processor time.
        freeze: bool = Is("true");
        /// Size of one file sent to or fetched from a worker.
        file_limit: ByteSize = Is("256MiB"), min "1KiB";
    }

    /// How many workers there are, and how many wait warm.
    pool: Pool {
        /// Workers at once, warm and in use.
        max_workers: usize = Computed(default::max_workers, "three quarters of the host's memory, 1 GiB a worker, from 2 to 64", "8"), min "1";
        /// Headed Chromium workers kept warm.
        chromium_headed: usize = Computed(default::chromium_headed, "2, less where max_workers leaves no room", "2");
        /// Headless Chromium workers kept warm.
        chromium_headless: usize = Computed(default::chromium_headless, "2, less where max_workers leaves no room", "2");
        /// Headed Firefox workers kept warm; with 0 a worker starts when a client asks for one.
        firefox_headed: usize = Computed(default::other_headed, "1 where the host has 8 GiB and the Chromium workers leave four places", "1");
        /// Headless Firefox workers kept warm.
        firefox_headless: usize = Is("0");
        /// Headed WebKit workers kept warm.
        webkit_headed: usize = Computed(default::other_headed, "1 where the host has 8 GiB and the Chromium workers leave four places", "1");
        /// Headless WebKit workers kept warm.
        webkit_headless: usize = Is("0");
        /// More workers kept warm, with settings: a client who asks for exactly these gets one without any delay.
        /// Each is a `[[pool.presets]]` table: name, engine, mode, count, and of the settings locales, viewport, user_agent.
        /// A variable or flag takes an array of inline tables.
        presets: Presets = Unset(r#"[{ name = "german", engine = "firefox", mode = "headed", count = 1, locales = ["de-DE", "de"], viewport = { width = 1400, height = 900 } }]"#);
        /// Workers started at the same time.
        start_concurrency: usize = Computed(default::start_concurrency, "half the host's cores", "2"), min "1";
        /// Time between a hand-out and the start of the next worker, which leaves the new session's first moments alone.
        refill_delay: Duration = Is("300ms");
    }

    /// Sessions: how many, how long, and the queue before them.
    session: Session {
        /// Sessions at once.
        max_sessions: usize = Computed(default::max_sessions, "pool.max_workers", "8"), min "1";
        /// Sessions at once under one key; 0 sets no limit of its own.
        max_per_key: usize = Is("0");
        /// Life of a session that asks for no `session_timeout`.
        default_timeout: Duration = Is("5m"), min "1s";
        /// The longest `session_timeout` a client may ask for.
        max_timeout: Duration = Is("1d"), min "1s";
        /// Time without any action after which a session that asks for no `idle_timeout` ends; never when unset.
        idle_timeout: Option<Duration> = Unset("2m"), min "1s";
        /// Time a session waits for its first client: a connection, a command, a viewer. Then it ends and frees its place, unless
        /// its client asked for `keep_alive` or a recording; with 0s it waits for its whole `session_timeout`.
        attach_timeout: Duration = Is("5m");
        /// Time a session waits for a client whose connection dropped.
        reconnect_window: Duration = Is("30s");
        /// The page a session opens with when the client names none.
        default_url: Url = Is("https://www.google.com/");
        /// Clients that may wait for a worker; more are refused at once. 0 lets nobody wait.
        queue_length: usize = Is("100");
        /// Time a client may wait for a worker.
        queue_wait: Duration = Is("60s");
        /// Records of ended sessions kept.
        keep_records: usize = Is("10000");
        /// Time a record of an ended session is kept.
        keep_records_for: Duration = Is("7d");
    }

    /// The DevTools relay.
    relay: Relay {
        /// Size of one websocket message.
        max_message: ByteSize = Is("256MiB"), min "64KiB";
        /// Time a peer may take nothing of what is being sent to it.
        write_timeout: Duration = Is("60s"), min "1s";
        /// Websockets open on one session at once.
        max_sockets: usize = Is("32"), min "1";
    }

    /// Watching sessions, and taking them over.
    live: Live {
        /// Viewers of one session at once.
        max_viewers: usize = Is("32"), min "1";
        /// Pictures a second of a headless session, at most.
        frame_rate: u32 = Is("30"), min "1";
        /// JPEG quality of a headless session's pictures, from 1 to 100.
        quality: u32 = Is("60"), min "1";
        /// Time a viewer may take nothing of what is being sent to it.
        write_timeout: Duration = Is("20s"), min "1s";
        /// Time between two signs of life to a viewer: less than a proxy in front waits before it gives a silent connection up.
        ping_interval: Duration = Is("10s"), min "1s";
        /// Share links of one session at once.
        max_shares: usize = Is("100"), min "1";
    }

    /// Recordings of sessions that ask for one.
    recording: Recording {
        /// Pictures a second, at most.
        rate: u32 = Is("10"), min "1";
        /// Size of one session's recording.
        max_size: ByteSize = Is("1GiB"), min "1MiB";
        /// Time a recording is kept.
        keep_for: Duration = Is("7d");
        /// Size of all recordings; the oldest ones go first.
        keep: ByteSize = Is("20GiB");
        /// Disk space that recordings leave free beside `store.min_free`: with less the oldest ones go, and then the running
        /// ones stop.
        reserve: ByteSize = Is("1GiB"), min "1MiB";
    }

    /// The WebDriver forwarder.
    webdriver: WebDriver {
        /// Size of a new session's body, with the profile or the extensions in it.
        max_session_body: ByteSize = Is("8MiB"), min "4KiB";
        /// Size of one command or upload; these are passed on and not kept.
        max_body: ByteSize = Is("256MiB"), min "64KiB";
        /// Time for one command.
        command_timeout: Duration = Is("10m"), min "1s";
        /// Life of a session made at `/session`, where clients of a grid name no `session_timeout`.
        grid_timeout: Duration = Is("1h"), min "1s";
        /// Time without any action after which a session made at `/session` ends, where its client names none.
        grid_idle_timeout: Duration = Is("5m"), min "1s";
    }

    /// The console, the pages for operators at `/console/`.
    console: Console {
        /// Time without use after which a sign-in ends.
        sign_in_timeout: Duration = Is("12h"), min "1s";
        /// Requests, and as many events, that the console's log keeps in memory.
        log_entries: usize = Is("1000"), min "1";
        /// Streams that pages may follow at once; more are refused. A list of sessions with pictures has two.
        max_streams: usize = Is("64"), min "1";
        /// The shortest time between two thumbnails of a session, which are taken only while somebody looks.
        thumbnail_interval: Duration = Is("2s"), min "100ms";
        /// Width of a thumbnail, in pixels.
        thumbnail_width: u32 = Is("360"), min "32";
    }

    /// What the daemon keeps on disk.
    store: Store {
        /// Directory of everything the daemon keeps.
        data_dir: PathBuf = Computed(default::data_dir, "/var/lib/warmpool for root, else $XDG_DATA_HOME/warmpool or ~/.local/share/warmpool", "/var/lib/warmpool");
        /// Free disk space below which nothing new is accepted.
        min_free: ByteSize = Is("512MiB");
        /// Time between two backups.
        backup_interval: Duration = Is("1h"), min "1m";
        /// Backups kept; 0 makes none.
        backups_kept: usize = Is("24");
    }

    /// The end of the daemon.
    drain: Drain {
        /// Time running work is given after SIGTERM; a second SIGTERM ends it at once.
        timeout: Duration = Is("30s");
        /// Time after that for removing the last containers and writing what is left to write. The next start removes what
        /// could not be removed. The service manager must wait for longer than both, and force_timeout.
        close_timeout: Duration = Is("10s"), min "1s";
        /// The same after a second SIGTERM.
        force_timeout: Duration = Is("5s"), min "1s";
        /// Whether SIGTERM leaves sessions and warm browsers to the daemon's next start, as a kill does, in place of ending
        /// them. For service managers that stop a daemon in order to start a newer one.
        keep_sessions: bool = Is("false");
    }

    /// Traces of sessions and tasks, for a collector of OpenTelemetry.
    traces: Traces {
        /// Where a collector takes OTLP over HTTP; unset, nothing is traced. Paths begin with `/v1/traces` there. Headers that
        /// it wants stand in the environment as OTEL_EXPORTER_OTLP_HEADERS.
        endpoint: Option<Url> = Unset("http://127.0.0.1:4318");
        /// The part of traces that is sent, from 0 to 1, where the client has not decided by its `traceparent`.
        sample: f64 = Is("1.0"), min "0";
    }

    /// The log, on standard error.
    log: Log {
        /// `text` for people, `json` for machines.
        format: LogFormat = Is("text");
        /// Which events are logged: a level, or levels by module such as `info,warmpool::pool=debug`.
        filter: String = Is("info");
    }
}

// In the order of the sample file.
sections! {
    server: Server,
    docker: Docker,
    swarm: Swarm,
    egress: Egress,
    worker: Worker,
    pool: Pool,
    session: Session,
    relay: Relay,
    live: Live,
    recording: Recording,
    webdriver: WebDriver,
    tasks: Tasks,
    world: World,
    ads: Ads,
    console: Console,
    captcha: Captcha,
    store: Store,
    drain: Drain,
    traces: Traces,
    log: Log,
}

impl Setting {
    /// The setting named `section.key`.
    pub(super) fn named(name: &str) -> Option<&'static Self> {
        all().find(|setting| setting.name == name)
    }
}

/// Every setting, in the table's order.
pub(super) fn all() -> impl Iterator<Item = &'static Setting> {
    SECTIONS.iter().flat_map(|section| section.settings)
}
