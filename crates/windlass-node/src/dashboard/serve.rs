//! The server: five paths, only reading, and headers that let a browser do nothing but show the page.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::header::{self, HeaderName, HeaderValue};
use axum::http::{Method, StatusCode};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::net::TcpListener;
use tracing::{debug, error};
use windlass_steps::interrupt::Interrupt;

use crate::serve::until_interrupted;

use super::page::{STYLE, page};
use super::read::Reader;

/// How long requests may take to end once the server is told to.
const FAREWELL: Duration = Duration::from_secs(5);

/// On every answer. Nothing is loaded but our own stylesheet; nobody may frame, sniff or keep the page.
const HEADERS: [(HeaderName, &str); 8] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("permissions-policy"), "camera=(), geolocation=(), microphone=()"),
];

/// Serves until interrupted, then lets running requests end.
pub async fn serve(listener: TcpListener, reader: Arc<Reader>, interrupt: &Interrupt) -> io::Result<()> {
    until_interrupted(listener, router(reader), FAREWELL, interrupt).await
}

/// The five paths.
pub fn router(reader: Arc<Reader>) -> Router {
    Router::new()
        .route("/", get(html))
        .route("/style.css", get(style))
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(ready))
        .route("/api/v1/summary", get(summary))
        .layer(from_fn(guard))
        .with_state(reader)
}

/// Refuses all that is not reading, and puts the headers on every answer, refusals included.
async fn guard(request: Request, next: Next) -> Response {
    debug!(method = %request.method(), path = request.uri().path(), "request");
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    let mut response = if reads {
        next.run(request).await
    } else {
        let allow = [(header::ALLOW, HeaderValue::from_static("GET, HEAD"))];
        (StatusCode::METHOD_NOT_ALLOWED, allow, "this page is read-only\n").into_response()
    };
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

async fn html(State(reader): State<Arc<Reader>>) -> Response {
    match page(&*reader.summary().await) {
        Ok(page) => typed("text/html; charset=utf-8", page),
        Err(error) => broken(&error),
    }
}

async fn summary(State(reader): State<Arc<Reader>>) -> Response {
    match serde_json::to_string_pretty(&*reader.summary().await) {
        Ok(json) => typed("application/json", json + "\n"),
        Err(error) => broken(&error),
    }
}

async fn style() -> Response {
    typed("text/css; charset=utf-8", STYLE)
}

async fn ready(State(reader): State<Arc<Reader>>) -> Response {
    match reader.answered().await {
        Ok(()) => "ok\n".into_response(),
        Err(reason) => {
            (StatusCode::SERVICE_UNAVAILABLE, format!("the API has not answered yet: {reason}\n")).into_response()
        }
    }
}

fn typed(kind: &'static str, body: impl IntoResponse) -> Response {
    ([(header::CONTENT_TYPE, HeaderValue::from_static(kind))], body).into_response()
}

/// A summary that has no page is a fault of ours; say so instead of showing nothing.
fn broken(error: &dyn std::error::Error) -> Response {
    error!(%error, "cannot render");
    (StatusCode::INTERNAL_SERVER_ERROR, format!("cannot render: {error}\n")).into_response()
}
