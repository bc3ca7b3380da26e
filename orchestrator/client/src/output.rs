//! What goes to standard output, and words beside it: on a terminal for people, elsewhere as JSON. Much of it is what pages said,
//! so a terminal gets no control characters but ends of lines and tabs: pages could move its cursor, or worse.
//!
//! Whoever reads a pipe may close it, as `head` does. That is no error, and `println!` would panic of it.

use std::fmt::Display;
use std::io::{self, IsTerminal as _, Write};

use serde_json::Value;

/// Whether people read standard output, and did not ask for JSON.
pub(super) fn for_people(json: bool) -> bool {
    !json && std::io::stdout().is_terminal()
}

pub(super) fn print(value: &Value) {
    write(&if std::io::stdout().is_terminal() { format!("{value:#}") } else { value.to_string() });
}

/// Prints an answer: on a terminal as `text` tells it, otherwise and with `json` as it is.
pub(super) fn tell(value: &Value, json: bool, text: impl FnOnce() -> String) {
    if for_people(json) { write(&text()) } else { print(value) }
}

pub(super) fn write(text: &str) {
    let _ = write_line(text);
}

/// Writes a line to standard output.
/// Errors: those of the system, but none where the reader has closed the pipe.
pub fn write_line(text: &str) -> io::Result<()> {
    unless_closed(writeln!(stdout(), "{text}"))
}

/// Writes to standard output as it is, also on a terminal: what holds colours, or is a file to be.
/// Errors: those of the system, but none where the reader has closed the pipe.
pub fn write_bytes(bytes: &[u8]) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    unless_closed(stdout.write_all(bytes).and_then(|()| stdout.flush()))
}

/// Says something to people, on standard error. Where that cannot be written, nobody can be told so.
pub fn note(text: impl Display) {
    let _ = writeln!(io::stderr(), "{text}");
}

fn unless_closed(written: io::Result<()>) -> io::Result<()> {
    written.or_else(|error| if error.kind() == io::ErrorKind::BrokenPipe { Ok(()) } else { Err(error) })
}

/// Standard output, for what goes there as it comes.
pub(super) fn stdout() -> Box<dyn Write> {
    let stdout = io::stdout();
    if stdout.is_terminal() { Box::new(ControlFree::new(stdout)) } else { Box::new(stdout) }
}

/// Passes text in UTF-8 on without its control characters, ends of lines and tabs excepted.
struct ControlFree<W> {
    to: W,
    /// Whether the last byte is held back that began a character of two bytes, as the later control characters are.
    is_begun: bool,
}

/// What the control characters from U+0080 to U+009F begin with.
const BEGINNING: u8 = 0xc2;

impl<W> ControlFree<W> {
    const fn new(to: W) -> Self {
        Self { to, is_begun: false }
    }
}

impl<W: Write> Write for ControlFree<W> {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        let mut plain = Vec::with_capacity(text.len() + 1);
        for &byte in text {
            match (std::mem::take(&mut self.is_begun), byte) {
                (true, 0x80..=0x9f) => continue,
                (true, _) => plain.push(BEGINNING),
                (false, _) => {}
            }
            match byte {
                BEGINNING => self.is_begun = true,
                b'\n' | b'\t' => plain.push(byte),
                _ if byte.is_ascii_control() => {}
                _ => plain.push(byte),
            }
        }
        self.to.write_all(&plain)?;
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_has_closed_the_pipe_is_no_error() {
        let (reader, mut pipe) = io::pipe().unwrap();
        drop(reader);
        let written = pipe.write_all(b"text");
        assert_eq!(written.as_ref().map_err(io::Error::kind), Err(io::ErrorKind::BrokenPipe));
        assert!(unless_closed(written).is_ok());
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap().write_all(b"text");
        assert!(unless_closed(full).is_err());
    }

    #[test]
    fn a_terminal_gets_no_control_characters_however_the_text_is_cut() {
        let text = "a\u{1b}[2J\tb\r\n\u{9b}31mc\u{7f}\u{80}\u{9f}\u{a0}é世\u{85}¡\0\u{8}d\n".as_bytes();
        for step in 1..=text.len() {
            let mut plain = ControlFree::new(Vec::new());
            for part in text.chunks(step) {
                plain.write_all(part).unwrap();
            }
            plain.flush().unwrap();
            assert_eq!(String::from_utf8(plain.to).unwrap(), "a[2J\tb\n31mc\u{a0}é世¡d\n", "cut every {step} bytes");
        }
    }
}
