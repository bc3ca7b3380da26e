//! Answers that are in memory as a whole, or in large parts. Each holds its part of one budget until the last of it has been sent, so
//! clients that read slowly hold no more of the daemon's memory together than that.

use axum::body::Body;
use bytes::Bytes;

use super::budget::{Budget, Holder, Reservation};
use super::reply::REQUEST;
use crate::http::error::Error;
use warmpool_tasks::task::Memory;

/// The longest answer that does not count, in bytes: connections have buffers of about that size anyway, and an error always fits.
const SMALL: u64 = 64 << 10;

/// Memory for an answer that may not be there yet.
#[derive(Debug)]
pub(super) struct AnswerMemory(Option<Reservation>);

/// Takes memory for an answer of so many bytes, from the share of whoever sent the request that this task answers.
/// Errors: `AnswerMemory`.
pub(super) fn reserve(bytes: u64) -> Result<AnswerMemory, Error> {
    AnswerParts::of_request().take(bytes)
}

/// Memory for the parts of an answer that are made while it is read, from the share of whoever sent its request.
#[derive(Debug, Clone)]
pub(super) struct AnswerParts(Option<(Budget, Holder)>);

impl AnswerParts {
    /// For the answer to the request that this task answers.
    pub(super) fn of_request() -> Self {
        Self(REQUEST.try_with(|asked| (asked.answers.clone(), Holder::of_request())).ok())
    }
}

impl Memory for AnswerParts {
    type Part = AnswerMemory;
    type Error = Error;

    /// Takes memory for a part of so many bytes.
    /// Errors: `AnswerMemory`.
    fn take(&self, bytes: u64) -> Result<AnswerMemory, Error> {
        let Some((budget, holder)) = self.0.as_ref().filter(|_| bytes > SMALL) else { return Ok(AnswerMemory(None)) };
        let mut part = budget.part(holder.clone());
        part.grow(bytes)?;
        Ok(AnswerMemory(Some(part)))
    }

    fn most(&self) -> u64 {
        self.0.as_ref().map_or(u64::MAX, |(budget, holder)| budget.part(holder.clone()).room())
    }
}

impl AnswerMemory {
    /// The answer's body, which holds the memory for as long as it is there itself.
    pub(super) fn body(self, bytes: Bytes) -> Body {
        match self.0 {
            Some(part) => Body::from(Bytes::from_owner(Counted { bytes, _part: part })),
            None => Body::from(bytes),
        }
    }
}

/// The body of an answer that is here already.
/// Errors: `AnswerMemory`.
pub(super) fn whole(bytes: impl Into<Bytes>) -> Result<Body, Error> {
    let bytes = bytes.into();
    Ok(reserve(bytes.len() as u64)?.body(bytes))
}

/// Bytes that count. A connection takes them out of a body at once, and drops them when they are written.
struct Counted {
    bytes: Bytes,
    _part: Reservation,
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::sync::Arc;

    use axum::response::Response;
    use http::StatusCode;
    use http_body_util::BodyExt as _;
    use serde_json::json;

    use super::super::budget::{Budget, Purpose};
    use super::super::reply::{AuthMethod, Form, RequestContext, RequestNotes, json_reply};
    use super::*;
    use warmpool_config::ByteSize;
    use warmpool_core::ids::RequestId;

    /// A request from this address, with this key.
    fn request(answers: &Budget, address: [u8; 4], key: Option<&str>) -> RequestContext {
        let notes = Arc::<RequestNotes>::default();
        if let Some(key) = key {
            notes.caller.set((key.parse().unwrap(), AuthMethod::Key)).unwrap();
        }
        let (id, path, address) = (RequestId::random(), "/".to_owned(), IpAddr::from(address));
        RequestContext { id, form: Form::Rest, path, address, answers: answers.clone(), notes }
    }

    /// An answer of so many KiB and a little more.
    fn answer(asked: RequestContext, kibibytes: usize) -> Response {
        let text = json!("x".repeat(kibibytes << 10));
        REQUEST.sync_scope(asked, || json_reply(StatusCode::OK, &text))
    }

    #[test]
    fn parts_of_an_answer_count_for_whoever_sent_its_request() {
        let answers = Budget::new(Purpose::Answers, ByteSize(512 << 10), ByteSize(256 << 10));
        let key = Some("0123456789ab");
        let parts = REQUEST.sync_scope(request(&answers, [192, 0, 2, 1], key), AnswerParts::of_request);
        // The request is over, and its answer is read.
        assert_eq!(parts.most(), 256 << 10);
        let held = parts.take(200 << 10).unwrap();
        assert!(matches!(parts.take(100 << 10), Err(Error::AnswerMemory)) && parts.take(SMALL).is_ok());
        assert_eq!(answer(request(&answers, [192, 0, 2, 2], key), 100).status(), StatusCode::SERVICE_UNAVAILABLE);
        drop(held);
        assert!(parts.take(256 << 10).is_ok());
        assert!(matches!(parts.take(257 << 10), Err(Error::AnswerMemory)));
    }

    #[tokio::test]
    async fn answers_count_until_they_are_sent() {
        let answers = Budget::new(Purpose::Answers, ByteSize(512 << 10), ByteSize(256 << 10));
        let key = Some("0123456789ab");
        let held = answer(request(&answers, [192, 0, 2, 1], key), 200);
        assert_eq!(held.status(), StatusCode::OK);
        // Another of the same key, from wherever, has to wait; short ones do not count, nor do those of others.
        let refused = answer(request(&answers, [192, 0, 2, 2], key), 100);
        assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert!(refused.headers().contains_key("retry-after"));
        let said = refused.into_body().collect().await.unwrap().to_bytes();
        assert!(String::from_utf8_lossy(&said).contains("server.answer_share"));
        assert_eq!(answer(request(&answers, [192, 0, 2, 1], key), 10).status(), StatusCode::OK);
        let other = answer(request(&answers, [192, 0, 2, 1], None), 200);
        assert_eq!(other.status(), StatusCode::OK);
        let all = answer(request(&answers, [192, 0, 2, 3], None), 200);
        assert_eq!(all.status(), StatusCode::SERVICE_UNAVAILABLE, "the rest is too little for anybody");

        // A connection takes the bytes out of the body, and writes them bit by bit.
        let mut body = held.into_body();
        let mut taken = body.frame().await.unwrap().unwrap().into_data().unwrap();
        drop(body);
        let last = taken.split_off(taken.len() - 1);
        drop(taken);
        assert_eq!(answer(request(&answers, [192, 0, 2, 1], key), 100).status(), StatusCode::SERVICE_UNAVAILABLE);
        drop(last);
        assert_eq!(answer(request(&answers, [192, 0, 2, 1], key), 100).status(), StatusCode::OK);
    }
}
