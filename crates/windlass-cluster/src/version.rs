//! Whether there is an API, which one, and whether it is ready.

use http::Request;
use kube::Client;

use crate::failure::ApiFailure;

/// Who answers where the API should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// An API server of this version, such as `v1.36.3`.
    Version(String),
    /// Somebody who serves no API: the signer, while a cluster starts.
    NoApi,
}

/// Asks `/version`.
pub async fn ask(client: &Client) -> Result<Answer, ApiFailure> {
    match client.apiserver_version().await {
        Ok(info) => Ok(Answer::Version(info.git_version)),
        Err(error) => match ApiFailure::from(&error) {
            failure if failure.is_absent() => Ok(Answer::NoApi),
            failure => Err(failure),
        },
    }
}

/// Asks `/readyz`; a server that is not ready yet is a failure that says so.
pub async fn ready(client: &Client) -> Result<(), ApiFailure> {
    let request = Request::get("/readyz").body(Vec::new()).expect("a path is a request");
    Ok(client.request_text(request).await.map(drop)?)
}
