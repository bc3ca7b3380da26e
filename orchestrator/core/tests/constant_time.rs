//! Whether a comparison of secrets tells how much of a guess is right: by the time that it takes, or rather by how many instructions
//! it executes. This program runs itself as a child, and steps through the child's comparison one instruction after the other, as a
//! debugger does. So it needs no clock, and a busy machine changes nothing.
//!
//! It does not measure how service keys are found, since nothing compares them: the daemon looks up their hash, of which a guess
//! tells nothing.

use std::error::Error;
use std::hint::black_box;
use std::process::{Child, Command, exit};

use nix::errno::Errno;
use nix::sys::ptrace;
use nix::sys::signal::{Signal, raise};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;
use warmpool_core::secret;
use warmpool_protocol::Secret as WorkerSecret;

/// As long as a session's token.
const GENUINE: &str = "kR7wq2ZpX0sVt5bNf8LcYd3HgJ6mAeUo9TiQ1hKxWvE";

/// Raised by the child before and after the comparison.
const MARK: Signal = Signal::SIGUSR1;

/// The child could not be followed.
const NOT_TRACED: i32 = 77;

/// What compares a guess with [`GENUINE`].
type Comparison = fn(&str) -> bool;

const COMPARISONS: [(&str, Comparison); 3] = [
    ("secret::equal", |guess| secret::equal(GENUINE, guess)),
    ("a worker's secret", |guess| WorkerSecret::new(GENUINE.to_owned()).opens(format!("Bearer {guess}").as_bytes())),
    // It shows that this test would see a comparison that stops at the first difference.
    (STOPS_EARLY, |guess| GENUINE.bytes().eq(guess.bytes())),
];

const STOPS_EARLY: &str = "byte by byte";

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, flag, name, guess] = arguments.as_slice()
        && flag == "--compare"
    {
        return compare(name, guess);
    }
    let wrong_at = |place: usize| {
        let mut guess = GENUINE.as_bytes().to_vec();
        guess[place] = b'-';
        String::from_utf8(guess)
    };
    let guesses = [wrong_at(0)?, wrong_at(1)?, wrong_at(GENUINE.len() / 2)?, wrong_at(GENUINE.len() - 1)?];
    for (name, _) in COMPARISONS {
        let mut counts = Vec::new();
        for guess in guesses.iter().map(String::as_str).chain([GENUINE]) {
            let Some(count) = instructions(name, guess)? else {
                println!("not measured: this system lets no process follow its child");
                return Ok(());
            };
            counts.push(count);
        }
        println!("{name}: {counts:?} instructions");
        let are_same = counts.iter().all(|count| *count == counts[0]);
        if are_same == (name == STOPS_EARLY) {
            return Err(format!("{name}: {counts:?} instructions for guesses that are right for ever longer").into());
        }
    }
    Ok(())
}

/// The child's part.
fn compare(name: &str, guess: &str) -> Result<(), Box<dyn Error>> {
    let (_, comparison) = COMPARISONS.into_iter().find(|(known, _)| *known == name).ok_or("an unknown comparison")?;
    // The first call of anything has its symbols looked up.
    black_box(comparison(black_box(guess)));
    if ptrace::traceme().is_err() {
        exit(NOT_TRACED);
    }
    raise(MARK)?;
    black_box(comparison(black_box(guess)));
    raise(MARK)?;
    Ok(())
}

/// How many instructions a comparison executes; `None` where the system does not allow counting them.
fn instructions(name: &str, guess: &str) -> Result<Option<u64>, Box<dyn Error>> {
    let mut child = Command::new(std::env::current_exe()?).args(["--compare", name, guess]).spawn()?;
    let count = count(&child);
    // It has ended already where it could not be followed.
    let _ = child.kill();
    let _ = child.wait();
    count
}

fn count(child: &Child) -> Result<Option<u64>, Box<dyn Error>> {
    let child = Pid::from_raw(i32::try_from(child.id())?);
    match waitpid(child, None)? {
        WaitStatus::Stopped(_, MARK) => {}
        WaitStatus::Exited(_, NOT_TRACED) => return Ok(None),
        other => return Err(format!("the child did not begin: {other:?}").into()),
    }
    let mut count = 0;
    loop {
        match ptrace::step(child, None) {
            Err(Errno::EIO | Errno::ENOSYS) => return Ok(None),
            stepped => stepped?,
        }
        match waitpid(child, None)? {
            WaitStatus::Stopped(_, Signal::SIGTRAP) => count += 1,
            WaitStatus::Stopped(_, MARK) => return Ok(Some(count)),
            other => return Err(format!("the child stopped otherwise: {other:?}").into()),
        }
    }
}
