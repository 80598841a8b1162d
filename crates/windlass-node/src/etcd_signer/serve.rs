//! The paths of the API that a machine needs for its certificates, and the two that say that somebody is there.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::Response;
use axum::routing::get;
use futures_util::stream;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use serde_json::json;
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout_at};
use url::form_urlencoded;

use super::desk::Desk;
use super::judge::{Requester, is_own_request};
use super::status::{Refused, json_response, object};
use crate::machine_token::{Marks, Purpose};

const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
const REQUEST: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests/{name}";
const BODY: usize = 64 << 10;
/// How long a watch lasts at most; an ordinary client starts the next.
const WATCH: u64 = 60;

/// The paths. All others, `/version` among them, are not found: that is final, and whoever asked falls back at once.
pub(super) fn router(desk: Arc<Desk>) -> Router {
    Router::new()
        .route("/readyz", get(async || "ok"))
        .route("/livez", get(async || "ok"))
        .route(REQUESTS, get(list).post(create))
        .route(REQUEST, get(one))
        .method_not_allowed_fallback(async || Refused::method())
        .fallback(async || Refused::not_found("the server could not find the requested resource"))
        .with_state(desk)
}

async fn create(State(desk): State<Arc<Desk>>, request: Request) -> Result<Response, Refused> {
    let who = proven(&desk, request.headers())?;
    if request.uri().query().is_some_and(|query| query.contains("dryRun")) {
        return Err(Refused::bad("dryRun: this signer does not try"));
    }
    let asked = read(request).await?;
    // Marks are synced to the disk; nobody else should wait for that, least of all the balancer.
    let signed = spawn_blocking(move || desk.sign(&who, asked)).await;
    let made = signed.map_err(|_| Refused::internal("the signer cannot sign now"))??;
    Ok(object(StatusCode::CREATED, &made))
}

async fn one(State(desk): State<Arc<Desk>>, headers: HeaderMap, Path(name): Path<String>) -> Result<Response, Refused> {
    let who = proven(&desk, &headers)?;
    match desk.find(&who, &name) {
        Some((_, found)) => Ok(object(StatusCode::OK, &found)),
        // The same for what is not there and for what is another machine's.
        None => Err(Refused::not_found("certificatesigningrequests.certificates.k8s.io not found")),
    }
}

/// A list or watch of one request by its name, which must be one that this machine could have made.
async fn list(
    State(desk): State<Arc<Desk>>,
    headers: HeaderMap,
    method: Method,
    uri: Uri,
) -> Result<Response, Refused> {
    let who = proven(&desk, &headers)?;
    let query = Query::parse(uri.query().unwrap_or_default())?;
    if !is_own_request(&query.name, &who.machine) {
        return Err(Refused::forbidden("a machine may look at its own requests, by metadata.name"));
    }
    match query.watch && method == Method::GET {
        true => Ok(watched(desk, who, query)),
        false => Ok(listed(&desk, &who, &query)),
    }
}

fn listed(desk: &Desk, who: &Requester, query: &Query) -> Response {
    let version = desk.changes().borrow().to_string();
    let items: Vec<_> = desk.find(who, &query.name).map(|(_, found)| found).into_iter().collect();
    let list = json!({
        "kind": "CertificateSigningRequestList", "apiVersion": "certificates.k8s.io/v1",
        "metadata": {"resourceVersion": version}, "items": items,
    });
    object(StatusCode::OK, &list)
}

/// Requests are signed as they are made and never change, so there is at most one event to tell.
fn watched(desk: Arc<Desk>, who: Requester, query: Query) -> Response {
    let until = Instant::now() + Duration::from_secs(query.seconds.min(WATCH));
    let changes = desk.changes();
    let watching = Watching { desk, who, name: query.name, since: query.version, until, changes };
    json_response(StatusCode::OK, Body::from_stream(stream::unfold(watching, Watching::next)))
}

struct Watching {
    desk: Arc<Desk>,
    who: Requester,
    name: String,
    since: u64,
    until: Instant,
    changes: watch::Receiver<u64>,
}

impl Watching {
    async fn next(mut self) -> Option<(Result<Bytes, std::io::Error>, Self)> {
        loop {
            self.changes.mark_unchanged();
            if let Some((version, found)) = self.desk.find(&self.who, &self.name)
                && version > self.since
            {
                self.since = version;
                let mut line = serde_json::to_vec(&json!({"type": "ADDED", "object": found}))
                    .expect("objects of the API are plain data");
                line.push(b'\n');
                return Some((Ok(Bytes::from(line)), self));
            }
            timeout_at(self.until, self.changes.changed()).await.ok()?.ok()?;
        }
    }
}

/// What a list or watch asks for.
#[derive(Debug, PartialEq, Eq)]
struct Query {
    name: String,
    watch: bool,
    version: u64,
    seconds: u64,
}

impl Query {
    fn parse(text: &str) -> Result<Self, Refused> {
        let mut query = Query { name: String::new(), watch: false, version: 0, seconds: WATCH };
        let number = |name: &str, value: &str| match value {
            "" => Ok(0),
            text => text.parse().map_err(|_| Refused::bad(format!("{name} is not a number"))),
        };
        for (key, value) in form_urlencoded::parse(text.as_bytes()) {
            match key.as_ref() {
                "fieldSelector" => {
                    let name = value.strip_prefix("metadata.name=").map(|name| name.trim_start_matches('='));
                    query.name = name.ok_or_else(|| Refused::bad("only metadata.name can be selected"))?.to_owned();
                }
                "watch" => query.watch = matches!(value.as_ref(), "1" | "true"),
                "resourceVersion" => query.version = number("resourceVersion", &value)?,
                "timeoutSeconds" => query.seconds = number("timeoutSeconds", &value)?,
                _ => {}
            }
        }
        Ok(query)
    }
}

/// Who asks, by a join token that is still good.
fn proven(desk: &Desk, headers: &HeaderMap) -> Result<Requester, Refused> {
    let token = desk.tokens.prove(headers, Purpose::Join, desk.clock.now());
    let who = Requester::of_token(&token.map_err(|_| Refused::unauthorized())?);
    // Only a name that can be a machine's may be looked up among the files.
    let name = windlass_spec::MachineName::parse(&who.machine).map_err(|_| Refused::unauthorized())?;
    match desk.files.has(Marks::Burnt, &Purpose::Join.burnt_name(&name)) {
        true => Err(Refused::unauthorized()),
        false => Ok(who),
    }
}

async fn read(request: Request) -> Result<CertificateSigningRequest, Refused> {
    let bytes = to_bytes(request.into_body(), BODY).await.map_err(|_| Refused::too_large())?;
    serde_json::from_slice(&bytes)
        .map_err(|error| Refused::bad(format!("this is no CertificateSigningRequest: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_selects_one_name() {
        let query = |text| Query::parse(text).map(|query| (query.name, query.watch, query.version, query.seconds));
        let all = query("watch=true&timeoutSeconds=290&fieldSelector=metadata.name%3Da&resourceVersion=7");
        assert_eq!(all, Ok(("a".to_owned(), true, 7, 290)));
        assert_eq!(query("watch=1&resourceVersion="), Ok((String::new(), true, 0, 60)));
        assert_eq!(query(""), Ok((String::new(), false, 0, 60)));
        for bad in ["resourceVersion=x", "timeoutSeconds=-1", "fieldSelector=spec.signerName%3Da"] {
            assert!(query(bad).is_err(), "{bad}");
        }
    }
}
