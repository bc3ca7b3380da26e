//! Whether a site's `robots.txt` is asked, and by which name it knows the reader.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::Error;
use warmpool_core::error::FieldFault as _;

/// By which name `robots.txt` knows the reader where the client gives none.
const READER: &str = "Warmpool";
/// The longest name of a reader.
const LONGEST_READER: usize = 64;

/// Whether and for whom `robots.txt` is asked.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "true, false or the name of the reader")]
pub(crate) enum Robots {
    /// Whether it is.
    Asked(bool),
    /// Whom it knows by this name.
    Reader(String),
}

impl Robots {
    /// By which name the file knows the reader; none where it is not asked.
    pub(crate) fn reader(self) -> Option<String> {
        match self {
            Self::Asked(asked) => asked.then(|| READER.to_owned()),
            Self::Reader(name) => Some(name),
        }
    }
}

/// A reader's name, as the standard has it (RFC 9309, section 2.2.1).
/// Errors: `Field`.
pub(crate) fn checked_reader(name: String) -> Result<String, Error> {
    let is_name = |byte: u8| byte.is_ascii_alphabetic() || matches!(byte, b'-' | b'_');
    if name.is_empty() || name.len() > LONGEST_READER || !name.bytes().all(is_name) {
        let problem = format!("must be true, false, or a name of 1 to {LONGEST_READER} letters, `-` and `_`");
        return Err(Error::invalid("robots", problem));
    }
    Ok(name)
}
