//! What is wrong with the configuration, all of it at once.

use std::fmt;

use super::setting::Setting;

/// Where a setting's value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// Fixed in the settings table.
    Default,
    /// Computed from the host, the environment or another setting; the words say where.
    Computed(&'static str),
    /// A line of the configuration file, counted from 1.
    File {
        /// The file's path as it was given.
        path: String,
        /// The line, counted from 1.
        line: usize,
    },
    /// Its environment variable.
    Env,
    /// Its flag.
    Flag,
}

impl Source {
    /// The source in words, for the setting it belongs to.
    pub(super) fn describe(&self, setting: &Setting) -> String {
        match self {
            Self::Default => "default".to_owned(),
            Self::Computed("default") => "default".to_owned(),
            Self::Computed(from) => format!("default, from {from}"),
            Self::File { path, line } => format!("{path}:{line}"),
            Self::Env => format!("environment {}", setting.env()),
            Self::Flag => format!("flag --{}", setting.flag()),
        }
    }
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    /// The source: a flag, a variable, or a file and its line.
    pub source: String,
    /// The setting, such as `server.listen`; empty if there is no such setting.
    pub key: String,
    /// What is wrong.
    pub what: String,
    /// What to do about it.
    pub remedy: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { source, key, what, remedy } = self;
        match key.as_str() {
            "" => write!(out, "{source}: {what}; {remedy}"),
            key => write!(out, "{source}: {key}: {what}; {remedy}"),
        }
    }
}

/// Every fault of a configuration, in the order of its sources and settings. Shown one a line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct ConfigErrors(pub Vec<ConfigError>);

impl fmt::Display for ConfigErrors {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.len() {
            1 => write!(out, "the configuration has a fault:")?,
            count => write!(out, "the configuration has {count} faults:")?,
        }
        self.0.iter().try_for_each(|fault| write!(out, "\n  {fault}"))
    }
}
