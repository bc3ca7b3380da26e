//! Configuration: a file, the environment and flags become one checked [`Config`].
//!
//! | module         | what it holds |
//! |----------------|---------------|
//! | `table`        | every setting: name, type, default, smallest value, help |
//! | `settings`     | the macros that make the sections' structs of the table; `setting` is one setting as text |
//! | `value`        | the types that a setting may have; `units` are those of our own |
//! | `named_tables` | settings that are an array of tables: `presets`, `upstreams` |
//! | `egress`       | rules for what pages may reach |
//! | `ca_certificates` | authorities that browsers trust beside the public ones |
//! | `default`      | defaults that are computed from the `host`, the environment or other settings |
//! | `sources`      | collects what the `file`, the environment and the `flags` say |
//! | `layers`       | takes each setting from its strongest source |
//! | `check`        | what settings must be beyond their types, alone and together |
//! | `fault`        | what is wrong, and where a value came from |
//! | `sample`       | the sample file in `examples/`, which a test writes |
//!
//! The crate may use `core` and the protocol's checks of settings. It opens no store, binds nothing and creates nothing.
//!
//! - *One table.* Structs, flags, environment names, help, sample file and the printed configuration all come of it, so they
//!   agree. A new setting is one entry, and the code that uses it.
//! - *Flags win over the environment, and both over the file.* Values stay text until all sources are laid over one another.
//! - *All faults at once.* Each says where it was found, what is wrong, and what to write instead. A wrong value gets a
//!   stand-in meanwhile, so that the rest can be checked; a configuration with faults is never handed out.

mod ca_certificates;
mod check;
mod default;
mod egress;
mod fault;
mod file;
mod flags;
mod host;
mod layers;
mod named_tables;
mod presets;
#[cfg(test)]
mod sample;
mod setting;
mod settings;
mod sources;
mod table;
#[cfg(test)]
mod tests;
mod units;
mod upstreams;
mod value;

use std::fmt::Write as _;
use std::{collections::BTreeMap, fmt, net::IpAddr, ops::Deref};

pub use ca_certificates::{CaCertificates, Trust, check_ca_certificates, check_certificates_of_key};
pub use check::{MAX_SHARES, MAX_VERSIONS};
pub use egress::{EgressRule, EgressRules};
pub use fault::{ConfigError, ConfigErrors, Source};
pub use flags::{Flags, HiddenFlags};
pub use host::{FoundEngine, Host};
pub use presets::PoolPreset;
pub use table::{
    CaptchaSettings, DrainSettings, ExtensionSettings, LogSettings, ProfileSettings, RecordingSettings, Sections,
    SessionSettings,
};
pub use units::{AgentTransport, ByteSize, CaptchaMode, LogFormat, PullPolicy, SelinuxType, SolverService};
#[cfg(any(test, feature = "testing"))]
pub use upstreams::upstreams_from;
pub use upstreams::{ProxyScheme, UpstreamProxy, UpstreamTable};

use warmpool_protocol::Allowed;
use warmpool_protocol::firefox::Allowed as AllowedInFirefox;

use table::SECTIONS;
use warmpool_core::address;
use warmpool_core::browser::Engine;

/// The name in `ads.lists` of the list that is built into the daemon.
pub const BUILT_IN_AD_LIST: &str = "easylist";

/// Container runtimes whose containers are processes of this host's kernel.
const SHARING_RUNTIMES: [&str; 3] = ["runc", "crun", "io.containerd.runc.v2"];

/// The checked configuration. Its sections are fields: `config.server.listen`.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    sections: Sections,
    origins: BTreeMap<&'static str, Source>,
    /// The path of the file that was read.
    file: Option<String>,
}

impl Deref for Config {
    type Target = Sections;

    fn deref(&self) -> &Sections {
        &self.sections
    }
}

impl Config {
    /// Makes a configuration of its sources, or says everything that is wrong with them.
    ///
    /// `file` is the configuration file's path, for messages, and its text. `env` may be the whole environment.
    /// Pure: it looks at nothing but its arguments.
    pub fn resolve(
        file: Option<(&str, &str)>,
        env: impl IntoIterator<Item = (String, String)>,
        flags: &Flags,
        host: &Host,
    ) -> Result<Self, ConfigErrors> {
        let path = file.map(|(path, _)| path.to_owned());
        let mut layers = sources::collect_layers(file, env.into_iter(), flags, host);
        let sections = Sections::fill(&mut layers);
        check::check(&sections, &mut layers);
        match layers.finish() {
            (origins, faults) if faults.is_empty() => Ok(Self { sections, origins, file: path }),
            (_, faults) => Err(ConfigErrors(faults)),
        }
    }

    /// [`resolve`](Self::resolve) with this process's environment, this host, and the file that `--config` or
    /// `WARMPOOL_CONFIG` names.
    pub fn load(flags: &Flags) -> Result<Self, ConfigErrors> {
        let env = std::env::vars_os()
            .map(|(name, text)| (name.to_string_lossy().into_owned(), text.to_string_lossy().into_owned()));
        let named = std::env::var_os("WARMPOOL_CONFIG").filter(|path| !path.is_empty());
        let path = flags.config.clone().or_else(|| named.map(Into::into));
        let Some(path) = path else {
            return Self::resolve(None, env, flags, &Host::read());
        };
        let shown = path.display().to_string();
        let text = std::fs::read_to_string(&path);
        let resolved = Self::resolve(Some((&shown, text.as_deref().unwrap_or_default())), env, flags, &Host::read());
        let Err(error) = text else { return resolved };
        let source = if flags.config.is_some() { "flag --config" } else { "environment WARMPOOL_CONFIG" };
        let mut faults = vec![ConfigError {
            source: source.to_owned(),
            key: String::new(),
            what: format!("cannot read {shown}: {error}"),
            remedy: "name a TOML file this user may read".to_owned(),
        }];
        faults.extend(resolved.err().into_iter().flat_map(|others| others.0));
        Err(ConfigErrors(faults))
    }

    /// Where a setting's value came from; `name` is such as `server.listen`.
    pub fn source(&self, name: &str) -> Option<&Source> {
        self.origins.get(name)
    }

    /// What was read, in words and without values: the file, and the variables and flags that name a setting.
    pub fn inputs(&self) -> String {
        let set = |by: Source| table::all().filter(move |setting| self.source(setting.name) == Some(&by));
        let variables = set(Source::Env).map(|setting| setting.env());
        let named: Vec<String> =
            variables.chain(set(Source::Flag).map(|setting| format!("--{}", setting.flag()))).collect();
        let named = if named.is_empty() { "no variables or flags".to_owned() } else { named.join(", ") };
        format!("{}; {named}", self.file.as_deref().unwrap_or("no file"))
    }

    /// Whether the operator named this setting, in a file, the environment or by a flag. Defaults alone do not count.
    pub fn names(&self, name: &str) -> bool {
        !matches!(self.source(name), None | Some(Source::Default | Source::Computed(_)))
    }

    /// The settings that hold, as TOML, each with its source as a comment. It can be used as a configuration file.
    pub fn effective(&self) -> String {
        let mut text = String::new();
        for section in SECTIONS {
            let _ = writeln!(text, "{}[{}]", if text.is_empty() { "" } else { "\n" }, section.name);
            for setting in section.settings {
                let source = self.source(setting.name).map(|source| source.describe(setting)).unwrap_or_default();
                let _ = match self.toml(setting) {
                    Some(value) => writeln!(text, "{} = {value}  # {source}", setting.key()),
                    None => writeln!(text, "# {} is not set  # {source}", setting.key()),
                };
            }
        }
        text
    }

    /// Whether other hosts may reach the daemon, so that it must not serve without a key.
    pub fn needs_key(&self) -> bool {
        let public = self.server.public_url.as_ref().is_some_and(|url| !is_loopback(url));
        public || !self.server.listen.ip().is_loopback()
    }

    /// Whether the daemon speaks TLS itself.
    pub fn tls(&self) -> bool {
        self.server.tls_cert.is_some()
    }

    /// Whether `X-Forwarded-*` headers from this peer are believed.
    pub fn trusts_proxy(&self, peer: IpAddr) -> bool {
        let peer = peer.to_canonical();
        self.server.trusted_proxies.iter().any(|network| network.contains(&peer))
    }

    /// Whether the daemon must be able to serve this engine. It must for Chromium, which clients get by default, and for any
    /// engine whose warm workers or presets the operator asked for. Defaults alone do not count.
    pub fn needs_engine(&self, engine: Engine) -> bool {
        let pool = &self.pool;
        let headed_and_headless = match engine {
            Engine::Chromium => return true,
            Engine::Firefox => {
                [("pool.firefox_headed", pool.firefox_headed), ("pool.firefox_headless", pool.firefox_headless)]
            }
            Engine::Webkit => {
                [("pool.webkit_headed", pool.webkit_headed), ("pool.webkit_headless", pool.webkit_headless)]
            }
        };
        headed_and_headless.into_iter().any(|(name, target)| target > 0 && self.names(name))
            || pool.presets.0.iter().any(|preset| preset.engine == engine)
    }

    /// Whether workers get a folder for their agent's socket, and so need no network.
    pub fn shares_folders(&self) -> bool {
        // Other hosts share no folder with this one.
        if self.swarm.enabled || self.kubernetes.enabled {
            return false;
        }
        match self.worker.agent_transport {
            AgentTransport::Unix => true,
            AgentTransport::Tcp => false,
            // Runtimes that put a kernel or a machine between container and host share no sockets unless told to.
            AgentTransport::Auto => {
                let runtime = self.docker.runtime.as_deref();
                runtime.is_none_or(|runtime| SHARING_RUNTIMES.contains(&runtime))
            }
        }
    }

    /// Cores that a worker takes of those that a node of a cluster has to give away; 0 takes none.
    pub fn reserved_cpus(&self) -> f64 {
        let reserved = if self.kubernetes.enabled { self.kubernetes.reserved_cpus } else { self.swarm.reserved_cpus };
        reserved.unwrap_or(self.worker.cpus)
    }

    /// The number of processes that a node of Kubernetes may let a Pod have at most; none where any number will do.
    pub fn most_pids(&self) -> Option<u32> {
        (self.kubernetes.max_pids > 0).then(|| self.kubernetes.max_pids.max(self.worker.pids))
    }

    /// Free disk space, in bytes, below which recordings give way: long before everything else does.
    pub fn recording_min_free(&self) -> u64 {
        self.store.min_free.bytes().saturating_add(self.recording.reserve.bytes())
    }

    /// The image that workers of this engine are made from.
    pub fn image(&self, engine: Engine) -> &str {
        match engine {
            Engine::Chromium => &self.worker.chromium_image,
            Engine::Firefox => &self.worker.firefox_image,
            Engine::Webkit => &self.worker.webkit_image,
        }
    }

    /// What clients may set in Chromium beyond what is known to be safe.
    pub fn chromium_allowed(&self) -> Allowed {
        Allowed { switches: self.worker.chromium_switches.clone(), prefs: self.worker.chromium_prefs.clone() }
    }

    /// What clients may set in Firefox beyond what is known to be safe.
    pub fn firefox_allowed(&self) -> AllowedInFirefox {
        AllowedInFirefox { args: self.worker.firefox_args.clone(), prefs: self.worker.firefox_prefs.clone() }
    }

    /// What is allowed but deserves a line in the log at start.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        let clear = match &self.server.public_url {
            Some(url) => url.scheme() == "http" && !is_loopback(url),
            None => !self.tls() && !self.server.listen.ip().is_loopback(),
        };
        if clear {
            warnings.push("keys and pages cross the network in the clear; set server.tls_cert and server.tls_key, or put a TLS proxy in front and name it in server.public_url".to_owned());
        }
        if !self.worker.sandbox {
            warnings.push("worker.sandbox is false: the browser's own sandbox is off, and a hostile page is held by the container alone".to_owned());
        }
        if self.worker.tmp > self.worker.memory {
            warnings.push(format!(
                "worker.tmp, {}, is more than worker.memory, {}: a full directory will end the browser",
                self.worker.tmp, self.worker.memory
            ));
        }
        for (name, write_timeout) in [
            ("server.write_timeout", self.server.write_timeout),
            ("relay.write_timeout", self.relay.write_timeout),
            ("live.write_timeout", self.live.write_timeout),
        ] {
            let user_timeout = self.server.tcp_user_timeout;
            if user_timeout <= write_timeout {
                let (short, long) =
                    (humantime::format_duration(user_timeout), humantime::format_duration(write_timeout));
                warnings.push(format!("server.tcp_user_timeout, {short}, is not longer than {name}, {long}: the kernel closes connections first, and no error says why"));
            }
        }
        if self.session.max_sessions > self.pool.max_workers {
            warnings.push(format!(
                "session.max_sessions, {}, is more than pool.max_workers, {}: the rest will always wait",
                self.session.max_sessions, self.pool.max_workers
            ));
        }
        warnings
    }
}

fn is_loopback(url: &url::Url) -> bool {
    match url.host() {
        Some(url::Host::Domain(name)) => address::is_localhost(name),
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

impl fmt::Display for Config {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.effective())
    }
}
