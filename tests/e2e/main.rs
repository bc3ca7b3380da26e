//! End-to-end tests: the real daemon, real containers, real clients; one file a behaviour.
//!
//! `cargo test -p warmpool-tests` runs all, `WARMPOOL_TEST_QUICK=1` a subset; a name filters, as with any test binary.
//! The worker image must be built. A failed case shows the end of its daemon's log; whole logs are in
//! `target/e2e-logs`.

use std::env;
use std::process::ExitCode;

use warmpool_tests::{Group, suite};

/// Declares the modules, each of which has a `group()`. The groups begin in this order, and those that take longest are
/// the first: at the end a lane without work waits for the others. `cargo fmt` does not see modules
/// behind a macro: `scripts/check` names the command that formats them.
macro_rules! modules {
    ($groups:ident: $($name:ident),* $(,)?) => {
        $(mod $name;)*

        fn $groups() -> Vec<Group> {
            vec![$($name::group()),*]
        }
    };
}

// Faults in full, which take hours: `scripts/faults` runs them.
modules! {
    row_groups:
    row_engine,
    row_engine_restart,
    row_worker,
    row_sockets,
    row_successors,
    row_clock,
    row_frames,
    row_crashes,
    row_damage,
    row_full_disk,
    row_files,
    row_queue,
    row_clients,
    row_requests,
    row_autobahn,
    row_soak,
}

modules! {
    groups:
    swarm,
    kubernetes,
    packages,
    hosts,
    worlds,
    world_pages,
    readme,
    description,
    task_faults,
    create,
    settings,
    permissions,
    ca_certificates,
    ads,
    bad_input,
    bodies,
    connections,
    state,
    profiles,
    profile_durability,
    profile_folders,
    extensions,
    access,
    egress,
    leaks,
    captchas,
    webhooks,
    logs,
    page_isolation,
    relay,
    live,
    live_input,
    live_screens,
    pages,
    page_calls,
    playwright,
    page_call_limits,
    page_functions,
    page_audits,
    page_call_engines,
    live_durability,
    capabilities,
    chromium_fence,
    new_session,
    transparency,
    files,
    first_page,
    session_ends,
    listing,
    queue,
    keys,
    console,
    console_profiles,
    network,
    operators,
    command_line,
    traces,
    pool,
    page_out,
    clients,
    dropin,
    dropin_input,
    dropin_sessions,
    hosted,
    agents,
    mcp,
    examples,
    tools,
    recordings,
    conditions,
    backups,
    steps,
    extracts,
    history,
    task_durability,
    fleet,
    fleet_contexts,
    full_disk,
    firefox,
    faults,
    recovery,
    webkit,
    world_requests,
    podman,
    scripts,
    chart,
    model,
    reliability,
}

/// Those that only `scripts/faults` runs.
fn long_groups() -> Vec<Group> {
    row_groups().into_iter().chain([model::long::group()]).collect()
}

fn main() -> ExitCode {
    if env::var_os("WARMPOOL_FAULT_WRITE").is_some() {
        return exit(reliability::write().map(|()| ExitCode::SUCCESS));
    }
    let Some(rows) = reliability::chosen() else { return suite::run(groups()).code };
    let groups = groups().into_iter().chain(long_groups()).collect();
    exit(rows.and_then(|rows| reliability::run(&rows, groups)))
}

fn exit(outcome: anyhow::Result<ExitCode>) -> ExitCode {
    outcome.unwrap_or_else(|error| {
        eprintln!("{error:?}");
        ExitCode::FAILURE
    })
}
