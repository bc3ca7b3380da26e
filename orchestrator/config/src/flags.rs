//! The settings as flags of the command line.

use std::{collections::BTreeMap, path::PathBuf};

use clap::{Arg, ArgMatches, Args, Command, FromArgMatches, value_parser};

use super::setting::{DefaultValue, Setting};
use super::table;

/// What the command line says about the configuration. Flatten it into a subcommand with `#[command(flatten)]`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Flags {
    /// The configuration file, from `--config`.
    pub config: Option<PathBuf>,
    settings: BTreeMap<&'static str, String>,
}

impl Flags {
    /// The same as `--section-key text`. A name that is no setting is left out.
    #[cfg(any(test, feature = "testing"))]
    #[must_use]
    pub fn with(mut self, name: &str, text: impl Into<String>) -> Self {
        if let Some(setting) = Setting::named(name) {
            self.settings.insert(setting.name, text.into());
        }
        self
    }

    /// The settings named by flags, and their texts.
    pub(super) fn values(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.settings.iter().map(|(name, text)| (*name, text.as_str()))
    }
}

impl Args for Flags {
    fn augment_args(command: Command) -> Command {
        let config = Arg::new("config").long("config").value_name("PATH").value_parser(value_parser!(PathBuf)).help(
            "Configuration file (TOML); flags win over the environment, and both over the file [env: WARMPOOL_CONFIG]",
        );
        command.arg(config).args(table::all().map(argument))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Flags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut flags = Self::default();
        flags.update_from_arg_matches(matches)?;
        Ok(flags)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        if let Some(config) = matches.get_one::<PathBuf>("config") {
            self.config = Some(config.clone());
        }
        for setting in table::all() {
            if let Some(text) = matches.get_one::<String>(setting.name) {
                self.settings.insert(setting.name, text.clone());
            }
        }
        Ok(())
    }
}

/// What says on which data directory a command works; may also stand behind the name of a subcommand.
const PLACE: [&str; 2] = ["config", "store.data_dir"];

/// [`Flags`] for the other subcommands: all of them work, only `--config` is shown in the help.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HiddenFlags(pub Flags);

impl Args for HiddenFlags {
    fn augment_args(command: Command) -> Command {
        let hidden = table::all().fold(Flags::augment_args(command), |command, setting| {
            command.mut_arg(setting.name, |argument| argument.hide(true))
        });
        PLACE.into_iter().fold(hidden, |command, name| command.mut_arg(name, |argument| argument.global(true)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for HiddenFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Flags::from_arg_matches(matches).map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.0.update_from_arg_matches(matches)
    }
}

/// Values stay text here: they are read together with the other sources, so that every fault shows at once.
fn argument(setting: &'static Setting) -> Arg {
    let help: Vec<_> = setting.help.iter().map(|line| line.trim()).collect();
    let default = match setting.default {
        DefaultValue::Is(text) => format!("[default: {text}]"),
        DefaultValue::Unset(example) => format!("[no default; example: {example}]"),
        DefaultValue::Computed(_, words, _) => format!("[default: {words}]"),
    };
    let argument = Arg::new(setting.name)
        .long(setting.flag())
        .value_name(setting.placeholder)
        .help_heading(format!("Section {}", setting.section()))
        .allow_hyphen_values(true)
        .help(format!("{}\n{default} [env: {}]", help.join("\n"), setting.env()));
    if setting.toml_form == super::value::TomlForm::Switch {
        argument.num_args(0..=1).default_missing_value("true").allow_hyphen_values(false)
    } else {
        argument
    }
}
