//! Token reviews: the API server asks whose a bearer token is that none of its other ways knows. Only loopback is served,
//! and nothing is told but what the token itself proves.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use k8s_openapi::api::authentication::v1::{TokenReviewStatus, UserInfo};
use serde_json::{Value, json};
use tokio::time::timeout;
use tracing::{debug, warn};
use windlass_cloud_api::Token;
use windlass_spec::MachineName;
use windlass_steps::clock::Clock;

use super::burnt::{Burnt, State as Burning};
use super::request::Sight;
use crate::etcd_signer::judge::{GROUP, ROLE_KEY, Requester};
use crate::machine_token::{Purpose, TokenJudge, Unproven};

/// The group of everybody who is to become a node; Kubernetes' own name for it.
const BOOTSTRAPPERS: &str = "system:bootstrappers";
const API_VERSION: &str = "authentication.k8s.io/v1";
const KIND: &str = "TokenReview";
const BODY_BYTES: usize = 64 << 10;
const BODY_LIMIT: Duration = Duration::from_secs(5);

/// Says whose a token is.
pub(super) struct Reviewer {
    tokens: TokenJudge,
    burnt: Arc<Burnt>,
    sight: Sight,
    clock: Arc<dyn Clock>,
}

impl Reviewer {
    pub(super) fn new(tokens: TokenJudge, burnt: Arc<Burnt>, sight: Sight, clock: Arc<dyn Clock>) -> Self {
        Reviewer { tokens, burnt, sight, clock }
    }

    fn review(&self, text: &str) -> TokenReviewStatus {
        let token = match self.tokens.prove_text(text, Purpose::Join, self.clock.now()) {
            Ok(token) => token,
            // Not one of ours: others may know it.
            Err(Unproven::Refused(windlass_cloud_api::TokenError::Form)) => return TokenReviewStatus::default(),
            Err(unproven) => return refused(unproven.to_string()),
        };
        let Ok(machine) = MachineName::parse(&token.name) else {
            return refused("the token names no machine".to_owned());
        };
        match self.burnt.state(Purpose::Join, &machine) {
            Burning::Good => known(&token),
            Burning::Burnt => refused("the token is used up".to_owned()),
            Burning::Unknown => refused("the list of burnt tokens has not been read yet".to_owned()),
        }
    }

    fn trouble(&self) -> Option<&'static str> {
        if !self.sight.load(Ordering::Relaxed) {
            return Some("certificate requests have not been seen yet\n");
        }
        (!self.burnt.is_seen()).then_some("the list of burnt tokens has not been read yet\n")
    }
}

/// The two paths.
pub(super) fn router(reviewer: Arc<Reviewer>) -> Router {
    Router::new().route("/token-review", post(review)).route("/readyz", get(ready)).with_state(reviewer)
}

async fn ready(State(reviewer): State<Arc<Reviewer>>) -> Response {
    match reviewer.trouble() {
        None => "ok\n".into_response(),
        Some(trouble) => (StatusCode::SERVICE_UNAVAILABLE, trouble).into_response(),
    }
}

async fn review(State(reviewer): State<Arc<Reviewer>>, request: Request) -> Response {
    let body = timeout(BODY_LIMIT, axum::body::to_bytes(request.into_body(), BODY_BYTES)).await;
    let Ok(Ok(body)) = body else { return (StatusCode::BAD_REQUEST, "no body\n").into_response() };
    let Some(token) = asked(&body) else { return (StatusCode::BAD_REQUEST, "no TokenReview\n").into_response() };
    let status = reviewer.review(&token);
    match &status.error {
        Some(reason) => warn!(reason, "token refused"),
        None => debug!(user = status.user.as_ref().and_then(|user| user.username.as_deref()), "token reviewed"),
    }
    let answer = json!({ "apiVersion": API_VERSION, "kind": KIND, "status": status });
    ([(CONTENT_TYPE, "application/json")], answer.to_string()).into_response()
}

/// The token of a review.
fn asked(body: &[u8]) -> Option<String> {
    let review: Value = serde_json::from_slice(body).ok()?;
    let is_review = review["kind"] == KIND && review["apiVersion"] == API_VERSION;
    is_review.then(|| review["spec"]["token"].as_str().map(str::to_owned))?
}

fn known(token: &Token) -> TokenReviewStatus {
    let who = Requester::of_token(token);
    let user = UserInfo {
        username: Some(who.user_name()),
        uid: None,
        groups: Some(vec![BOOTSTRAPPERS.to_owned(), GROUP.to_owned()]),
        extra: Some([(ROLE_KEY.to_owned(), vec![who.role.as_str().to_owned()])].into()),
    };
    TokenReviewStatus { authenticated: Some(true), user: Some(user), ..TokenReviewStatus::default() }
}

fn refused(reason: String) -> TokenReviewStatus {
    TokenReviewStatus { authenticated: Some(false), error: Some(reason), ..TokenReviewStatus::default() }
}
