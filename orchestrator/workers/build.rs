//! Notices when the list of ads that is built into the daemon changed.

fn main() {
    println!("cargo::rerun-if-changed=../ads");
}
