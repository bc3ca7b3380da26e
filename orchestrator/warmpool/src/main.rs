//! The program; all of it is in the library, where it is compiled once.

fn main() -> std::process::ExitCode {
    warmpool::cli::main()
}
