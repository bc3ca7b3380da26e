//! Names what the daemon calls a field as whoever wrote it knows it: an option of the command line, or a place in a file.

use std::path::{Path, PathBuf};

use super::error::ClientError;

/// A field of a request, and the option that sets it.
pub(super) type SetBy = (&'static str, &'static str);

/// Those of a command's options that it was given.
pub(super) fn given<const N: usize>(options: [(bool, &'static str, &'static str); N]) -> Vec<SetBy> {
    options.into_iter().filter(|(is_given, ..)| *is_given).map(|(_, field, option)| (field, option)).collect()
}

/// The file that a request was read from.
#[derive(Debug, Clone)]
pub(super) struct SentFile {
    path: PathBuf,
    /// Where the file's content stands in the request, such as `recording`; empty where it is the request.
    place: String,
}

impl SentFile {
    /// A file that holds a whole request.
    pub(super) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), place: String::new() }
    }

    /// The file's content was put into this member of the request.
    pub(super) fn put_into(&mut self, member: &str) {
        self.place = if self.place.is_empty() { member.to_owned() } else { format!("{member}.{}", self.place) };
    }

    /// The name of a field in the file.
    fn name(&self, field: &str) -> String {
        let below = field.strip_prefix(self.place.as_str()).map(|rest| rest.trim_start_matches('.'));
        let inside = if self.place.is_empty() { field } else { below.unwrap_or(field) };
        let file =
            if self.path == Path::new("-") { "standard input".to_owned() } else { self.path.display().to_string() };
        if inside.is_empty() { file } else { format!("{file}: `{inside}`") }
    }
}

impl ClientError {
    /// The same error in the words of the command line. Of `options`, those that the command was given.
    pub(super) fn named(self, options: &[SetBy], file: Option<&SentFile>) -> Self {
        let Self::Refused { status, message, field: Some(field) } = self else { return self };
        let option = options.iter().find_map(|(known, option)| {
            let rest = field.strip_prefix(known)?;
            match rest.strip_prefix('.') {
                Some(part) => Some(format!("{option} {part}")),
                None => (rest.is_empty() || rest.starts_with('[')).then(|| format!("{option}{rest}")),
            }
        });
        let name = option.or_else(|| file.map(|file| file.name(&field)));
        let message = match name {
            None => message,
            Some(name) => {
                let quoted = format!("`{field}`");
                if message.contains(&quoted) {
                    message.replacen(&quoted, &name, 1)
                } else {
                    format!("{name}: {message}")
                }
            }
        };
        Self::Refused { status, message, field: Some(field) }
    }
}

#[cfg(test)]
mod tests {
    use http::StatusCode;

    use super::*;

    fn named(field: &str, message: &str, file: Option<&SentFile>) -> String {
        let error = ClientError::Refused {
            status: StatusCode::BAD_REQUEST,
            message: message.to_owned(),
            field: Some(field.to_owned()),
        };
        error.named(&[("timeout", "--timeout"), ("inputs", "--input")], file).to_string()
    }

    #[test]
    fn a_field_has_the_name_of_its_option() {
        assert_eq!(named("timeout", "`timeout` must be less", None), "--timeout must be less");
        assert_eq!(named("inputs.q", "`inputs.q` must be a text", None), "--input q must be a text");
        assert_eq!(named("timeouts", "`timeouts` is unknown", None), "`timeouts` is unknown");
    }

    #[test]
    fn a_field_of_a_file_has_its_place_there() {
        let mut file = SentFile::new(Path::new("login.json"));
        assert_eq!(named("url", "`url` is wrong", Some(&file)), "login.json: `url` is wrong");
        file.put_into("recording");
        file.put_into("run");
        let message = "unknown field `run.recording.steps[0].x`: did you mean `y`?";
        let shown = named("run.recording.steps[0].x", message, Some(&file));
        assert_eq!(shown, "unknown field login.json: `steps[0].x`: did you mean `y`?");
        assert_eq!(named("run.recording", "`run.recording` is wrong", Some(&file)), "login.json is wrong");
        assert_eq!(
            named("extract", "needs one", Some(&SentFile::new(Path::new("-")))),
            "standard input: `extract`: needs one"
        );
    }
}
