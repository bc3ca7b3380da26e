//! The settings as flags.

use clap::{CommandFactory, Parser};

use super::*;

#[derive(Parser)]
struct Serve {
    #[command(flatten)]
    flags: Flags,
}

#[derive(Parser)]
struct Doctor {
    #[command(flatten)]
    flags: HiddenFlags,
}

#[test]
fn flags_are_read() {
    let args = [
        "serve",
        "--config",
        "/w.toml",
        "--server-listen",
        "[::1]:0",
        "--worker-sandbox=false",
        "--server-status-needs-key",
        "--worker-cpus",
        "-1",
    ];
    let flags = Serve::try_parse_from(args).unwrap_or_else(|error| panic!("{error}")).flags;
    let expected = Flags::default()
        .with("server.listen", "[::1]:0")
        .with("worker.sandbox", "false")
        .with("server.status_needs_key", "true")
        .with("worker.cpus", "-1");
    assert_eq!(flags.config, Some("/w.toml".into()));
    assert!(flags.values().eq(expected.values()), "{flags:?}");
    let quiet = Doctor::try_parse_from(["doctor", "--store-data-dir", "/d"]).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(quiet.flags.0, Flags::default().with("store.data_dir", "/d"));
    assert!(Serve::try_parse_from(["serve", "--server-listn", "x"]).is_err());
}

#[test]
fn help_names_every_setting_with_its_default_and_variable() {
    Serve::command().debug_assert();
    let help = Serve::command().term_width(0).render_long_help().to_string();
    for setting in table::all() {
        assert!(
            help.contains(&format!("--{} ", setting.flag())) || help.contains(&format!("--{}[", setting.flag())),
            "{}",
            setting.name
        );
        assert!(help.contains(&format!("[env: {}]", setting.env())), "{}", setting.name);
    }
    assert!(help.contains("Section server:") && help.contains("[default: 127.0.0.1:4444]"));
    let quiet = Doctor::command().render_long_help().to_string();
    assert!(quiet.contains("--config") && !quiet.contains("--server-listen"), "{quiet}");
}
