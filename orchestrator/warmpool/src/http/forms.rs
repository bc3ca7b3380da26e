//! Forms (`multipart/form-data`) that are read while they arrive. What they have beside their file is bounded, and so is what
//! the parser keeps of them: it searches what it has until it finds what it looks for, and takes in all that it can have.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use axum::body::BodyDataStream;
use bytes::{Bytes, BytesMut};
use futures_util::{Stream, StreamExt as _, TryStreamExt as _};
use multer::{Constraints, Field, Multipart, SizeLimit};

use crate::http::error::Error;
use warmpool_core::error::Cause;

/// The most that a form has beside its file, in bytes: heads of its parts, and its other fields.
pub(super) const MAX_BESIDE: usize = 64 << 10;

/// The most that the parser gets before it has to look at what it has, in bytes.
const PIECE: usize = 16 << 10;

/// A form while it arrives.
pub(super) struct Form {
    parts: Multipart<'static>,
    beside: BesideCount,
}

/// How many bytes came since the last one of a field, or since the last field began.
#[derive(Debug, Clone, Default)]
struct BesideCount(Arc<AtomicUsize>);

impl Form {
    /// Reads the body of a request with this `Content-Type`. Its text fields together are as long as [`MAX_BESIDE`].
    /// Errors: `InvalidBody` for another type.
    pub(super) fn read(content_type: &str, body: BodyDataStream) -> Result<Self, Error> {
        let boundary = multer::parse_boundary(content_type);
        let boundary = boundary.map_err(|_| no_form("it must be `multipart/form-data` with a `boundary`"))?;
        let beside = BesideCount::default();
        let pieces = PieceStream { body, rest: Bytes::new(), beside: beside.clone(), given: false };
        // A file is measured by whoever takes it.
        let limits = Constraints::new().size_limit(SizeLimit::new());
        Ok(Self { parts: Multipart::with_constraints(pieces, boundary, limits), beside })
    }

    /// The next field.
    /// Errors: `InvalidBody`.
    pub(super) async fn next(&mut self) -> Result<Option<Field<'static>>, Error> {
        let field = self.parts.next_field().await.map_err(|error| fault(&error))?;
        self.beside.reset();
        Ok(field)
    }

    /// The text of a field.
    /// Errors: `InvalidBody`.
    pub(super) async fn text(field: Field<'static>) -> Result<String, Error> {
        field.text().await.map_err(|error| fault(&error))
    }

    /// The content of a field, while it arrives.
    pub(super) fn content(&self, field: Field<'static>) -> impl Stream<Item = Result<Bytes, multer::Error>> + 'static {
        let beside = self.beside.clone();
        field.inspect(move |_| beside.reset())
    }

    /// The whole content of a field. The caller has room for it.
    /// Errors: `InvalidBody`.
    pub(super) async fn whole(&self, field: Field<'static>) -> Result<Bytes, Error> {
        let mut content = pin!(self.content(field));
        let mut whole = BytesMut::new();
        while let Some(piece) = content.try_next().await.map_err(|error| fault(&error))? {
            whole.extend_from_slice(&piece);
        }
        Ok(whole.freeze())
    }
}

impl BesideCount {
    fn reset(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

/// A body in pieces. The parser takes them until there is none at the moment; so after each there is none for a moment.
struct PieceStream {
    body: BodyDataStream,
    rest: Bytes,
    beside: BesideCount,
    given: bool,
}

impl Stream for PieceStream {
    type Item = Result<Bytes, Cause>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        if std::mem::take(&mut this.given) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        if this.beside.0.load(Ordering::Relaxed) >= MAX_BESIDE {
            return Poll::Ready(Some(Err(format!("it has more than {MAX_BESIDE} bytes beside its file").into())));
        }
        while this.rest.is_empty() {
            match ready!(this.body.poll_next_unpin(cx)) {
                Some(Ok(chunk)) => this.rest = chunk,
                Some(Err(error)) => return Poll::Ready(Some(Err(error.into()))),
                None => return Poll::Ready(None),
            }
        }
        let piece = this.rest.split_to(this.rest.len().min(PIECE));
        this.beside.0.fetch_add(piece.len(), Ordering::Relaxed);
        this.given = true;
        Poll::Ready(Some(Ok(piece)))
    }
}

fn fault(error: &multer::Error) -> Error {
    match error {
        multer::Error::StreamReadFailed(cause) => no_form(&cause.to_string()),
        error => no_form(&error.to_string()),
    }
}

fn no_form(problem: &str) -> Error {
    Error::InvalidBody { message: format!("the body is not a form with a file: {problem}") }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use axum::body::Body;
    use futures_util::stream;

    use super::super::forwarded_body::forward;
    use super::*;

    const TYPE: &str = "multipart/form-data; boundary=tea";
    const HEAD: &str = "--tea\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\n";

    /// A form that is sent in chunks, and how many bytes of it were taken.
    fn sent(chunks: Vec<Bytes>) -> (Form, Arc<AtomicUsize>) {
        let taken = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&taken);
        let chunks = stream::iter(chunks).map(move |chunk| {
            counted.fetch_add(chunk.len(), Ordering::Relaxed);
            Ok::<_, Cause>(chunk)
        });
        (Form::read(TYPE, Body::from_stream(chunks).into_data_stream()).unwrap(), taken)
    }

    fn chunks(length: usize, of: usize) -> Vec<Bytes> {
        vec![Bytes::from(vec![b'x'; of]); length / of]
    }

    #[tokio::test]
    async fn what_has_no_boundary_is_refused_early() {
        for of in [1 << 10, 8 << 10, 1 << 20] {
            let (mut form, taken) = sent(chunks(1 << 20, of));
            let error = form.next().await.unwrap_err();
            assert!(matches!(&error, Error::InvalidBody { message } if message.contains("beside its file")), "{error}");
            assert!(taken.load(Ordering::Relaxed) <= MAX_BESIDE.max(of), "it was read on");
        }
    }

    #[tokio::test]
    async fn a_head_and_a_text_without_an_end_are_refused_early() {
        let begins =
            |head: &'static str| [vec![Bytes::from_static(head.as_bytes())], chunks(1 << 20, 1 << 10)].concat();
        let (mut form, taken) = sent(begins("--tea\r\nContent-Disposition: "));
        form.next().await.unwrap_err();
        assert!(taken.load(Ordering::Relaxed) < 2 * MAX_BESIDE);
        let (mut form, taken) = sent(begins("--tea\r\nContent-Disposition: form-data; name=\"path\"\r\n\r\n"));
        let path = form.next().await.unwrap().unwrap();
        Form::text(path).await.unwrap_err();
        assert!(taken.load(Ordering::Relaxed) < 2 * MAX_BESIDE);
    }

    #[tokio::test]
    async fn a_file_may_be_long_and_come_in_any_chunks() {
        let whole = format!("{HEAD}{}\r\n--tea--\r\n", "\r\n-x".repeat(1 << 18));
        for of in [7, 1000, PIECE + 1, 1 << 20] {
            let chunks: Vec<Bytes> = whole.as_bytes().chunks(of).map(Bytes::copy_from_slice).collect();
            let (mut form, _) = sent(chunks.clone());
            let file = form.next().await.unwrap().unwrap();
            assert_eq!((file.name(), file.file_name()), (Some("file"), Some("a")));
            let pieces: Vec<Bytes> = form.content(file).try_collect().await.unwrap();
            assert!(pieces.iter().all(|piece| piece.len() < 2 * PIECE), "more than a piece was in memory");
            assert_eq!(pieces.concat(), "\r\n-x".repeat(1 << 18).as_bytes(), "in chunks of {of}");
            assert!(form.next().await.unwrap().is_none());
            let (mut form, _) = sent(chunks);
            let file = form.next().await.unwrap().unwrap();
            assert_eq!(form.whole(file).await.unwrap(), "\r\n-x".repeat(1 << 18).as_bytes(), "as a whole");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_that_stops_is_given_up() {
        for begun in ["", "--te", "--tea\r\nContent-Disposition: form-data", HEAD] {
            let stopped = stream::iter([Ok::<_, Cause>(Bytes::from_static(begun.as_bytes()))]).chain(stream::pending());
            let pause = Duration::from_secs(60);
            let (body, broken) = forward(Body::from_stream(stopped), u64::MAX, "limit", pause).unwrap();
            let reading = async {
                let mut form = Form::read(TYPE, Body::new(body).into_data_stream())?;
                while let Some(file) = form.next().await? {
                    form.content(file).try_for_each(async |_| Ok(())).await.map_err(|error| fault(&error))?;
                }
                Ok::<_, Error>(())
            };
            let error = broken.or(reading).await.unwrap_err();
            assert!(matches!(error, Error::BodyTimeout { after } if after == pause), "{begun:?}: {error}");
        }
    }
}
