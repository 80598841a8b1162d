//! The paths of the service. Each handler parses, asks the policy, asks the view, and answers.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{DefaultBodyLimit, Path, Query, State};
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::answer::Problem;
use super::template::{Piece, pieces};
use super::{
    Action, Condition, Failing, Identity, Label, MachineView, OsProgress, RecordKind, RecordName, RecordView, StageOs,
    Tag, ViewError, VolumeView, may,
};

const BODY_LIMIT: usize = 64 << 10;

/// Where user-data is: our own place, and those where Ignition's providers look that do nothing but a plain GET
/// (hetzner, exoscale, vultr).
const USER_DATA: [&str; 4] = ["/v1/user-data", "/hetzner/v1/userdata", "/1.0/user-data", "/user-data/user-data"];

type Reply<T> = Result<T, Problem>;
type View<V> = State<Arc<V>>;
type Sent = Result<Bytes, BytesRejection>;

/// Answers as the cloud to one machine.
pub fn router<V: MachineView>(view: Arc<V>) -> Router {
    let router = Router::new()
        .route("/v1/identity", get(identity::<V>))
        .route("/v1/tags", get(tags::<V>))
        .route("/v1/tokens/{purpose}", get(token::<V>))
        .route("/v1/volumes", get(volumes::<V>))
        .route("/v1/volumes/{name}/attach", post(attach::<V>))
        .route("/v1/volumes/{name}/detach", post(detach::<V>))
        .route("/v1/records/{name}", get(record::<V>).put(put_record::<V>).delete(delete_record::<V>))
        .route("/v1/os", get(os::<V>))
        .route("/v1/os/stage", post(stage_os::<V>));
    let router = USER_DATA.into_iter().fold(router, |router, path| router.route(path, get(user_data::<V>)));
    router
        .fallback(async || Problem::new(StatusCode::NOT_FOUND, "there is no such path"))
        .method_not_allowed_fallback(async || {
            Problem::new(StatusCode::METHOD_NOT_ALLOWED, "this path does not take that method")
        })
        .layer(DefaultBodyLimit::max(BODY_LIMIT))
        .with_state(view)
}

async fn identity<V: MachineView>(State(view): View<V>) -> Reply<Json<Identity>> {
    Ok(Json(allowed(&*view, Action::ReadSelf).await?))
}

async fn tags<V: MachineView>(State(view): View<V>) -> Reply<Response> {
    Ok(Json(allowed(&*view, Action::ReadSelf).await?.tags).into_response())
}

async fn user_data<V: MachineView>(State(view): View<V>) -> Reply<Response> {
    allowed(&*view, Action::ReadSelf).await?;
    let Some(text) = view.user_data().await? else {
        return Err(Problem::new(StatusCode::NOT_FOUND, "this machine has no user-data"));
    };
    let broken = |error| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "cannot fill the user-data").because(error);
    let mut filled = String::with_capacity(text.len());
    for piece in pieces(&text).map_err(broken)? {
        match piece {
            Piece::Text(text) => filled.push_str(text),
            Piece::Token(purpose) => filled.push_str(&view.token(&purpose).await?),
        }
    }
    Ok(([(header::CONTENT_TYPE, "application/octet-stream"), NOT_KEPT], filled).into_response())
}

async fn token<V: MachineView>(State(view): View<V>, Path(purpose): Path<String>) -> Reply<Response> {
    let purpose = Label::parse(&purpose)?;
    allowed(&*view, Action::TakeToken { purpose: &purpose }).await?;
    let token = view.token(&purpose).await?;
    Ok(([NOT_KEPT], Json(json!({ "token": token }))).into_response())
}

async fn volumes<V: MachineView>(
    State(view): View<V>,
    Query(query): Query<Vec<(String, String)>>,
) -> Reply<Json<Vec<VolumeView>>> {
    let tags = query.into_iter().map(|(name, value)| parse_tag(&name, &value)).collect::<Reply<Vec<Tag>>>()?;
    let who = view.identity().await?;
    let mut volumes = view.volumes(&tags).await?;
    volumes.retain(|volume| may(&who, &Action::SeeVolume { cluster: &volume.cluster }).is_ok());
    Ok(Json(volumes))
}

async fn attach<V: MachineView>(State(view): View<V>, Path(name): Path<String>) -> Reply<Json<VolumeView>> {
    let name = Label::parse(&name)?;
    let volume = seen_volume(&*view, &name).await?;
    allowed(&*view, Action::AttachVolume { cluster: &volume.cluster }).await?;
    Ok(Json(view.attach_volume(&name).await?))
}

async fn detach<V: MachineView>(State(view): View<V>, Path(name): Path<String>) -> Reply<Json<VolumeView>> {
    let name = Label::parse(&name)?;
    let volume = seen_volume(&*view, &name).await?;
    let action = Action::DetachVolume { cluster: &volume.cluster, holder: volume.holder.as_deref() };
    allowed(&*view, action).await?;
    Ok(Json(view.detach_volume(&name).await?))
}

/// The volume, unless it belongs to another cluster: then there is none.
async fn seen_volume<V: MachineView>(view: &V, name: &Label) -> Reply<VolumeView> {
    let missing = || ViewError::new(Failing::Missing, format!("there is no volume {name}"));
    let volume = view.volume(name).await?.ok_or_else(missing)?;
    let who = view.identity().await?;
    may(&who, &Action::SeeVolume { cluster: &volume.cluster }).map_err(|_| missing())?;
    Ok(volume)
}

/// The parameters of a record's path.
#[derive(Debug, Deserialize)]
struct OfKind {
    #[serde(default, rename = "type")]
    kind: RecordKind,
}

async fn record<V: MachineView>(
    State(view): View<V>,
    Path(name): Path<String>,
    Query(OfKind { kind }): Query<OfKind>,
) -> Reply<Response> {
    let name = RecordName::parse(&name)?;
    allowed(&*view, Action::SeeRecord { name: &name }).await?;
    let record = view.record(&name, kind).await?;
    let record = record.ok_or_else(|| ViewError::new(Failing::Missing, format!("there is no record {name}")))?;
    Ok(tagged(record))
}

async fn put_record<V: MachineView>(
    State(view): View<V>,
    Path(name): Path<String>,
    headers: HeaderMap,
    body: Sent,
) -> Reply<Response> {
    let name = RecordName::parse(&name)?;
    allowed(&*view, Action::ChangeRecord { name: &name }).await?;
    let condition = condition(&headers)?;
    Ok(tagged(view.put_record(&name, read(body)?, condition).await?))
}

async fn delete_record<V: MachineView>(
    State(view): View<V>,
    Path(name): Path<String>,
    Query(OfKind { kind }): Query<OfKind>,
    headers: HeaderMap,
) -> Reply<StatusCode> {
    let name = RecordName::parse(&name)?;
    allowed(&*view, Action::ChangeRecord { name: &name }).await?;
    view.delete_record(&name, kind, condition(&headers)?).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn os<V: MachineView>(State(view): View<V>) -> Reply<Response> {
    allowed(&*view, Action::ReadOs).await?;
    Ok(Json(view.os().await?).into_response())
}

async fn stage_os<V: MachineView>(State(view): View<V>, body: Sent) -> Reply<Response> {
    allowed(&*view, Action::StageOs).await?;
    let wanted: StageOs = match &body {
        Ok(bytes) if bytes.is_empty() => StageOs::default(),
        _ => read(body)?,
    };
    let size = view.os().await?.next.map_or(0, |next| next.size);
    view.stage_os(wanted).await?;
    // The image is on this host, so that all of its way is behind it by now.
    let done =
        [OsProgress::Downloading { bytes: size }, OsProgress::Verifying, OsProgress::Finalizing, OsProgress::Staged];
    let lines =
        done.iter().map(|step| serde_json::to_string(step).map(|line| line + "\n")).collect::<Result<String, _>>();
    let broken = |_| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "the answer cannot be written");
    Ok(lines.map_err(broken)?.into_response())
}

/// A secret is in it, and the next answer has another one.
const NOT_KEPT: (HeaderName, &str) = (header::CACHE_CONTROL, "no-store");

async fn allowed<V: MachineView>(view: &V, action: Action<'_>) -> Reply<Identity> {
    let who = view.identity().await?;
    may(&who, &action)?;
    Ok(who)
}

fn read<T: DeserializeOwned>(body: Sent) -> Reply<T> {
    let bytes = body.map_err(|rejection| {
        let problem = Problem::new(rejection.status(), "cannot take the body of the request");
        match rejection.status() {
            StatusCode::PAYLOAD_TOO_LARGE => problem.because(format!("it has more than {BODY_LIMIT} bytes")),
            _ => problem.because(rejection.body_text()),
        }
    })?;
    let wrong = |error| Problem::new(StatusCode::BAD_REQUEST, "the body is not the JSON that is wanted").because(error);
    serde_json::from_slice(&bytes).map_err(|error: serde_json::Error| wrong(error))
}

fn tagged(record: RecordView) -> Response {
    ([(header::ETAG, format!("\"{}\"", record.version))], Json(record)).into_response()
}

/// `tag=<key>=<value>`; a value may have equals signs in it.
fn parse_tag(name: &str, value: &str) -> Reply<Tag> {
    let wrong = |why: &str| Err(Problem::new(StatusCode::BAD_REQUEST, "the query is not understood").because(why));
    if name != "tag" {
        return wrong("the only parameter is tag=<key>=<value>");
    }
    match value.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok(Tag { key: key.to_owned(), value: value.to_owned() }),
        _ => wrong("a tag has the form <key>=<value>"),
    }
}

/// `If-None-Match: *`, `If-Match: "<version>"`, or neither.
fn condition(headers: &HeaderMap) -> Reply<Condition> {
    let wrong = || Problem::new(StatusCode::BAD_REQUEST, "the condition is not understood");
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    match (text(header::IF_MATCH), text(header::IF_NONE_MATCH)) {
        (None, None) => Ok(Condition::Always),
        (None, Some("*")) => Ok(Condition::Absent),
        (Some(tag), None) => {
            let version = tag.strip_prefix('"').and_then(|tag| tag.strip_suffix('"')).and_then(|tag| tag.parse().ok());
            version.map(Condition::Version).ok_or_else(wrong)
        }
        _ => Err(wrong().because("If-Match with a version or If-None-Match with * is wanted, not both")),
    }
}
