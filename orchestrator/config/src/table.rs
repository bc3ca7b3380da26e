//! The settings table: every setting stands here, in [`clusters`] or in [`features`] once, with its type, default, smallest value and help.

mod clusters;
mod features;

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use ipnet::IpNet;
use url::Url;

use super::{
    ca_certificates::CaCertificates,
    default,
    egress::EgressRule,
    layers::Layers,
    presets::Presets,
    setting::{DefaultValue, Section, Setting},
    settings::{sections, settings},
    units::{AgentTransport, ByteSize, DockerHost, LogFormat, SelinuxType},
    upstreams::UpstreamProxies,
    value::Value,
};

use DefaultValue::{Computed, Is, Unset};
pub(crate) use clusters::{Kubernetes, Swarm};
pub(crate) use features::{Ads, Mcp, Pages, Playwright, Tasks, WebDriver, Webhooks, World};
pub use features::{CaptchaSettings, ExtensionSettings, LogSettings, ProfileSettings, RecordingSettings};

settings! {
    /// The address clients connect to, TLS, and limits on requests.
    server: Server {
        /// Address and port to listen on; port 0 picks a free one. An address that other hosts can reach needs a key.
        listen: SocketAddr = Is("127.0.0.1:4444");
        /// Base URL of the daemon as clients see it behind a reverse proxy; URLs in replies start with it. The proxy must strip
        /// its path.
        public_url: Option<Url> = Unset("https://browsers.example.com");
        /// PEM file with the certificate chain, reloaded when it changes. Together with `tls_key` it turns TLS on.
        tls_cert: Option<PathBuf> = Unset("/etc/warmpool/tls/fullchain.pem");
        /// PEM file with the certificate's private key, reloaded when it changes.
        tls_key: Option<PathBuf> = Unset("/etc/warmpool/tls/privkey.pem");
        /// Host names accepted in requests. Loopback names, IP addresses and the host of `public_url` are always accepted.
        allowed_hosts: Vec<String> = Unset("browsers.example.com");
        /// Origins whose pages may call the daemon, such as `https://app.example.com`.
        allowed_origins: Vec<String> = Unset("https://app.example.com");
        /// Addresses or networks of proxies whose `X-Forwarded-For`, `X-Forwarded-Proto` and `X-Forwarded-Host` are trusted; of the
        /// first, the last address counts. `Forwarded` is not read.
        trusted_proxies: Vec<IpNet> = Unset("10.0.0.0/8");
        /// Maximum number of open connections, websockets included; more wait in the listen queue.
        max_connections: usize = Computed(default::max_connections, "10000, or 4 for each of session.max_sessions where that is more", "10000"), min "1";
        /// Maximum number of open connections from one address or IPv6 /64 network, websockets included; 0 sets no limit. Trusted
        /// proxies have none.
        max_connections_per_address: usize = Computed(default::connections_per_address, "4000, or four fifths of max_connections where that is more", "8000");
        /// Timeout for receiving a request's headers. It starts with their first byte, and on a new connection at once.
        header_timeout: Duration = Is("10s"), min "1s";
        /// Idle time after which a kept connection is closed. It should be longer than that of a load balancer in front.
        keep_alive_timeout: Duration = Is("75s"), min "1s";
        /// Timeout for receiving a request's body; for an upload, the longest pause within it.
        body_timeout: Duration = Is("60s"), min "1s";
        /// Timeout for a write that makes no progress because the client does not read. Websockets have their own settings.
        write_timeout: Duration = Is("60s"), min "1s";
        /// Idle time before TCP keep-alive probes start.
        tcp_keepalive: Duration = Is("15s"), min "1s";
        /// Time that sent data or a probe may stay unacknowledged before the connection is closed (TCP_USER_TIMEOUT). It must
        /// be longer than every write_timeout, since the kernel also counts the time in which a client does not read.
        tcp_user_timeout: Duration = Is("75s"), min "1s";
        /// Maximum size of a request's headers.
        max_header_bytes: ByteSize = Is("64KiB"), min "8KiB";
        /// Maximum size of a JSON request body, 128MiB at most.
        max_body: ByteSize = Is("1MiB"), min "1KiB";
        /// Memory for the bodies of all requests in progress, including what they are parsed into; past it they are refused.
        body_memory: ByteSize = Is("160MiB"), min "1MiB";
        /// Maximum part of `body_memory` that the bodies of one key's requests may take, or of one address or IPv6 /64 network where the
        /// key is no service key; no body takes more.
        body_share: ByteSize = Computed(default::body_share, "three quarters of body_memory", "120MiB"), min "64KiB";
        /// Maximum size of a request body where no key is needed: that of a sign-in to the console, and that of `/graphql`.
        max_keyless_body: ByteSize = Is("64KiB"), min "1KiB";
        /// Memory for the bodies of requests in progress whose key is not in a header, in addition to `body_memory`: those that need
        /// none, and requests for worlds whose key is in the body, until that is read.
        keyless_body_memory: ByteSize = Is("64MiB"), min "1MiB";
        /// Maximum part of `keyless_body_memory` that bodies from one address or IPv6 /64 network may take; no such body is longer.
        keyless_body_share: ByteSize = Is("32MiB"), min "64KiB";
        /// Memory for the responses that are in memory as a whole until the client has read them, such as states and pictures, and for
        /// results of tasks that are read as lines; when it is full, requests for more are refused. Responses of up to 64 KiB do not count.
        answer_memory: ByteSize = Is("256MiB"), min "1MiB";
        /// Maximum part of `answer_memory` that the responses to one key may take, or to one address or IPv6 /64 network where no key is
        /// needed; no such response is longer.
        answer_share: ByteSize = Computed(default::answer_share, "half of answer_memory", "128MiB"), min "64KiB";
        /// Whether `/status` and `/metrics` require a key, and with them `/ping`, `/pressure`, `/graphql` and `/wd/hub/status`.
        status_needs_key: bool = Is("false");
        /// Failed sign-ins to the console allowed a minute from one address or IPv6 /64 network; further ones get 429 for the
        /// rest of that minute, while valid keys still pass. 0 sets no limit.
        failed_sign_ins: usize = Is("10");
    }

    /// The engine that runs the workers: Docker or Podman.
    docker: Docker {
        /// Socket of the engine, as `unix:///path`.
        host: DockerHost = Computed(default::docker_host, "DOCKER_HOST, else the socket of Docker, of Podman, or of the user's own Docker or Podman", "unix:///var/run/docker.sock");
        /// Network of agents that use TCP, which they leave at once; created when it is missing. Other workers have none.
        network: String = Is("warmpool-workers");
        /// Timeout for a request to the engine, to the last byte of its response.
        timeout: Duration = Is("10s"), min "1s";
        /// Timeout for requests that start or remove something, which take longer.
        work_timeout: Duration = Is("60s"), min "1s";
        /// Interval at which the engine's containers are compared with the pool.
        reconcile_interval: Duration = Is("30s"), min "1s";
        /// Container runtime of the workers; the engine's default when unset. Podman has it in containers.conf instead.
        runtime: Option<String> = Unset("crun");
        /// SELinux type of the workers' processes, or `disable`: then SELinux does not confine them. The engine's own when unset. It
        /// has an effect where SELinux is on and the engine labels containers.
        selinux_type: Option<SelinuxType> = Unset("container_userns_t");
    }

    /// Connections from pages to other hosts. Pages may reach public addresses, and other addresses only where a rule allows it.
    /// A rule is a network, an address or a host name (`*.corp.example` for all names below a domain, `*` for all that no other
    /// rule names), with or without a port. Keys and presets may have their own rules, which take precedence.
    egress: Egress {
        /// Rules for what pages may reach besides public addresses, such as your own sites, also on this host (`127.0.0.1:3000`).
        allow: Vec<EgressRule> = Unset("10.0.0.0/8,intranet.example:8080,127.0.0.1:3000");
        /// Rules for what pages must not reach, whatever `allow` says.
        deny: Vec<EgressRule> = Unset("*.tracker.example");
        /// Files with certificates of authorities, in PEM form, that browsers trust beside the public ones, for sites with a private
        /// authority. They are read at the start of the daemon. A preset has its own in `egress.ca_certificates`, a key by
        /// `--egress-ca-certificates` of `warmpool key create` or `warmpool key egress`.
        ca_certificates: Vec<CaCertificates> = Unset("/etc/warmpool/corporate-ca.pem");
        /// Upstream proxies for sessions with `advanced.proxy`. Each is an `[[egress.upstreams]]` table: name, url (http://,
        /// https:// or socks5://), and optionally username (`{country}`, `{state}`, `{city}`, `{zip}` and `{session}` in it are
        /// filled in), one of password, password_file and password_env, the location (country, state, city, zip) and weight.
        /// A variable or flag takes an array of inline tables.
        upstreams: UpstreamProxies = Unset(r#"[{ name = "germany", url = "socks5://proxy.example.com:1080", username = "user-{session}", password = "secret", country = "de" }]"#);
        /// Interval between health checks of the upstream proxies.
        health_interval: Duration = Is("30s"), min "1s";
        /// Maximum number of open connections from one session.
        max_connections: usize = Is("512"), min "8";
        /// Timeout for connecting to a site.
        connect_timeout: Duration = Is("30s"), min "1s";
        /// Maximum number of concurrent DNS lookups for one session; more wait.
        max_lookups: usize = Is("16"), min "1";
        /// Timeout for a DNS lookup.
        lookup_timeout: Duration = Is("10s"), min "1s";
        /// Maximum time that the addresses of a name are cached; name servers may set a shorter one.
        max_ttl: Duration = Is("1m"), min "0s";
        /// Maximum time that the absence of a name is cached.
        max_negative_ttl: Duration = Is("5s"), min "0s";
    }

    /// Worker containers: images, limits, timeouts.
    worker: Worker {
        /// Image of Chromium workers.
        chromium_image: String = Is("warmpool/chromium:latest");
        /// Image of Firefox workers.
        firefox_image: String = Is("warmpool/firefox:latest");
        /// Image of WebKit workers.
        webkit_image: String = Is("warmpool/webkit:latest");
        /// Transport to the agent in a worker: unix uses a socket in a folder shared with the worker, which must be on this host
        /// and have the same path for the engine; tcp uses the workers' network; auto picks unix, or tcp with a docker.runtime
        /// that cannot share sockets.
        agent_transport: AgentTransport = Is("auto");
        /// Memory limit of a worker, including swap. With `page_out_after` a worker may use as much swap besides.
        memory: ByteSize = Is("2GiB"), min "256MiB";
        /// Size of a worker's shared memory (/dev/shm), which counts towards its memory.
        shm: ByteSize = Is("512MiB"), min "64MiB";
        /// Size of each of a worker's home and temporary directories, which are kept in memory.
        tmp: ByteSize = Is("1GiB"), min "64MiB";
        /// CPU limit of a worker, in cores; 0 sets no limit.
        cpus: f64 = Is("2.0"), min "0";
        /// Maximum number of processes and threads of a worker.
        pids: u32 = Is("1024"), min "128";
        /// Timeout for a worker's browser to become ready after the worker starts.
        ready_timeout: Duration = Is("60s"), min "1s";
        /// Time after which a worker that does not hear from the daemon ends.
        orphan_timeout: Duration = Is("5m"), min "10s";
        /// Time after which a browser that does not answer its agent counts as dead.
        unresponsive_timeout: Duration = Is("60s"), min "1s";
        /// Whether the browser's own sandbox is on. Without it only the container isolates a page.
        sandbox: bool = Is("true");
        /// Chromium switches that clients may pass in addition to the known safe ones, by name: `unheard-of`, or
        /// `enable-features=WebMCP` for one item of a list. Switches that would weaken the isolation stay refused.
        chromium_switches: Vec<String> = Unset("enable-features=WebMCP,use-file-for-fake-video-capture");
        /// Chromium preferences that clients may set in addition to the known safe ones; a name includes everything below it.
        chromium_prefs: Vec<String> = Unset("custom_handlers");
        /// Firefox preferences that clients may set in addition to the known safe ones; a name includes everything below it.
        /// Preferences that would weaken the isolation stay refused.
        firefox_prefs: Vec<String> = Unset("toolkit.backgroundtasks");
        /// Firefox arguments that clients may pass in addition to the known safe ones, by name and without a value.
        firefox_args: Vec<String> = Unset("unheard-of");
        /// Whether warm workers are frozen while they wait, so that they use no CPU time.
        freeze: bool = Is("true");
        /// Time after which the memory of a warm worker that still waits goes to the host's swap, from which it comes back as a client
        /// needs it. Takes swap, such as zram, workers that are frozen, and a daemon that may write the control groups of containers.
        page_out_after: Option<Duration> = Unset("1m"), min "1s";
        /// Maximum size of a file sent to or fetched from a worker.
        file_limit: ByteSize = Is("256MiB"), min "1KiB";
    }

    /// The number of workers, and how many are kept warm.
    pool: Pool {
        /// Maximum number of workers, warm and in use.
        max_workers: usize = Computed(default::max_workers, "three quarters of the host's memory, 1 GiB a worker, from 2 to 64", "8"), min "1";
        /// Number of headed Chromium workers kept warm.
        chromium_headed: usize = Computed(default::chromium_headed, "2, less where max_workers leaves no room", "2");
        /// Number of headless Chromium workers kept warm.
        chromium_headless: usize = Computed(default::chromium_headless, "2, less where max_workers leaves no room", "2");
        /// Number of headed Firefox workers kept warm; with 0 a worker starts when a client asks for one.
        firefox_headed: usize = Computed(default::other_headed, "1 where the host has 8 GB and the Chromium workers leave four places", "1");
        /// Number of headless Firefox workers kept warm.
        firefox_headless: usize = Is("0");
        /// Number of headed WebKit workers kept warm.
        webkit_headed: usize = Computed(default::other_headed, "1 where the host has 8 GB and the Chromium workers leave four places", "1");
        /// Number of headless WebKit workers kept warm.
        webkit_headless: usize = Is("0");
        /// Additional workers kept warm with session settings applied; a client that asks for exactly these gets one at once.
        /// Each is a `[[pool.presets]]` table: name, engine, mode, count, and at least one setting that a create call can make, or `extension_ids`.
        /// A variable or flag takes an array of inline tables.
        presets: Presets = Unset(r#"[{ name = "german", engine = "firefox", mode = "headed", count = 1, locales = ["de-DE", "de"], viewport = { width = 1400, height = 900 } }]"#);
        /// Maximum number of workers starting at the same time.
        start_concurrency: usize = Computed(default::start_concurrency, "half the host's cores", "2"), min "1";
        /// Delay between handing out a worker and starting its replacement, which spares the new session's first moments.
        refill_delay: Duration = Is("300ms");
    }

    /// Sessions: their number, their timeouts, and the queue for them.
    session: SessionSettings {
        /// Maximum number of concurrent sessions.
        max_sessions: usize = Computed(default::max_sessions, "pool.max_workers", "8"), min "1";
        /// Maximum number of concurrent sessions of one key; 0 sets no separate limit.
        max_per_key: usize = Is("0");
        /// Lifetime of a session that requests no `session_timeout`.
        default_timeout: Duration = Is("5m"), min "1s";
        /// Maximum `session_timeout` that a client may request.
        max_timeout: Duration = Is("1d"), min "1s";
        /// Idle time after which a session that requests no `idle_timeout` ends; never when unset.
        idle_timeout: Option<Duration> = Unset("2m"), min "1s";
        /// Time that a session waits for its first connection, command or viewer before it ends, unless the client requested
        /// `keep_alive` or a recording. With 0s it waits for its whole `session_timeout`.
        attach_timeout: Duration = Is("5m");
        /// Time that a session waits for a client to reconnect after its connection dropped.
        reconnect_window: Duration = Is("30s");
        /// Page that a session opens when the client names none.
        default_url: Url = Is("https://www.google.com/");
        /// Maximum number of clients waiting for a worker; more are refused at once. With 0 nobody waits.
        queue_length: usize = Is("100");
        /// Maximum time that a client waits for a worker, and after a restart for its session to be found again.
        queue_wait: Duration = Is("60s");
        /// Maximum size of a state with all its origins: what a create call gives a browser to begin with, and what is read of a
        /// session; 128MiB at most.
        max_state: ByteSize = Is("8MiB"), min "64KiB";
        /// Number of records of ended sessions kept; the oldest of the key that has most are forgotten first.
        keep_records: usize = Is("10000");
        /// Time that records of ended sessions are kept.
        keep_records_for: Duration = Is("7d");
    }

    /// Websocket connections between clients and browsers (CDP, BiDi).
    relay: Relay {
        /// Maximum size of a websocket message.
        max_message: ByteSize = Is("256MiB"), min "64KiB";
        /// Timeout for a write that makes no progress because the peer does not read.
        write_timeout: Duration = Is("60s"), min "1s";
        /// Maximum number of open websockets of one session.
        max_sockets: usize = Is("32"), min "1";
        /// Maximum time in which a client hears nothing before it gets a ping; it must be shorter than the idle timeout of a proxy in
        /// front. With 0s there are no pings.
        ping_interval: Duration = Is("30s"), min "0s";
    }

    /// Watching and controlling sessions in the live view.
    live: Live {
        /// Maximum number of concurrent viewers of one session.
        max_viewers: usize = Is("32"), min "1";
        /// Maximum frame rate of a headless session's live view, in frames a second.
        frame_rate: u32 = Is("30"), min "1";
        /// JPEG quality of a headless session's frames, from 1 to 100.
        quality: u32 = Is("60"), min "1";
        /// Timeout for a write that makes no progress because the viewer does not read.
        write_timeout: Duration = Is("20s"), min "1s";
        /// Interval between pings to a viewer; it must be shorter than the idle timeout of a proxy in front.
        ping_interval: Duration = Is("10s"), min "1s";
        /// Maximum number of share links of one session, 200 at most.
        max_shares: usize = Is("100"), min "1";
    }

    /// The console, the web pages for operators at `/console/`.
    console: Console {
        /// Idle time after which a sign-in expires.
        sign_in_timeout: Duration = Is("12h"), min "1s";
        /// Maximum number of sign-ins of one key; with more, the key's oldest ends.
        max_sign_ins_per_key: usize = Is("20"), min "1";
        /// Number of requests, and of events, that the console's log keeps in memory.
        log_entries: usize = Is("1000"), min "1";
        /// Maximum number of event streams open to pages; more are refused, save to operators. A session list with thumbnails uses two.
        max_streams: usize = Is("64"), min "1";
        /// Maximum number of event streams open to pages of one key, an operator's too.
        max_streams_per_key: usize = Is("16"), min "1";
        /// Minimum interval between thumbnails of a session, which are taken only while somebody watches the list.
        thumbnail_interval: Duration = Is("2s"), min "100ms";
        /// Width of a thumbnail, in pixels.
        thumbnail_width: u32 = Is("360"), min "32";
    }

    /// The daemon's data on disk.
    store: Store {
        /// Directory for all of the daemon's data.
        data_dir: PathBuf = Computed(default::data_dir, "/var/lib/warmpool for root, else $XDG_DATA_HOME/warmpool or ~/.local/share/warmpool", "/var/lib/warmpool");
        /// Free disk space below which new work is refused.
        min_free: ByteSize = Is("512MiB");
        /// Time that opening the database may take without progress before a start gives up; gigabytes on a slow disk need longer.
        open_timeout: Duration = Is("10m"), min "1s";
        /// Interval between backups. None is made where nothing was written since the newest one.
        backup_interval: Duration = Is("1h"), min "1m";
        /// Number of backups kept; 0 disables backups. Without them `db.irrevocable` keeps each deletion until the next start.
        backups_kept: usize = Is("24");
        /// Size of the log since the newest backup at which another is made; 0 keeps none, and damage may cost what came after the backup.
        kept_log: ByteSize = Is("256MiB");
    }

    /// Shutdown of the daemon.
    drain: DrainSettings {
        /// Time that running work has to finish after SIGTERM; a second SIGTERM ends it at once.
        timeout: Duration = Is("30s");
        /// Time after that for removing the remaining containers and writing pending data. The next start removes leftovers. The
        /// stop timeout of the service manager must be longer than timeout, close_timeout and force_timeout together.
        close_timeout: Duration = Is("10s"), min "1s";
        /// Time for the same after a second SIGTERM.
        force_timeout: Duration = Is("5s"), min "1s";
        /// Whether SIGTERM leaves sessions and warm browsers to the daemon's next start, for managers that start a newer one.
        keep_sessions: bool = Is("false");
    }

    /// OpenTelemetry traces of sessions and tasks.
    traces: Traces {
        /// URL of an OTLP/HTTP collector, to which `/v1/traces` is appended; OTEL_EXPORTER_OTLP_HEADERS sets headers for it.
        endpoint: Option<Url> = Unset("http://127.0.0.1:4318");
        /// Fraction of traces that is sampled, from 0 to 1, unless the client's `traceparent` decides.
        sample: f64 = Is("1.0"), min "0";
    }

    /// The log, on standard error.
    log: Log {
        /// Format of log lines: `text` for people, `json` for machines.
        format: LogFormat = Is("text");
        /// Filter of log events: a level, or levels by module such as `info,warmpool_workers::pool=debug`.
        filter: String = Is("info");
    }
}

// In the order of the sample file.
sections! {
    server: Server,
    docker: Docker,
    swarm: Swarm,
    kubernetes: Kubernetes,
    egress: Egress,
    worker: Worker,
    pool: Pool,
    session: SessionSettings,
    relay: Relay,
    live: Live,
    recording: RecordingSettings,
    logs: LogSettings,
    webdriver: WebDriver,
    playwright: Playwright,
    tasks: Tasks,
    pages: Pages,
    mcp: Mcp,
    webhooks: Webhooks,
    profiles: ProfileSettings,
    extensions: ExtensionSettings,
    world: World,
    ads: Ads,
    console: Console,
    captcha: CaptchaSettings,
    store: Store,
    drain: DrainSettings,
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
