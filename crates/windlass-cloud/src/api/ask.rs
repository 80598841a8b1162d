//! What a request says, taken apart: names from its path, a document or bytes from its body.

use std::collections::BTreeMap;
use std::str::FromStr;

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{FromRequest, FromRequestParts, Path, Request};
use axum::http::StatusCode;
use axum::http::request::Parts;
use serde::de::DeserializeOwned;
use windlass_cloud_api::{Label, LabelError};

use crate::refused::{Class, Refused};

/// The cluster that a path names.
pub(super) struct Within(pub Label);

/// The name at the end of a path that has only one.
pub(super) struct Named<T>(pub T);

/// A cluster and a thing of it.
pub(super) struct Thing<T>(pub Label, pub T);

/// A machine and what is to be done to it.
pub(super) struct Action(pub Label, pub Label, pub Deed);

/// What may be done to a machine.
#[derive(Clone, Copy)]
pub(super) enum Deed {
    Start,
    Stop,
    Reboot,
    PowerCut,
}

/// A JSON document, whatever its content type says.
pub(super) struct Body<T>(pub T);

/// Bytes.
pub(super) struct Raw(pub Bytes);

/// A JSON document in the first line, and the bytes behind it.
pub(super) struct Fed<T>(pub T, pub Bytes);

impl<S: Send + Sync> FromRequestParts<S> for Within {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        Ok(Within(part(&words(parts, state).await?, "cluster")?))
    }
}

impl<S: Send + Sync, T: FromStr<Err = LabelError>> FromRequestParts<S> for Named<T> {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        Ok(Named(part(&words(parts, state).await?, "name")?))
    }
}

impl<S: Send + Sync, T: FromStr<Err = LabelError>> FromRequestParts<S> for Thing<T> {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        let words = words(parts, state).await?;
        Ok(Thing(part(&words, "cluster")?, part(&words, "name")?))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Action {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        let words = words(parts, state).await?;
        let deed = match words.get("action").map(String::as_str) {
            Some("start") => Deed::Start,
            Some("stop") => Deed::Stop,
            Some("reboot") => Deed::Reboot,
            Some("power-cut") => Deed::PowerCut,
            _ => return Err(Refused::new(Class::Unknown, "a machine can start, stop, reboot and power-cut")),
        };
        Ok(Action(part(&words, "cluster")?, part(&words, "name")?, deed))
    }
}

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = Refused;

    async fn from_request(request: Request, state: &S) -> Result<Self, Refused> {
        let Raw(bytes) = Raw::from_request(request, state).await?;
        let text: &[u8] = if bytes.is_empty() { b"null" } else { &bytes };
        let parsed = serde_json::from_slice(text);
        parsed.map(Body).map_err(|error| Refused::new(Class::Malformed, "the request makes no sense").because(error))
    }
}

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Fed<T> {
    type Rejection = Refused;

    async fn from_request(request: Request, state: &S) -> Result<Self, Refused> {
        let Raw(bytes) = Raw::from_request(request, state).await?;
        let malformed = || Refused::new(Class::Malformed, "the request makes no sense");
        let end = bytes.iter().position(|byte| *byte == b'\n').ok_or_else(malformed)?;
        let parsed = serde_json::from_slice(&bytes[..end]).map_err(|error| malformed().because(error))?;
        Ok(Fed(parsed, bytes.slice(end + 1..)))
    }
}

impl<S: Send + Sync> FromRequest<S> for Raw {
    type Rejection = Refused;

    async fn from_request(request: Request, state: &S) -> Result<Self, Refused> {
        Bytes::from_request(request, state).await.map(Raw).map_err(|rejection: BytesRejection| {
            let class = match rejection.status() {
                StatusCode::PAYLOAD_TOO_LARGE => Class::TooLarge,
                _ => Class::Malformed,
            };
            Refused::new(class, "the request's body was not read").because(rejection.body_text())
        })
    }
}

async fn words<S: Send + Sync>(parts: &mut Parts, state: &S) -> Result<BTreeMap<String, String>, Refused> {
    let path = Path::<BTreeMap<String, String>>::from_request_parts(parts, state).await;
    path.map(|Path(words)| words).map_err(|error| Refused::new(Class::Malformed, error.body_text()))
}

fn part<T: FromStr<Err = LabelError>>(words: &BTreeMap<String, String>, name: &str) -> Result<T, Refused> {
    let text = words.get(name).map_or("", String::as_str);
    text.parse().map_err(|error: LabelError| Refused::new(Class::Malformed, error.to_string()))
}
