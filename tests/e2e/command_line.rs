//! The command line at a terminal and in a pipe: what people read fits their terminal, what programs read is JSON, and exit codes
//! are those of the guide.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;
use std::time::Duration;

use crate::extensions::zipped;
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use warmpool_tests::{Daemon, Group, Settings, Stage, eventually, group, programs};

pub(crate) fn group() -> Group {
    group!(Some(Settings::new()),
        quick: [
            a_session_is_one_command,
            results_are_short_on_a_terminal,
            exit_codes_are_those_of_the_guide,
            a_closed_pipe_is_no_error,
            shells_know_values,
        ],
        full: [a_world_is_one_command, profiles_are_managed, extensions_are_managed],
    )
}

/// Runs a command on a terminal of so many columns. Returns its exit code, and what was to be seen.
async fn on_terminal(
    daemon: &Daemon,
    columns: usize,
    arguments: &[&str],
    more: &[(&str, String)],
) -> Result<(Option<i32>, String)> {
    let plain = daemon.command(&[]);
    let mut line = format!("stty cols {columns} rows 40; exec '{}'", plain.get_program().to_string_lossy());
    for argument in arguments {
        ensure!(!argument.contains('\''), "an argument cannot be quoted: {argument}");
        line.push_str(&format!(" '{argument}'"));
    }
    let mut command = tokio::process::Command::new("script");
    command.args(["--quiet", "--return", "--command", &line, "/dev/null"]);
    for (name, value) in plain.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.env("WARMPOOL_URL", daemon.url()).env("WARMPOOL_SECRET_KEY", daemon.key()).env_remove("DISPLAY");
    command.envs(more.iter().map(|(name, value)| (*name, value))).stdin(Stdio::null()).kill_on_drop(true);
    let output = tokio::time::timeout(Duration::from_secs(60), command.output()).await.context("it does not end")??;
    Ok((output.status.code(), String::from_utf8_lossy(&output.stdout).replace('\r', "")))
}

/// Runs a command in a pipe.
pub(crate) async fn in_pipe(daemon: &Daemon, arguments: &[&str]) -> Result<(Option<i32>, Value, String)> {
    let mut command = daemon.command(arguments);
    command.env("WARMPOOL_URL", daemon.url()).env("WARMPOOL_SECRET_KEY", daemon.key());
    command.env_remove("DISPLAY").env_remove("WAYLAND_DISPLAY");
    let output = tokio::process::Command::from(command).kill_on_drop(true).output().await?;
    let problem = String::from_utf8_lossy(&output.stderr).into_owned();
    Ok((output.status.code(), serde_json::from_slice(&output.stdout).unwrap_or_default(), problem))
}

async fn extensions_are_managed(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("tea.zip");
    let path = file.to_str().context("a path")?;
    let (code, _, problem) = in_pipe(daemon, &["extensions", "upload", path]).await?;
    ensure!(code != Some(0) && problem.contains(path), "{problem}");
    let manifest = json!({"manifest_version": 3, "name": "Tea", "version": "1.2", "permissions": ["storage"],
        "host_permissions": ["https://tea.example/*"]});
    std::fs::write(&file, zipped(&[("manifest.json", manifest.to_string().as_bytes())])?)?;
    let (code, made, problem) = in_pipe(daemon, &["extensions", "upload", path]).await?;
    ensure!(code == Some(0), "{problem}");
    let id = made["extension_id"].as_str().context("an id")?;
    let (code, shown) = on_terminal(daemon, 80, &["extensions", "show", id], &[]).await?;
    let told = ["Tea", "storage", "https://tea.example/*", "zip"].iter().all(|it| shown.contains(it));
    ensure!(code == Some(0) && told, "{shown}");
    let (code, list) = on_terminal(daemon, 60, &["extensions", "list"], &[]).await?;
    ensure!(code == Some(0) && list.contains(id) && list.lines().all(|line| line.chars().count() <= 60), "{list}");

    let create = ["sessions", "create", "--page", "about:blank", "--extension", id];
    let (code, created, problem) = in_pipe(daemon, &create).await?;
    ensure!(code == Some(0), "{problem}");
    in_pipe(daemon, &["sessions", "end", created["session_id"].as_str().context("an id")?]).await?;
    let (code, _, problem) = in_pipe(daemon, &["extensions", "delete", id]).await?;
    ensure!(code == Some(0) && problem.contains(id), "{problem}");
    let (code, _, problem) = in_pipe(daemon, &create).await?;
    ensure!(code != Some(0) && problem.contains(id), "{problem}");
    Ok(())
}

async fn profiles_are_managed(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("state.json");
    let path = file.to_str().context("a path")?;
    let ok = async |arguments: &[&str]| {
        let (code, said, problem) = in_pipe(daemon, arguments).await?;
        ensure!(code == Some(0), "{arguments:?}: {problem}");
        anyhow::Ok(said)
    };
    for user in ["one", "two"] {
        let state = json!({"cookies": [{"name": "a", "value": user, "domain": "shop.example", "path": "/"}]});
        std::fs::write(&file, state.to_string())?;
        ok(&["profiles", "import", "desk", path]).await?;
    }
    ensure!(ok(&["profiles", "export", "desk"]).await?["cookies"][0]["value"] == "two");
    ok(&["profiles", "roll-back", "desk", "1"]).await?;
    let shown = ok(&["profiles", "show", "desk"]).await?;
    ensure!(shown["versions"].as_array().map(Vec::len) == Some(3), "{shown}");
    let create = ["sessions", "create", "--page", "about:blank", "--profile", "desk", "--save-profile"];
    let created = ok(&create).await?;
    let listed = ok(&["profiles", "list"]).await?;
    ensure!(listed["profiles"][0]["writer"] == created["session_id"], "{listed}");
    let (code, list) = on_terminal(daemon, 60, &["profiles", "list"], &[]).await?;
    ensure!(code == Some(0) && list.contains("desk") && list.lines().all(|line| line.chars().count() <= 60), "{list}");
    let (code, _, _) = in_pipe(daemon, &["profiles", "delete", "desk"]).await?;
    ensure!(code != Some(0), "a profile that is written was deleted");
    ok(&["sessions", "end", created["session_id"].as_str().context("an id")?]).await?;
    eventually!("it can be deleted", 20, in_pipe(daemon, &["profiles", "delete", "desk"]).await?.0 == Some(0))?;

    // One that is a folder goes through a file, too.
    ok(&["profiles", "create", "van", "--kind", "folder"]).await?;
    let create = ["sessions", "create", "--page", "about:blank", "--profile", "van", "--save-profile"];
    let created = ok(&create).await?;
    ok(&["sessions", "end", created["session_id"].as_str().context("an id")?]).await?;
    let shown = eventually!("its first version is there", 40, {
        Some(ok(&["profiles", "show", "van"]).await?).filter(|shown| shown["versions"][0]["version"] == 1)
    })?;
    ensure!(shown["kind"] == "folder" && shown["engine"] == "chromium", "{shown}");
    let packed = folder.path().join("van.tar.zst");
    let path = packed.to_str().context("a path")?;
    ok(&["profiles", "export", "van", "--output", path]).await?;
    ensure!(std::fs::metadata(&packed)?.permissions().mode() & 0o777 == 0o600, "others can read it");
    let (code, _, problem) = in_pipe(daemon, &["profiles", "export", "van", "--output", path]).await?;
    ensure!(code == Some(64) && problem.contains("name a new file"), "{code:?} {problem}");
    let (code, said) = on_terminal(daemon, 80, &["profiles", "export", "van"], &[]).await?;
    ensure!(code == Some(64) && said.contains("--output"), "{code:?} {said}");
    ok(&["profiles", "import", "copy", path]).await?;
    let (code, list) = on_terminal(daemon, 100, &["profiles", "list"], &[]).await?;
    ensure!(code == Some(0) && list.matches("folder of chromium").count() == 2, "{list}");
    std::fs::write(&packed, [&[0x28, 0xb5, 0x2f, 0xfd][..], b"nothing"].concat())?;
    let (code, _, problem) = in_pipe(daemon, &["profiles", "import", "copy", path]).await?;
    ensure!(code == Some(65) && problem.contains("tar in zstd"), "{code:?} {problem}");
    Ok(())
}

async fn a_session_is_one_command(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let (code, made) = on_terminal(daemon, 80, &["sessions", "create", "--page", "about:blank"], &[]).await?;
    let named = |name: &str| made.lines().find_map(|line| line.strip_prefix(name)).map(|rest| rest.trim().to_owned());
    let (id, view) = (named("session").context(made.clone())?, named("live view").context(made.clone())?);
    ensure!(code == Some(0) && named("websocket").is_some_and(|url| url.starts_with("ws://")), "{code:?} {made}");

    for columns in [60, 100, 160] {
        let (code, list) = on_terminal(daemon, columns, &["sessions", "list"], &[]).await?;
        ensure!(code == Some(0) && list.contains(&id) && list.contains("1 session"), "{code:?} {list}");
        ensure!(list.lines().all(|line| line.chars().count() <= columns), "{columns}: {list}");
    }
    let (code, listed, _) = in_pipe(daemon, &["sessions", "list", "--status", "running"]).await?;
    ensure!(code == Some(0) && listed["sessions"][0]["session_id"] == id.as_str(), "{listed}");

    // Without a desktop the address is said; on one, the browser opens it as well.
    let (code, said) = on_terminal(daemon, 80, &["sessions", "watch"], &[]).await?;
    ensure!(code == Some(0) && said.trim() == view, "{code:?} {said}");
    let folder = tempfile::tempdir()?;
    let (browser, opened) = (folder.path().join("xdg-open"), folder.path().join("opened"));
    std::fs::write(&browser, format!("#!/bin/sh\nprintf %s \"$1\" > {0}.new && mv {0}.new {0}\n", opened.display()))?;
    std::fs::set_permissions(&browser, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH")?);
    let desktop = [("PATH", path), ("DISPLAY", ":99".to_owned())];
    on_terminal(daemon, 80, &["sessions", "watch", &id, "--act"], &desktop).await?;
    let url = eventually!("the browser opens the live view", 10, std::fs::read_to_string(&opened).ok())?;
    ensure!(url == format!("{view}&enable_actions=true"), "{url}");

    let (code, shared, problem) = in_pipe(daemon, &["sessions", "share", &id, "--ttl", "10m"]).await?;
    ensure!(code == Some(0) && shared["url"].is_string() && shared["enable_actions"] == false, "{shared} {problem}");
    let (code, ended) = on_terminal(daemon, 80, &["sessions", "end", &id], &[]).await?;
    ensure!(code == Some(0) && ended.contains(&format!("{id} terminated (deleted)")), "{code:?} {ended}");
    let (code, _, problem) = in_pipe(daemon, &["sessions", "watch", &id]).await?;
    ensure!(code == Some(65) && problem.contains("has ended"), "{code:?} {problem}");

    // JSON has the address of the live view, so nothing but JSON is printed.
    let webdriver =
        ["sessions", "create", "--webdriver", "--session-timeout", "1m", "--metadata", "team=search", "--watch"];
    let (code, made, problem) = in_pipe(daemon, &webdriver).await?;
    ensure!(code == Some(0) && made["connect_url"].is_string(), "{made} {problem}");
    let (_, listed, _) = in_pipe(daemon, &["sessions", "list", "--metadata", "team=search"]).await?;
    ensure!(
        listed["meta"]["totalRecords"] == 1 && listed["sessions"][0]["session_id"] == made["session_id"],
        "{listed}"
    );
    let (code, _, problem) = in_pipe(daemon, &["sessions", "list", "--metadata", "team"]).await?;
    ensure!(
        code == Some(64) && problem.contains("--metadata") && problem.contains("team=search"),
        "{code:?} {problem}"
    );
    let id = made["session_id"].as_str().context("an id")?;
    let (code, ended, problem) = in_pipe(daemon, &["sessions", "end", "ses_unknown", id]).await?;
    ensure!(code == Some(65) && problem.contains("ses_unknown") && ended["session_id"] == id, "{ended} {problem}");
    Ok(())
}

async fn results_are_short_on_a_terminal(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let hello = programs::examples().join("tasks/hello.json").to_string_lossy().into_owned();
    let (code, said) = on_terminal(daemon, 80, &["run", &hello, "--input", "name=Ada"], &[]).await?;
    ensure!(code == Some(0) && said.contains("success: run Say hello in "), "{code:?} {said}");
    ensure!(said.contains("Hello, Ada!") && said.contains("warmpool tasks show tsk_"), "{said}");
    ensure!(said.contains("task tsk_") && said.contains(": Ctrl-C leaves it running"), "{said}");
    ensure!(!said.contains("executionType"), "{said}");

    let folder = tempfile::tempdir()?;
    let file = folder.path().join("full.json").to_string_lossy().into_owned();
    let kept = ["run", &hello, "--input", "name=Ada", "--output", &file];
    let (code, said) = on_terminal(daemon, 80, &kept, &[]).await?;
    ensure!(code == Some(0) && said.contains(&format!("in full   {file}")), "{code:?} {said}");
    let full: Value = serde_json::from_str(&std::fs::read_to_string(&file)?)?;
    ensure!(full["status"] == "success" && full["output"][0]["greeting"] == "Hello, Ada!", "{full}");

    let (code, said) = on_terminal(daemon, 70, &["tasks", "list"], &[]).await?;
    ensure!(code == Some(0) && said.lines().all(|line| line.chars().count() <= 70), "{said}");
    let (code, said) = on_terminal(daemon, 80, &["status"], &[]).await?;
    ensure!(code == Some(0) && said.contains(": ready") && said.contains("chromium headless"), "{code:?} {said}");
    let mut keyless = daemon.command(&["status"]);
    keyless.env("WARMPOOL_URL", daemon.url());
    let answer: Value = serde_json::from_slice(&tokio::process::Command::from(keyless).output().await?.stdout)?;
    ensure!(answer["phase"] == "serving", "{answer}");
    Ok(())
}

async fn exit_codes_are_those_of_the_guide(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let folder = tempfile::tempdir()?;
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let (backup, other, nowhere) = (path("backup.tar"), path("other"), path("none/backup.tar"));
    std::fs::write(&other, "no backup")?;
    for (arguments, expected, said) in [
        (&["backup", &backup][..], 0, ""),
        (&["backup", &backup], 64, "--force"),
        (&["backup", &backup, "--force"], 0, ""),
        (&["backup", &nowhere], 64, "a directory that does not exist"),
        (&["restore", &nowhere], 64, "cannot read"),
        // The daemon uses the store.
        (&["restore", &backup], 69, "another process"),
        (&["man", "dance"], 64, "no command"),
        (&["sessions", "list", "--browser-type", "opera"], 64, "chromium"),
        (&["tasks", "list", "--sort-by", "color"], 64, "executionTime"),
        (&["sessions", "show", "ses_unknown"], 65, "ses_unknown"),
        (&["key", "revoke", "nobody"], 65, "nobody"),
        (&["status", "--service", "http://127.0.0.1:9"], 69, "127.0.0.1:9"),
        (&["key", "list", "--store-data-dir", &nowhere], 69, "no store"),
    ] {
        let (code, _, problem) = in_pipe(daemon, arguments).await?;
        ensure!(code == Some(expected) && problem.contains(said), "{arguments:?}: {code:?} {problem}");
    }
    let mut elsewhere = daemon.command(&["restore", &other]);
    elsewhere.env("WARMPOOL_STORE_DATA_DIR", path("data"));
    let output = tokio::process::Command::from(elsewhere).output().await?;
    ensure!(output.status.code() == Some(64), "{output:?}");

    // The guide and the help have the same codes.
    let guide = std::fs::read_to_string(programs::examples().join("../orchestrator/docs/operations.md"))?;
    let help = daemon.cli_ok(&["--help"]).await?;
    let (_, codes) = help.split_once("Exit codes:").context("the codes in the help")?;
    let codes = codes.lines().filter_map(|line| line.split_whitespace().next());
    for code in codes {
        ensure!(guide.contains(&format!("\n| {code} | ")), "the guide lacks the exit code {code}");
    }
    Ok(())
}

async fn a_closed_pipe_is_no_error(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    for (arguments, expected) in [
        (&["serve", "--print-config"][..], 0),
        (&["openapi"], 0),
        (&["completions", "bash"], 0),
        (&["man", "key"], 0),
        (&["key", "create", "piped"], 0),
        (&["key", "list"], 0),
        (&["key", "list", "--json"], 0),
        (&["key", "revoke", "piped"], 0),
        (&["integration-key", "list"], 0),
        // What goes to standard error has nobody either.
        (&["key", "revoke", "nobody"], 65),
        (&["serve", "--server-listen", "nowhere"], 64),
        (&["sessions", "show", "ses_unknown"], 65),
    ] {
        let (reader, pipe) = std::io::pipe()?;
        drop(reader);
        let mut command = daemon.command(arguments);
        command.env("WARMPOOL_URL", daemon.url()).env("WARMPOOL_SECRET_KEY", daemon.key());
        command.stdout(pipe.try_clone()?).stderr(pipe);
        let status = tokio::process::Command::from(command).kill_on_drop(true).status().await?;
        ensure!(status.code() == Some(expected), "{arguments:?}: {status}");
    }
    Ok(())
}

async fn shells_know_values(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    for values in ["chromium firefox webkit", "starting running terminated", "garden home porch"] {
        let completions = daemon.cli_ok(&["completions", "bash"]).await?;
        ensure!(completions.contains(values), "{values} are not completed");
    }
    Ok(())
}

async fn a_world_is_one_command(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let key = daemon.cli_ok(&["integration-key", "create", "trial", "--test"]).await?.trim().to_owned();
    let wanted =
        ["--environment", "garden", "--patient-id", "p-1", "--patient-name", "Ann Lee", "--belonging", "radio"];
    let generate = [&["worlds", "generate"][..], &wanted, &["--detach"]].concat();
    let (code, _, problem) = in_pipe(daemon, &generate).await?;
    ensure!(code == Some(77) && problem.contains("WARMPOOL_INTEGRATION_KEY"), "{code:?} {problem}");
    let (code, _, problem) = in_pipe(daemon, &["worlds", "generate", "--environment", "garden"]).await?;
    ensure!(code == Some(64) && problem.contains("--patient-name"), "{code:?} {problem}");
    let mine = [("WARMPOOL_INTEGRATION_KEY", key)];
    let (code, said) = on_terminal(daemon, 80, &generate, &mine).await?;
    ensure!(code == Some(0), "{code:?} {said}");
    let made: Value = serde_json::from_str(&said).context(said)?;
    let id = made["world_id"].as_str().context("a world")?;
    let (code, list) = on_terminal(daemon, 60, &["worlds", "list"], &[]).await?;
    ensure!(code == Some(0) && list.contains(id) && list.contains("p-1"), "{list}");
    let (code, said) = on_terminal(daemon, 80, &["worlds", "open", id], &mine).await?;
    ensure!(code == Some(0) && Some(said.trim()) == made["viewer_url"].as_str(), "{said}");
    let (code, _, problem) = in_pipe(daemon, &["worlds", "delete", id]).await?;
    ensure!(code == Some(0), "{problem}");
    let (code, listed, _) = in_pipe(daemon, &["worlds", "list"]).await?;
    ensure!(code == Some(0) && listed["worlds"].as_array().is_some_and(Vec::is_empty), "{listed}");
    Ok(())
}
