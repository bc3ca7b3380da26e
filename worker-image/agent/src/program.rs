//! Programs that the agent starts and watches: browsers, drivers and the X server.

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{ChildStderr, ChildStdout};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::domain::Domain;
use crate::error::BootError;
use crate::process::{Process, Processes};

/// Bytes of output kept for an error message.
const TAIL: usize = 8 << 10;
/// How long the last output of a program that has ended may take to arrive.
const LAST_OUTPUT: Duration = Duration::from_secs(1);

/// Where a program prints that it is ready, and what that line contains.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ReadySign {
    Stdout(&'static str),
    Stderr(&'static str),
}

/// A program that runs, and the end of what it printed.
pub(crate) struct Program {
    pub(crate) process: Process,
    /// For messages.
    name: &'static str,
    ready: watch::Receiver<Option<String>>,
    tail: Tail,
    readers: Mutex<Vec<JoinHandle<()>>>,
}

impl Program {
    /// Starts a program that takes no input.
    pub(crate) fn start(
        processes: &Processes,
        domain: Domain,
        name: &'static str,
        command: &mut Command,
        sign: Option<ReadySign>,
    ) -> Result<Self, BootError> {
        let failed = |source| BootError::Start { program: name, source };
        let on_stdout = matches!(sign, Some(ReadySign::Stdout(_)));
        command.stdin(Stdio::null()).stdout(if on_stdout { Stdio::piped() } else { Stdio::null() });
        let (mut program, mut child) = Self::spawn(processes, domain, name, command)?;
        let (sender, ready) = watch::channel(None);
        program.ready = ready;
        let (to_stdout, to_stderr) = match sign {
            Some(ReadySign::Stdout(text)) => (Some((text, sender)), None),
            Some(ReadySign::Stderr(text)) => (None, Some((text, sender))),
            None => (None, None),
        };
        if let Some(pipe) = child.stdout.take() {
            program.read(ChildStdout::from_std(pipe).map_err(failed)?, to_stdout);
        }
        if let Some(pipe) = child.stderr.take() {
            program.read(ChildStderr::from_std(pipe).map_err(failed)?, to_stderr);
        }
        Ok(program)
    }

    /// Starts a program that takes commands on its standard input and answers on its standard output, both of which the
    /// caller takes from the [`Child`].
    pub(crate) fn converse(
        processes: &Processes,
        domain: Domain,
        name: &'static str,
        command: &mut Command,
    ) -> Result<(Self, Child), BootError> {
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let (program, mut child) = Self::spawn(processes, domain, name, command)?;
        if let Some(pipe) = child.stderr.take() {
            let pipe = ChildStderr::from_std(pipe).map_err(|source| BootError::Start { program: name, source })?;
            program.read(pipe, None);
        }
        Ok((program, child))
    }

    fn spawn(
        processes: &Processes,
        domain: Domain,
        name: &'static str,
        command: &mut Command,
    ) -> Result<(Self, Child), BootError> {
        let (process, child) = processes
            .spawn(domain, command.stderr(Stdio::piped()))
            .map_err(|source| BootError::Start { program: name, source })?;
        let ready = watch::channel(None).1;
        Ok((Self { process, name, ready, tail: Tail::default(), readers: Mutex::default() }, child))
    }

    fn read(
        &self,
        pipe: impl AsyncRead + Unpin + Send + 'static,
        sign: Option<(&'static str, watch::Sender<Option<String>>)>,
    ) {
        let reader = tokio::spawn(follow(pipe, self.tail.clone(), sign));
        self.readers.lock().push(reader);
    }

    /// Waits for the line that says that the program is ready, and gives it.
    pub(crate) async fn ready(&self) -> Result<String, BootError> {
        let mut ready = self.ready.clone();
        if let Ok(Some(line)) = ready.wait_for(Option::is_some).await.as_deref() {
            return Ok(line.clone());
        }
        Err(self.ended().await)
    }

    /// Waits for `done`, but no longer than `limit` and no longer than the program lives. If that fails, the program is
    /// killed.
    pub(crate) async fn until<T>(
        &self,
        limit: Duration,
        done: impl Future<Output = Result<T, BootError>>,
    ) -> Result<T, BootError> {
        let waited = async {
            tokio::select! {
                biased;
                done = done => done,
                _ = self.process.exited() => Err(self.ended().await),
            }
        };
        let slow = || BootError::Slow { program: self.name, output: self.output() };
        let done = timeout(limit, waited).await.unwrap_or_else(|_| Err(slow()));
        if done.is_err() {
            self.process.kill().await;
        }
        done
    }

    /// The last that the program printed.
    pub(crate) fn output(&self) -> String {
        self.tail.text()
    }

    /// The error of a program that ended when it should have become ready.
    pub(crate) async fn ended(&self) -> BootError {
        let readers = std::mem::take(&mut *self.readers.lock());
        // A child of the program may hold its output open.
        let _ = timeout(LAST_OUTPUT, futures_util::future::join_all(readers)).await;
        BootError::Ended { program: self.name, output: self.output() }
    }
}

/// The end of what a program printed.
#[derive(Clone, Default)]
struct Tail(Arc<Mutex<Vec<u8>>>);

impl Tail {
    fn text(&self) -> String {
        let bytes = self.0.lock();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn push(&self, bytes: &[u8]) {
        let mut tail = self.0.lock();
        tail.extend_from_slice(bytes);
        let excess = tail.len().saturating_sub(TAIL);
        tail.drain(..excess);
    }
}

/// Reads a pipe to its end, so that the writer never blocks, and sends the first whole line that contains the sign.
async fn follow(
    mut pipe: impl AsyncRead + Unpin,
    tail: Tail,
    mut sign: Option<(&'static str, watch::Sender<Option<String>>)>,
) {
    let own = Tail::default();
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = pipe.read(&mut buffer).await {
        tail.push(&buffer[..count]);
        if let Some((text, sender)) = &sign {
            // The program's other pipe may write into the middle of a line of the common tail.
            own.push(&buffer[..count]);
            if let Some(line) = whole_line(&own.text(), text) {
                sender.send_replace(Some(line));
                sign = None;
            }
        }
    }
}

fn whole_line(text: &str, sign: &str) -> Option<String> {
    text.split_inclusive('\n')
        .filter_map(|line| line.strip_suffix('\n'))
        .find(|line| line.contains(sign))
        .map(|line| line.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::signal::unix::{SignalKind, signal};

    /// A shell script as a program, on a reaper of its own.
    fn program(script: &str, sign: ReadySign) -> Program {
        let processes = Processes::of_tests();
        let mut children = signal(SignalKind::child()).unwrap();
        let mut command = Command::new("sh");
        let program = Program::start(&processes, Domain::Open, "sh", command.args(["-c", script]), Some(sign)).unwrap();
        tokio::spawn(async move {
            while children.recv().await.is_some() {
                processes.reap();
            }
        });
        program
    }

    const LONG: Duration = Duration::from_secs(600);

    #[tokio::test]
    async fn a_line_that_comes_in_pieces_says_that_it_is_ready() {
        let (mut writer, reader) = tokio::io::duplex(64);
        let ((sender, ready), tail) = (watch::channel(None), Tail::default());
        let reading = tokio::spawn(follow(reader, tail.clone(), Some(("listening on", sender))));
        for piece in ["noise\nDevTools list", "ening on ws://x/y", "\nmore"] {
            tokio::io::AsyncWriteExt::write_all(&mut writer, piece.as_bytes()).await.unwrap();
        }
        tokio::io::AsyncWriteExt::write_all(&mut writer, &vec![b'z'; 3 * TAIL]).await.unwrap();
        drop(writer);
        reading.await.unwrap();
        assert_eq!(ready.borrow().as_deref(), Some("DevTools listening on ws://x/y"));
        assert!(tail.text().len() <= TAIL);
    }

    #[tokio::test]
    async fn each_pipe_has_its_own_sign() {
        let program = program("echo ready: no >&2; echo ready: yes; exec sleep 600", ReadySign::Stdout("ready"));
        assert_eq!(program.until(LONG, program.ready()).await.unwrap(), "ready: yes");
        program.process.kill().await;
        program.ended().await;
        assert!(program.output().contains("ready: no"));
    }

    #[tokio::test]
    async fn one_that_ends_first_leaves_its_last_words() {
        let program = program("echo no usable sandbox >&2; exit 1", ReadySign::Stderr("ready"));
        match program.until(LONG, program.ready()).await {
            Err(BootError::Ended { output, .. }) => assert_eq!(output, "no usable sandbox\n"),
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn one_that_is_slow_is_killed() {
        let program = program("exec sleep 600", ReadySign::Stderr("ready"));
        let slow = program.until(Duration::ZERO, program.ready()).await;
        assert!(matches!(slow, Err(BootError::Slow { .. })), "{slow:?}");
        assert!(!program.process.running());
    }
}
