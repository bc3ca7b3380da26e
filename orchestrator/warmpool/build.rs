//! Notices when the pages that are built into the daemon changed, and says so where they are missing. It never runs a bundler:
//! `scripts/console` does, and the daemon can be built and tested without it.

use std::path::Path;

fn main() {
    let built = Path::new("../console/dist/live.html").exists();
    // A path that is not there would count as changed at every build.
    println!("cargo::rerun-if-changed={}", if built { "../console/dist" } else { "../console" });
    if !built {
        println!(
            "cargo::warning=console/dist is missing: the live view's page is left out (scripts/console builds it)"
        );
    }
}
