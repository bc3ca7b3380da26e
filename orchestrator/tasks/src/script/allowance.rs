//! What the parts of one body may take together. Each of them is short in the body, and takes much more once it is read.

use super::fields::wrong;
use crate::Error;

/// No body has more steps, those within other steps included.
const MAX_STEPS: usize = 2_000;
/// Memory of all compiled regular expressions of a body, in bytes: five hundred plain ones, or a hundred with classes such as `\w`.
const MAX_PATTERN_BYTES: usize = 8 << 20;
/// Parts of all JSON Schemas of a body, once their references are followed. A check of a result takes as long.
pub(super) const MAX_SCHEMA_PARTS: u64 = 100_000;

/// What is left for one body. It is passed on from part to part, and is of no use for another body.
#[derive(Debug)]
pub(crate) struct Allowance {
    steps: usize,
    pattern_bytes: usize,
    schema_parts: u64,
}

impl Default for Allowance {
    fn default() -> Self {
        Self { steps: MAX_STEPS, pattern_bytes: MAX_PATTERN_BYTES, schema_parts: MAX_SCHEMA_PARTS }
    }
}

impl Allowance {
    /// Takes so many steps.
    /// Errors: `Field`.
    pub(super) fn take_steps(&mut self, field: &str, count: usize) -> Result<(), Error> {
        let left = self.steps.checked_sub(count);
        self.steps = left.ok_or_else(|| {
            wrong(field, &format!("has too many steps: a body may have {MAX_STEPS}, those within other steps included"))
        })?;
        Ok(())
    }

    /// Takes memory for regular expressions, before it is used.
    /// Errors: `Field`.
    pub(super) fn take_pattern_bytes(&mut self, field: &str, bytes: usize) -> Result<(), Error> {
        let left = self.pattern_bytes.checked_sub(bytes);
        self.pattern_bytes = left.ok_or_else(|| {
            let problem = format!(
                "takes too much memory: the regular expressions of a body may take {MAX_PATTERN_BYTES} bytes together, so \
                 leave some out, or write `[a-z]` for classes such as `\\w`"
            );
            wrong(field, &problem)
        })?;
        Ok(())
    }

    /// Returns memory to the allowance that no expression has used.
    pub(super) const fn return_pattern_bytes(&mut self, bytes: usize) {
        self.pattern_bytes += bytes;
    }

    /// Takes parts of a JSON Schema.
    /// Errors: `Field`.
    pub(super) fn take_schema_parts(&mut self, field: &str, parts: u64) -> Result<(), Error> {
        let left = self.schema_parts.checked_sub(parts);
        self.schema_parts = left.ok_or_else(|| {
            let problem = format!(
                "is too large once its references are followed: the schemas of a body may have {MAX_SCHEMA_PARTS} parts \
                 together, so refer to each part less often"
            );
            wrong(field, &problem)
        })?;
        Ok(())
    }
}
