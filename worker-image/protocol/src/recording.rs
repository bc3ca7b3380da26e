//! A recording of a worker's display, as `GET /recording` answers it: VP8 in IVF, with times in milliseconds.

/// The length of the file's header, in bytes.
pub const FILE_HEADER: usize = 32;
/// The length of each picture's header, in bytes.
pub const PICTURE_HEADER: usize = 12;
/// The largest picture, in bytes.
pub const MAX_PICTURE: usize = 16 << 20;

/// Query of `GET /recording`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordingQuery {
    /// The most pictures a second.
    pub rate: u32,
}

impl RecordingQuery {
    /// As the query of an address.
    #[must_use]
    pub fn query(self) -> String {
        format!("rate={}", self.rate)
    }

    /// Reads such a query.
    #[must_use]
    pub fn from_query(query: &str) -> Option<Self> {
        Some(Self { rate: query.strip_prefix("rate=")?.parse().ok()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_goes_by_a_query() {
        let query = RecordingQuery { rate: 25 };
        assert_eq!(RecordingQuery::from_query(&query.query()), Some(query));
        for wrong in ["", "rate", "rate=", "rate=x", "rate=25&x=1", "limit=25"] {
            assert_eq!(RecordingQuery::from_query(wrong), None, "{wrong}");
        }
    }
}
