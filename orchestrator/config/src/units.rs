//! Types of our own for settings: sizes, the engine's socket, the log's form.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use super::value::{InvalidValue, TomlForm, Value, quoted, text_value};

/// A size in bytes, shown in the largest unit that fits it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteSize(pub u64);

/// Units with their names in small letters; the bare letters are binary, as the Docker command line has them.
const UNITS: [(&[&str], u64); 9] = [
    (&["", "b"], 1),
    (&["k", "ki", "kib"], 1 << 10),
    (&["kb"], 1_000),
    (&["m", "mi", "mib"], 1 << 20),
    (&["mb"], 1_000_000),
    (&["g", "gi", "gib"], 1 << 30),
    (&["gb"], 1_000_000_000),
    (&["t", "ti", "tib"], 1 << 40),
    (&["tb"], 1_000_000_000_000),
];

impl ByteSize {
    /// The number of bytes.
    pub const fn bytes(self) -> u64 {
        self.0
    }

    /// The number of bytes as a length in memory, at most the address space.
    pub fn as_usize(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
        match units.iter().find(|(_, unit)| self.0 != 0 && self.0.is_multiple_of(*unit)) {
            Some((name, unit)) => write!(out, "{}{name}", self.0 / unit),
            None => write!(out, "{}B", self.0),
        }
    }
}

impl Value for ByteSize {
    const TOML_FORM: TomlForm = TomlForm::Quantity;
    const PLACEHOLDER: &'static str = "SIZE";

    fn parse(text: &str) -> Result<Self, InvalidValue> {
        let trimmed = text.trim();
        let digits = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
        let (number, unit) = trimmed.split_at(digits);
        let unit = unit.trim().to_ascii_lowercase();
        let unit = UNITS.iter().find(|(names, _)| names.contains(&unit.as_str())).map(|(_, bytes)| *bytes);
        let bytes = unit.and_then(|unit| times(number, unit));
        bytes.filter(|bytes| *bytes <= i64::MAX.unsigned_abs()).map(Self).ok_or_else(|| {
            InvalidValue::not(
                text,
                "a size",
                "write it with a unit, such as 64KiB, 512MiB or 2GiB; a bare number counts bytes",
            )
        })
    }

    fn toml(&self) -> Option<String> {
        Some(quoted(&self.to_string()))
    }

    fn below(&self, least: &Self) -> bool {
        self < least
    }
}

/// `number`, which may have a fraction, times `unit`; `None` if it is no number or too large.
fn times(number: &str, unit: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let bytes = whole.parse::<u64>().ok()?.checked_mul(unit)?;
    let scale = 10_u128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let part = u128::from(fraction.parse::<u64>().ok()?) * u128::from(unit) / scale;
    bytes.checked_add(u64::try_from(part).ok()?)
}

/// Where the engine listens: a socket on this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DockerHost {
    socket: PathBuf,
}

impl DockerHost {
    /// The engine's socket file.
    pub fn socket(&self) -> &Path {
        &self.socket
    }
}

impl fmt::Display for DockerHost {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "unix://{}", self.socket.display())
    }
}

text_value!(DockerHost, "unix://PATH", |text| {
    let text = text.trim();
    let (scheme, rest) = text.split_once("://").unwrap_or(("", text));
    match scheme {
        "unix" | "" if rest.starts_with('/') => Ok(Self { socket: PathBuf::parse(rest)? }),
        "tcp" | "http" => Err(InvalidValue::new(
            format!(
                "{text:?} would speak to the engine in the clear, and whoever reaches that port is root on its host"
            ),
            "use the engine's socket, such as unix:///var/run/docker.sock; for an engine elsewhere, forward its socket over ssh",
        )),
        "ssh" | "https" | "npipe" | "fd" => Err(InvalidValue::new(
            format!("{text:?} is not supported: workers must run on the daemon's own host"),
            "use a socket, such as unix:///var/run/docker.sock or unix:///run/podman/podman.sock",
        )),
        _ => Err(InvalidValue::not(
            text,
            "a socket",
            "write unix:// and an absolute path, such as unix:///var/run/docker.sock",
        )),
    }
});

/// What SELinux takes a worker's processes for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SelinuxType {
    /// It does not confine them.
    Disabled,
    /// A type of its policy, such as `container_t`.
    Named(String),
}

impl SelinuxType {
    /// The option by which an engine is told.
    #[must_use]
    pub fn security_option(&self) -> String {
        match self {
            Self::Disabled => "label=disable".to_owned(),
            Self::Named(name) => format!("label=type:{name}"),
        }
    }
}

impl fmt::Display for SelinuxType {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Disabled => "disable",
            Self::Named(name) => name,
        })
    }
}

text_value!(SelinuxType, "TYPE|disable", |text| {
    let text = text.trim();
    let is_name = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    match text {
        "disable" => Ok(Self::Disabled),
        _ if is_name && text.ends_with("_t") => Ok(Self::Named(text.to_owned())),
        _ => Err(InvalidValue::not(
            text,
            "a type of SELinux",
            "write a type of letters, digits and _ that ends in _t, such as container_t, or disable",
        )),
    }
});

/// Defines a setting that is one of a few words.
macro_rules! one_of {
    ($(#[doc = $about:literal])+ $Type:ident: $kind:literal, $remedy:literal;
     $(#[doc = $first_doc:literal])+ $First:ident = $first:literal
     $(, $(#[doc = $doc:literal])+ $Other:ident = $other:literal)+) => {
        $(#[doc = $about])+
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $Type {
            $(#[doc = $first_doc])+ $First,
            $( $(#[doc = $doc])+ $Other, )+
        }

        impl fmt::Display for $Type {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str(match self {
                    Self::$First => $first,
                    $( Self::$Other => $other, )+
                })
            }
        }

        text_value!($Type, concat!($first $(, "|", $other)+), |text| match text.trim() {
            $first => Ok(Self::$First),
            $( $other => Ok(Self::$Other), )+
            _ => Err(InvalidValue::not(text, $kind, $remedy)),
        });
    };
}

one_of! {
    /// How the daemon reaches the agent in a worker.
    AgentTransport: "a way to reach an agent", "write auto, unix or tcp";
    /// The best that the container runtime allows.
    Auto = "auto",
    /// By a Unix socket in a folder shared with the worker.
    Unix = "unix",
    /// By TCP over the workers' network.
    Tcp = "tcp"
}

one_of! {
    /// When a node pulls the image of a worker.
    PullPolicy: "a way to pull images", "write always, if_not_present or never";
    /// Before each start.
    Always = "always",
    /// Where it has no image of that name.
    IfNotPresent = "if_not_present",
    /// Never: the node has the image.
    Never = "never"
}

one_of! {
    /// Who solves the CAPTCHAs of sessions that ask for it.
    CaptchaMode: "a way to solve CAPTCHAs", "write off, person or solver";
    /// Nobody: sessions cannot ask for it.
    Off = "off",
    /// A person in the live view.
    Person = "person",
    /// A service.
    Solver = "solver"
}

one_of! {
    /// The API that a solver of CAPTCHAs has.
    SolverService: "a solver", "write 2captcha, anti-captcha or capsolver";
    /// 2Captcha, and those that are like it.
    TwoCaptcha = "2captcha",
    /// Anti-Captcha.
    AntiCaptcha = "anti-captcha",
    /// CapSolver.
    CapSolver = "capsolver"
}

one_of! {
    /// How log lines are written.
    LogFormat: "a log format", "write text or json";
    /// Lines for people.
    Text = "text",
    /// One JSON object a line.
    Json = "json"
}
