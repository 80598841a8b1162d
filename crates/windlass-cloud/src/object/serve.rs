//! Objects over HTTP, for machines: `GET /o/<key>` with a signed URL, or below a public prefix. There is no list, and who
//! may not have an object does not learn whether it exists.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use bytes::Bytes;
use futures_util::{Stream, stream};
use serde::Deserialize;
use tracing::{debug, error};
use windlass_steps::clock::Clock;
use windlass_steps::report::chain;

use super::{Denied, Object, ObjectKey, ObjectStore, Prefix, UrlSigner};

/// As much of a file as is in memory at once for one reader.
const CHUNK: usize = 64 << 10;

/// What the router answers from.
pub struct Serving {
    /// The objects.
    pub store: Arc<ObjectStore>,
    /// Who opens them.
    pub signer: UrlSigner,
    /// What needs no signature.
    pub public: Vec<Prefix>,
    /// What time it is.
    pub clock: Arc<dyn Clock>,
}

/// The parameters of a signed URL.
#[derive(Debug, Deserialize)]
struct Signed {
    expires: Option<String>,
    signature: Option<String>,
}

/// Which bytes are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Span {
    Whole,
    /// From the first up to, but without, the second.
    Part(u64, u64),
    Beyond,
}

/// `GET` and `HEAD` of `/o/<key>`.
pub fn router(serving: Arc<Serving>) -> Router {
    Router::new().route("/o/{*key}", get(serve)).with_state(serving)
}

async fn serve(
    State(serving): State<Arc<Serving>>,
    Path(key): Path<String>,
    Query(signed): Query<Signed>,
    headers: HeaderMap,
) -> Response {
    let Ok(key) = ObjectKey::parse(&key) else { return plain(StatusCode::NOT_FOUND, "there is no such object\n") };
    if let Err(denied) = serving.may_read(&key, &signed) {
        debug!(%key, reason = %denied, "object refused");
        return plain(StatusCode::FORBIDDEN, "this URL opens nothing, or no longer\n");
    }
    let now = serving.clock.now();
    let Some(object) = serving.store.find(&key).filter(|object| !object.is_expired(now)) else {
        return plain(StatusCode::NOT_FOUND, "there is no such object\n");
    };
    let etag = format!("\"{}\"", object.digest);
    if headers.get(header::IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == etag.as_bytes()) {
        return (StatusCode::NOT_MODIFIED, [(header::ETAG, etag)]).into_response();
    }
    let span = headers
        .get(header::RANGE)
        .and_then(|range| range.to_str().ok())
        .map_or(Span::Whole, |range| parse_range(range, object.size));
    answer(&serving.store, &object, span, &etag)
}

impl Serving {
    fn may_read(&self, key: &ObjectKey, signed: &Signed) -> Result<(), Denied> {
        if self.public.iter().any(|prefix| prefix.covers(key)) {
            return Ok(());
        }
        match (&signed.expires, &signed.signature) {
            (Some(expires), Some(signature)) => self.signer.verify(key, expires, signature, self.clock.now()),
            _ => Err(Denied::Signature),
        }
    }
}

fn answer(store: &ObjectStore, object: &Object, span: Span, etag: &str) -> Response {
    let (status, start, end) = match span {
        Span::Whole => (StatusCode::OK, 0, object.size),
        Span::Part(start, end) => (StatusCode::PARTIAL_CONTENT, start, end),
        Span::Beyond => {
            let range = [(header::CONTENT_RANGE, format!("bytes */{}", object.size))];
            return (StatusCode::RANGE_NOT_SATISFIABLE, range).into_response();
        }
    };
    let file = match store.open(object) {
        Ok(file) => file,
        Err(failure) => {
            error!(key = %object.key, reason = chain(&failure).join(": "), "object cannot be served");
            return plain(StatusCode::INTERNAL_SERVER_ERROR, "the object is damaged\n");
        }
    };
    let mut response = (status, Body::from_stream(chunks(file, start, end))).into_response();
    let headers = response.headers_mut();
    let mut set = |name, value: String| {
        headers.insert(name, value.try_into().expect("digests and numbers are header values"));
    };
    set(header::ETAG, etag.to_owned());
    set(header::CONTENT_TYPE, "application/octet-stream".to_owned());
    set(header::CONTENT_LENGTH, (end - start).to_string());
    set(header::ACCEPT_RANGES, "bytes".to_owned());
    if let Span::Part(start, end) = span {
        set(header::CONTENT_RANGE, format!("bytes {start}-{}/{}", end - 1, object.size));
    }
    response
}

/// The bytes of the file from `start` to `end`, read on blocking threads as the reader takes them.
fn chunks(file: File, start: u64, end: u64) -> impl Stream<Item = io::Result<Bytes>> {
    stream::try_unfold((file, start), move |(file, at)| async move {
        if at >= end {
            return Ok(None);
        }
        let want = usize::try_from(end - at).unwrap_or(CHUNK).min(CHUNK);
        let read = tokio::task::spawn_blocking(move || read_at(file, at, want));
        let (file, bytes) = read.await.map_err(io::Error::other)??;
        let next = at + bytes.len() as u64;
        Ok(Some((bytes, (file, next))))
    })
}

fn read_at(mut file: File, at: u64, want: usize) -> io::Result<(File, Bytes)> {
    let mut bytes = vec![0; want];
    file.seek(SeekFrom::Start(at))?;
    file.read_exact(&mut bytes)?;
    Ok((file, bytes.into()))
}

/// One range of bytes; anything else is answered with the whole object, as the standard allows.
fn parse_range(header: &str, size: u64) -> Span {
    let Some((first, last)) = header.strip_prefix("bytes=").and_then(|range| range.trim().split_once('-')) else {
        return Span::Whole;
    };
    let number =
        |text: &str| -> Option<u64> { text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())? };
    let (start, end) = match (first, last) {
        ("", last) => match number(last) {
            Some(count) => (size.saturating_sub(count), size),
            None => return Span::Whole,
        },
        (first, "") => match number(first) {
            Some(start) => (start, size),
            None => return Span::Whole,
        },
        (first, last) => match (number(first), number(last)) {
            (Some(start), Some(last)) if start <= last => (start, last.saturating_add(1).min(size)),
            _ => return Span::Whole,
        },
    };
    if start < end { Span::Part(start, end) } else { Span::Beyond }
}

fn plain(status: StatusCode, text: &'static str) -> Response {
    (status, text).into_response()
}

#[cfg(test)]
mod tests {
    use time::OffsetDateTime;
    use time::macros::datetime;
    use windlass_steps::clock::ManualClock;

    use super::*;
    use crate::testing::{Answer, Web};

    const NOON: OffsetDateTime = datetime!(2026-11-16 12:00:00 UTC);

    #[test]
    fn a_range_is_one_span_or_is_ignored() {
        let cases = [
            ("bytes=0-0", Span::Part(0, 1)),
            ("bytes=2-", Span::Part(2, 10)),
            ("bytes=-3", Span::Part(7, 10)),
            ("bytes=-30", Span::Part(0, 10)),
            ("bytes=4-99", Span::Part(4, 10)),
            ("bytes=10-", Span::Beyond),
            ("bytes=10-12", Span::Beyond),
            ("bytes=-0", Span::Beyond),
            ("bytes=3-2", Span::Whole),
            ("bytes=0-1,3-4", Span::Whole),
            ("bytes=-", Span::Whole),
            ("bytes=+1-2", Span::Whole),
            ("lines=1-2", Span::Whole),
            ("bytes=18446744073709551615-18446744073709551615", Span::Beyond),
        ];
        for (header, want) in cases {
            assert_eq!(parse_range(header, 10), want, "{header}");
        }
        assert_eq!(parse_range("bytes=0-", 0), Span::Beyond);
    }

    struct Place {
        web: Web,
        clock: Arc<ManualClock>,
        serving: Arc<Serving>,
        _dir: tempfile::TempDir,
    }

    async fn place() -> Place {
        let dir = tempfile::tempdir().unwrap();
        let store = Arc::new(ObjectStore::with_index(dir.path(), []).unwrap());
        let clock = Arc::new(ManualClock::at(NOON));
        let public = vec![Prefix::parse("public").unwrap()];
        let signer = UrlSigner::new(&[1; 32]);
        let time: Arc<dyn Clock> = Arc::<ManualClock>::clone(&clock);
        let serving = Arc::new(Serving { store, signer, public, clock: time });
        Place { web: Web::serve(router(Arc::clone(&serving))).await, clock, serving, _dir: dir }
    }

    fn key(text: &str) -> ObjectKey {
        ObjectKey::parse(text).unwrap()
    }

    #[tokio::test]
    async fn an_object_opens_to_its_url_until_that_expires_and_to_nobody_else() {
        let place = place().await;
        let put = |name: &str| drop(place.serving.store.put(key(name), "0123456789", None, NOON).unwrap());
        ["secret/a", "secret/b", "public/a"].into_iter().for_each(put);
        let url = place.serving.signer.url("", &key("secret/a"), NOON + time::Duration::MINUTE);
        let other = url.replace("/o/secret/a", "/o/secret/b");
        let cases = [
            (url.as_str(), 200),
            ("/o/secret/a", 403),
            (&url[..url.len() - 2], 403),
            (&other, 403),
            ("/o/secret/absent", 403),
            ("/o/public/a", 200),
            ("/o/public/absent", 404),
            ("/o/public/", 404),
            ("/o/public/../secret/a", 404),
            ("/o/public/%2e%2e/secret/a", 404),
            ("/o/", 404),
            ("/", 404),
        ];
        for (path, status) in cases {
            assert_eq!(place.web.get(path).await.status, status, "{path}");
        }
        let answer = place.web.get(&url).await;
        assert_eq!(answer.body, b"0123456789");
        assert_eq!(answer.header("etag"), format!("\"{}\"", super::super::ObjectDigest::of(b"0123456789")));
        assert_eq!(answer.header("content-length"), "10");
        place.clock.advance(std::time::Duration::from_secs(60));
        assert_eq!(place.web.get(&url).await.status, 403);
    }

    #[tokio::test]
    async fn an_expired_object_and_a_deleted_one_are_gone() {
        let place = place().await;
        place.serving.store.put(key("public/a"), "x", Some(NOON + time::Duration::SECOND), NOON).unwrap();
        place.serving.store.put(key("public/b"), "x", None, NOON).unwrap();
        let statuses = async || [place.web.get("/o/public/a").await.status, place.web.get("/o/public/b").await.status];
        assert_eq!(statuses().await, [200, 200]);
        place.clock.advance(std::time::Duration::from_secs(1));
        assert_eq!(statuses().await, [404, 200]);
        place.serving.store.delete(&key("public/b")).unwrap();
        assert_eq!(statuses().await, [404, 404]);
    }

    #[tokio::test]
    async fn heads_ranges_and_known_objects_are_answered_as_the_standard_says() {
        let place = place().await;
        let bytes: Vec<u8> = (0..200_000_u32).map(|n| (n % 251) as u8).collect();
        place.serving.store.put(key("public/a"), &bytes, None, NOON).unwrap();
        let ask =
            async |method: &str, headers: &str| -> Answer { place.web.ask(method, "/o/public/a", headers, b"").await };
        let whole = ask("GET", "").await;
        assert!(whole.status == 200 && whole.body == bytes);
        let head = ask("HEAD", "").await;
        assert_eq!((head.status, head.header("content-length"), head.body.len()), (200, "200000".into(), 0));
        let part = ask("GET", "Range: bytes=65530-131080\r\n").await;
        assert_eq!((part.status, part.header("content-range")), (206, "bytes 65530-131080/200000".into()));
        assert!(part.body == bytes[65_530..=131_080]);
        let beyond = ask("GET", "Range: bytes=200000-\r\n").await;
        assert_eq!((beyond.status, beyond.header("content-range")), (416, "bytes */200000".into()));
        let known = ask("GET", &format!("If-None-Match: {}\r\n", whole.header("etag"))).await;
        assert_eq!((known.status, known.body.len()), (304, 0));
        assert_eq!(ask("PUT", "").await.status, 405);
        assert_eq!(ask("DELETE", "").await.status, 405);
    }
}
