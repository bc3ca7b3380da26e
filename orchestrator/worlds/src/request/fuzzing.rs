//! Requests for worlds for the fuzzer: what passes the check keeps to the limits.

use super::{GenerateRequest, Limits, MAX_LABEL, MAX_NAME, MAX_URL, Source, WorldRequest};
use crate::Error;
use warmpool_core::error::{Code, Fault as _, read_json};

const LIMITS: Limits = Limits { images: 2, videos: 1, belongings: 3 };

/// Bodies with each kind of item.
pub fn seeds() -> Vec<Vec<u8>> {
    [
        r#"{"patient_id":"p-17","patient_name":"Ann Lee","environment_type":"garden","variation":3,"images":[{"data":"AAAA","label":" Wedding "},{"url":"https://example.com/a.jpg"}],"videos":[{"data":"data:image/png;base64,AAAA"}],"belongings":[{"label":"radio"}],"wait":3}"#,
        r#"{"patient_id":"p","patient_name":"n","environment_type":"home","variation":"x","api_key":"k"}"#,
    ]
    .map(|text| text.as_bytes().to_vec())
    .into()
}

/// Panics when a request that was taken breaks a limit.
pub fn check(bytes: &[u8]) {
    let Ok(body) = serde_json::from_slice::<serde_json::Value>(bytes) else { return };
    let Ok(request) = read_json::<GenerateRequest, _>(body) else { return };
    let request: Result<WorldRequest, Error> = WorldRequest::check(request, LIMITS);
    let request = match request {
        Ok(request) => request,
        Err(error) => return assert_ne!(error.code(), Code::Internal, "{error:?} is our fault"),
    };
    for name in [&request.patient_id, &request.patient_name] {
        assert!((1..=MAX_NAME).contains(&name.chars().count()) && !name.chars().any(char::is_control));
    }
    let counts = request.counts();
    assert!(counts.images <= LIMITS.images && counts.videos <= LIMITS.videos && counts.belongings <= LIMITS.belongings);
    for item in &request.items {
        assert!(item.label.chars().count() <= MAX_LABEL);
        match &item.source {
            Source::Url(url) => {
                assert!(matches!(url.scheme(), "http" | "https") && url.as_str().len() <= 3 * MAX_URL + 1)
            }
            Source::Data(bytes) => assert!(!bytes.is_empty()),
            Source::None => assert!(!item.label.is_empty()),
        }
    }
}
