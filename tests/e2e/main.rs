//! End-to-end tests: the real daemon, real containers, real clients; one file a behaviour.
//!
//! `cargo test -p warmpool-tests` runs all, `WARMPOOL_TEST_QUICK=1` a subset; a name filters, as with any test binary.
//! The worker image must be built. A failed case shows the end of its daemon's log; whole logs are in
//! `target/e2e-logs`.

mod backups;
mod bad_input;
mod bodies;
mod capabilities;
mod clients;
mod conditions;
mod connections;
mod create;
mod dropin;
mod dropin_input;
mod examples;
mod extracts;
mod faults;
mod fence;
mod files;
mod firefox;
mod fleet;
mod fleet_contexts;
mod full_disk;
mod guard;
mod history;
mod keys;
mod life;
mod listing;
mod live;
mod live_hands;
mod live_kept;
mod live_screens;
mod network;
mod new_session;
mod operators;
mod pages;
mod pool;
mod queue;
mod readme;
mod recordings;
mod recovery;
mod relay;
mod settings;
mod steps;
mod task_faults;
mod tasks_kept;
mod transparency;
mod webkit;

use std::process::ExitCode;

fn main() -> ExitCode {
    warmpool_tests::suite::run(vec![
        create::group(),
        settings::group(),
        bad_input::group(),
        bodies::group(),
        connections::group(),
        guard::group(),
        fence::group(),
        readme::group(),
        relay::group(),
        live::group(),
        live_hands::group(),
        pages::group(),
        live_kept::group(),
        live_screens::group(),
        capabilities::group(),
        new_session::group(),
        transparency::group(),
        files::group(),
        life::group(),
        listing::group(),
        queue::group(),
        keys::group(),
        network::group(),
        operators::group(),
        pool::group(),
        clients::group(),
        dropin::group(),
        dropin_input::group(),
        examples::group(),
        recordings::group(),
        conditions::group(),
        backups::group(),
        steps::group(),
        extracts::group(),
        task_faults::group(),
        history::group(),
        tasks_kept::group(),
        fleet::group(),
        fleet_contexts::group(),
        full_disk::group(),
        firefox::group(),
        faults::group(),
        recovery::group(),
        webkit::group(),
    ])
}
