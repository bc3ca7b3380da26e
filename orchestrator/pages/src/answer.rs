//! What a call answers: all of it at once, or piece by piece from the browser.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream::{BoxStream, unfold};
use futures_util::{Stream, StreamExt as _};
use http::HeaderValue;

use crate::chromium::Printed;
use crate::code::{CodeOutcome, Files};
use crate::response::PageResponse;
use warmpool_sessions::session::{CommandGuard, Ending, Session, UnconfirmedSession};

/// What a call answers.
pub struct Answer {
    /// What the site answered.
    pub response: PageResponse,
    /// The media type of the body, where it is known.
    pub media_type: Option<HeaderValue>,
    /// The name of the file that the body is.
    pub file_name: Option<String>,
    /// The body.
    pub body: AnswerBody,
}

/// The body of an answer.
pub enum AnswerBody {
    /// All of it.
    Whole(Bytes),
    /// A document or a file that is read as it is taken. The browser lives until then.
    Pieces(Pieces),
}

/// A document or a file in a browser that lives as long as this does.
pub struct Pieces {
    stored: Stored,
    running: RunningCall,
}

/// What lies in a browser.
pub(crate) enum Stored {
    Printed(Printed),
    Files(BoxStream<'static, Result<Bytes, io::Error>>),
}

/// The session of a call that is under way. Dropping it ends the session, as that of a client that has left.
pub(crate) struct RunningCall {
    session: Arc<Session>,
    _busy: CommandGuard,
    _unconfirmed: UnconfirmedSession,
}

/// What came of a call, before its session ends.
pub(crate) struct Outcome {
    pub(crate) response: PageResponse,
    pub(crate) media_type: Option<HeaderValue>,
    pub(crate) file_name: Option<String>,
    pub(crate) body: OutcomeBody,
}

pub(crate) enum OutcomeBody {
    Whole(Bytes),
    Stored(Stored),
}

impl Outcome {
    /// The answer of a call, whose browser goes on for as long as the answer is read.
    pub(crate) fn answer(self, running: RunningCall) -> Answer {
        let Self { response, media_type, file_name, body } = self;
        let body = match body {
            OutcomeBody::Whole(bytes) => {
                running.end(Ending::ClientFinished);
                AnswerBody::Whole(bytes)
            }
            OutcomeBody::Stored(stored) => AnswerBody::Pieces(Pieces { stored, running }),
        };
        Answer { response, media_type, file_name, body }
    }
}

impl From<CodeOutcome> for Outcome {
    fn from(outcome: CodeOutcome) -> Self {
        let response = PageResponse::default();
        match outcome {
            CodeOutcome::Value { media_type, bytes } => {
                let body = OutcomeBody::Whole(bytes);
                Self { response, media_type: Some(media_type), file_name: None, body }
            }
            CodeOutcome::Files(Files { name, content }) => {
                let body = OutcomeBody::Stored(Stored::Files(content));
                Self { response, media_type: None, file_name: Some(name), body }
            }
        }
    }
}

impl RunningCall {
    /// Holds a call's session for as long as it is under way.
    pub(crate) fn new(session: Arc<Session>, unconfirmed: UnconfirmedSession) -> Self {
        Self { _busy: session.busy(), _unconfirmed: unconfirmed, session }
    }

    pub(crate) fn end(&self, ending: Ending) {
        self.session.end(ending);
    }
}

impl Stored {
    /// The next piece, or none at the end.
    async fn next(&mut self) -> Result<Option<Bytes>, io::Error> {
        match self {
            Self::Printed(printed) => {
                printed.next().await.map_err(|_| io::Error::other("the document could not be read"))
            }
            Self::Files(content) => content.next().await.transpose(),
        }
    }
}

impl Pieces {
    /// It, piece by piece.
    pub fn into_stream(self) -> impl Stream<Item = Result<Bytes, io::Error>> + Send {
        unfold(Some(self), |pieces| async move {
            let mut pieces = pieces?;
            let session = Arc::clone(&pieces.running.session);
            let piece = tokio::select! {
                biased;
                ending = session.ended() => Err(io::Error::other(ending.message())),
                piece = pieces.stored.next() => piece,
            };
            match piece {
                Ok(Some(piece)) => Some((Ok(piece), Some(pieces))),
                Ok(None) => {
                    pieces.running.end(Ending::ClientFinished);
                    None
                }
                Err(error) => Some((Err(error), None)),
            }
        })
    }
}
