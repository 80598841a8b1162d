//! The server's paths. Whatever is refused is refused in a few words that tell a stranger nothing.

use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Extension, Path, Request, State};
use axum::http::header::{self, HeaderMap, HeaderValue};
use axum::http::{Method, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use tracing::{debug, warn};
use windlass_cloud_api::Role;
use windlass_steps::clock::Clock;

use super::accept::{CONTENT_TYPE, can_read};
use super::book::{Book, BookError};
use super::judge::{Denial, Expected};
use super::limit::RateLimit;
use super::source::Configs;
use crate::https::Peer;
use crate::machine_token::{Purpose, TokenJudge};

/// What the server works with.
pub(super) struct Desk {
    pub(super) tokens: TokenJudge,
    pub(super) expected: Expected,
    pub(super) configs: Configs,
    pub(super) book: Book,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) limit: Mutex<RateLimit>,
}

/// The paths; those that say that somebody is there have no limit, because the balancer asks them.
pub(super) fn router(desk: Arc<Desk>) -> Router {
    Router::new()
        .route("/config/{role}", get(role_config))
        .route("/config/{role}/{group}", get(group_config))
        .route("/ack", post(acknowledge))
        .fallback(async || Denial::NotFound)
        .layer(from_fn_with_state(desk.clone(), limited))
        .route("/readyz", get(async || "ok"))
        .route("/livez", get(async || "ok"))
        .with_state(desk)
}

async fn limited(
    State(desk): State<Arc<Desk>>,
    Extension(Peer(peer)): Extension<Peer>,
    request: Request,
    next: Next,
) -> Response {
    let now = desk.clock.monotonic();
    let allowed = desk.limit.lock().unwrap_or_else(PoisonError::into_inner).allows(peer.ip(), now);
    match allowed {
        // A config that was only looked at would count as served.
        true if request.method() == Method::HEAD => StatusCode::METHOD_NOT_ALLOWED.into_response(),
        true => next.run(request).await,
        false => Denial::TooMany.into_response(),
    }
}

async fn role_config(
    State(desk): State<Arc<Desk>>,
    Path(role): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Denial> {
    serve(&desk, &role, None, &headers).await
}

async fn group_config(
    State(desk): State<Arc<Desk>>,
    Path((role, group)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Response, Denial> {
    serve(&desk, &role, Some(&group), &headers).await
}

async fn serve(desk: &Desk, role: &str, group: Option<&str>, headers: &HeaderMap) -> Result<Response, Denial> {
    let role = [Role::Master, Role::Worker].into_iter().find(|known| known.as_str() == role);
    let role = role.ok_or(Denial::NotFound)?;
    let now = desk.clock.now();
    let token = desk.tokens.prove(headers, Purpose::Config, now)?;
    let machine = told(&token.name, desk.expected.entitled(&token, role, group))?;
    if told(&token.name, desk.book.is_burnt(&machine.name).await.map_err(later))? {
        return told(&token.name, Err(Denial::Burnt));
    }
    if told(&token.name, desk.book.is_ready(&machine.name).await.map_err(later))? {
        return told(&token.name, Err(Denial::NodeReady));
    }
    let accept = headers.get(header::ACCEPT).map(|value| value.to_str().unwrap_or("?"));
    if !can_read(accept) {
        return told(&token.name, Err(Denial::NotAcceptable));
    }
    let config = desk.configs.find(role, group).ok_or(Denial::NotFound)?;
    desk.book.served(&machine.name, now);
    debug!(machine = %machine.name, %role, "config given");
    Ok(ignition(config))
}

/// The machine has its config: its token is good for nothing from now on, except for saying so again.
async fn acknowledge(State(desk): State<Arc<Desk>>, headers: HeaderMap) -> Result<StatusCode, Denial> {
    let now = desk.clock.now();
    let token = desk.tokens.prove(&headers, Purpose::Config, now)?;
    let machine = told(&token.name, desk.expected.machine(&token))?;
    told(&token.name, desk.book.burn(&machine.name, now).await.map_err(later))?;
    Ok(StatusCode::NO_CONTENT)
}

fn ignition(config: Bytes) -> Response {
    let headers = [(header::CONTENT_TYPE, CONTENT_TYPE), (header::CACHE_CONTROL, "no-store")];
    (headers.map(|(name, value)| (name, HeaderValue::from_static(value))), config).into_response()
}

fn later(error: BookError) -> Denial {
    warn!(error = windlass_steps::report::chain(&error).join(": "), "cannot tell whether the machine may have it");
    Denial::Later
}

/// A machine that is known by a good token and refused all the same is worth a line.
fn told<T>(machine: &str, outcome: Result<T, Denial>) -> Result<T, Denial> {
    if let Err(denial) = &outcome {
        warn!(machine = ?machine, reason = %denial, "machine refused");
    }
    outcome
}

impl IntoResponse for Denial {
    fn into_response(self) -> Response {
        let code = StatusCode::from_u16(self.code()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (code, format!("{self}\n")).into_response();
        let more = match code {
            StatusCode::UNAUTHORIZED => Some((header::WWW_AUTHENTICATE, "Bearer")),
            StatusCode::SERVICE_UNAVAILABLE => Some((header::RETRY_AFTER, "1")),
            _ => None,
        };
        if let Some((name, value)) = more {
            response.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        response
    }
}
