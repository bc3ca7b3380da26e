use serde::{Deserialize, Serialize};

/// How an agent tries to reach an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProbeWay {
    /// By the proxy, as its browser does.
    Proxy,
    /// Without it, as a program does that broke out of its browser.
    Direct,
    /// The same, by a datagram to which a name server would answer.
    Datagram,
}

/// Body of `POST /probe`: an address that nobody should reach from here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Probe {
    /// A name, or an address in any notation.
    pub host: String,
    /// The port.
    pub port: u16,
    /// How.
    pub way: ProbeWay,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Probed {
    /// Whether anything is there: a connection, or a host that refuses one.
    pub reached: bool,
    /// What happened, in a few words.
    pub detail: String,
}

/// Answer to `POST /probe/programs`: what came of programs that nobody may execute in a worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramsProbed {
    /// Whether the kernel confines each program of the worker by Landlock.
    pub landlock: bool,
    /// Every try.
    pub tries: Vec<ProgramTry>,
}

/// One try to execute a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramTry {
    /// The program of the worker in whose place it was tried.
    pub from: String,
    /// What was to be executed, in a few words.
    pub what: String,
    /// Whether it was.
    pub executed: bool,
    /// What happened, in a few words.
    pub detail: String,
}
