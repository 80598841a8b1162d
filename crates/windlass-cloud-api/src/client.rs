//! Asking the cloud over its socket. One connection per request: the socket is local, and nothing is left open.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1;
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;
use tokio::net::UnixStream;

use crate::{
    AttachRequest, Balancer, BalancerSpec, Cluster, ClusterSpec, Console, Event, ExecAnswer, ExecRequest, Fault,
    Forward, ForwardSpec, Group, GroupSpec, Image, ImageSpec, Label, Machine, MachineSpec, NewObject, ObjectInfo,
    ObjectKey, ObjectUrl, ProofOfDeletion, Receipt, Record, RecordChange, RecordName, Refusal, Status, Tag, UrlRequest,
    Volume, VolumeSpec,
};

/// Where the cloud listens.
#[derive(Debug, Clone)]
pub struct Client {
    socket: PathBuf,
}

/// Why there is no answer.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ClientError {
    /// Nobody listens.
    #[error("cannot reach the local cloud at {socket}")]
    Connect {
        /// Where.
        socket: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The conversation broke off.
    #[error("lost the local cloud while asking for {path}")]
    Talk {
        /// What was asked for.
        path: String,
        /// How it broke off.
        source: hyper::Error,
    },
    /// The request could not be written down.
    #[error("cannot ask the local cloud for {path}")]
    Ask {
        /// What was asked for.
        path: String,
        /// Why not.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The cloud said no.
    #[error("{refusal}")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// Its words.
        refusal: Refusal,
    },
    /// The answer makes no sense.
    #[error("cannot understand the local cloud's answer for {path}")]
    Understand {
        /// What was asked for.
        path: String,
        /// Why not.
        source: serde_json::Error,
    },
}

impl ClientError {
    /// Whether nobody listens there, so that starting the cloud may help. Not being let in is something else.
    pub fn is_absent(&self) -> bool {
        let nobody = [ErrorKind::NotFound, ErrorKind::ConnectionRefused];
        matches!(self, ClientError::Connect { source, .. } if nobody.contains(&source.kind()))
    }

    /// The status that the cloud answered with, if it did.
    pub fn status(&self) -> Option<u16> {
        match self {
            ClientError::Refused { status, .. } => Some(*status),
            _ => None,
        }
    }
}

type Answer<T> = Result<T, ClientError>;

impl Client {
    /// A client of the cloud that listens at this socket.
    pub fn new(socket: impl AsRef<Path>) -> Self {
        Client { socket: socket.as_ref().to_owned() }
    }

    /// The cloud about itself.
    pub async fn status(&self) -> Answer<Status> {
        self.get("/v1/status").await
    }

    /// What happened lately, oldest first.
    pub async fn events(&self) -> Answer<Vec<Event>> {
        self.get("/v1/events").await
    }

    /// Ends the daemon if it has no cluster.
    pub async fn leave(&self) -> Answer<()> {
        self.post("/v1/leave", &()).await
    }

    /// Names an image.
    pub async fn put_image(&self, name: &Label, spec: &ImageSpec) -> Answer<Image> {
        self.put(&format!("/v1/images/{name}"), spec).await
    }

    /// Every image.
    pub async fn images(&self) -> Answer<Vec<Image>> {
        self.get("/v1/images").await
    }

    /// Makes a cluster, or changes its channel, tags and egress.
    pub async fn put_cluster(&self, name: &Label, spec: &ClusterSpec) -> Answer<Cluster> {
        self.put(&of(name, ""), spec).await
    }

    /// One cluster.
    pub async fn cluster(&self, name: &Label) -> Answer<Cluster> {
        self.get(&of(name, "")).await
    }

    /// Every cluster.
    pub async fn clusters(&self) -> Answer<Vec<Cluster>> {
        self.get("/v1/clusters").await
    }

    /// Destroys a cluster, known or not, and says what is left.
    pub async fn destroy(&self, name: &Label) -> Answer<Receipt> {
        self.delete(&of(name, "")).await
    }

    /// Destroys every cluster with this tag.
    pub async fn destroy_tagged(&self, tag: &Tag) -> Answer<Receipt> {
        self.post("/v1/destroy", tag).await
    }

    /// What of a cluster is on the host.
    pub async fn inventory(&self, name: &Label) -> Answer<Vec<crate::Thing>> {
        self.get(&of(name, "/inventory")).await
    }

    /// Makes a machine and switches it on.
    pub async fn put_machine(&self, cluster: &Label, name: &Label, spec: &MachineSpec) -> Answer<Machine> {
        self.put(&of(cluster, &format!("/machines/{name}")), spec).await
    }

    /// One machine.
    pub async fn machine(&self, cluster: &Label, name: &Label) -> Answer<Machine> {
        self.get(&of(cluster, &format!("/machines/{name}"))).await
    }

    /// Every machine of a cluster.
    pub async fn machines(&self, cluster: &Label) -> Answer<Vec<Machine>> {
        self.get(&of(cluster, "/machines")).await
    }

    /// Switches a machine off and removes it with its disk.
    pub async fn delete_machine(&self, cluster: &Label, name: &Label) -> Answer<()> {
        self.delete(&of(cluster, &format!("/machines/{name}"))).await
    }

    /// Switches a machine on.
    pub async fn start(&self, cluster: &Label, name: &Label) -> Answer<Machine> {
        self.act(cluster, name, "start").await
    }

    /// Asks a machine to power off, and switches it off if it does not.
    pub async fn stop(&self, cluster: &Label, name: &Label) -> Answer<Machine> {
        self.act(cluster, name, "stop").await
    }

    /// Asks a machine to power off and starts it again.
    pub async fn reboot(&self, cluster: &Label, name: &Label) -> Answer<Machine> {
        self.act(cluster, name, "reboot").await
    }

    /// Takes a machine's power away.
    pub async fn power_cut(&self, cluster: &Label, name: &Label) -> Answer<Machine> {
        self.act(cluster, name, "power-cut").await
    }

    async fn act(&self, cluster: &Label, name: &Label, what: &str) -> Answer<Machine> {
        self.post(&of(cluster, &format!("/machines/{name}/{what}")), &()).await
    }

    /// Runs a command in a machine.
    pub async fn exec(&self, cluster: &Label, name: &Label, request: &ExecRequest) -> Answer<ExecAnswer> {
        self.post(&of(cluster, &format!("/machines/{name}/exec")), request).await
    }

    /// Runs a command in a machine that reads these bytes instead of the request's text, of which there may be many.
    pub async fn feed(&self, cluster: &Label, name: &Label, request: &ExecRequest, bytes: &[u8]) -> Answer<ExecAnswer> {
        let path = of(cluster, &format!("/machines/{name}/feed"));
        // JSON has no line break of its own, so that the first one ends it.
        let mut body = json(&path, request)?;
        body.push(b'\n');
        body.extend_from_slice(bytes);
        self.send(Method::POST, &path, body).await
    }

    /// The end of what a machine printed.
    pub async fn console(&self, cluster: &Label, name: &Label) -> Answer<Console> {
        self.get(&of(cluster, &format!("/machines/{name}/console"))).await
    }

    /// Makes a volume, or makes it larger.
    pub async fn put_volume(&self, cluster: &Label, name: &Label, spec: &VolumeSpec) -> Answer<Volume> {
        self.put(&of(cluster, &format!("/volumes/{name}")), spec).await
    }

    /// Every volume of a cluster.
    pub async fn volumes(&self, cluster: &Label) -> Answer<Vec<Volume>> {
        self.get(&of(cluster, "/volumes")).await
    }

    /// Gives a volume to a machine.
    pub async fn attach(&self, cluster: &Label, name: &Label, request: &AttachRequest) -> Answer<Volume> {
        self.post(&of(cluster, &format!("/volumes/{name}/attach")), request).await
    }

    /// Takes a volume back from a machine that does not use it.
    pub async fn detach(&self, cluster: &Label, name: &Label) -> Answer<Volume> {
        self.post(&of(cluster, &format!("/volumes/{name}/detach")), &()).await
    }

    /// Copies a volume that nobody has to a new one.
    pub async fn snapshot(&self, cluster: &Label, name: &Label, copy: &Label) -> Answer<Volume> {
        self.post(&of(cluster, &format!("/volumes/{name}/snapshot")), copy).await
    }

    /// Removes a volume that nobody has.
    pub async fn delete_volume(&self, cluster: &Label, name: &Label) -> Answer<()> {
        self.delete(&of(cluster, &format!("/volumes/{name}"))).await
    }

    /// Makes or changes a balancer.
    pub async fn put_balancer(&self, cluster: &Label, name: &Label, spec: &BalancerSpec) -> Answer<Balancer> {
        self.put(&of(cluster, &format!("/balancers/{name}")), spec).await
    }

    /// One balancer, with what it thinks of its targets.
    pub async fn balancer(&self, cluster: &Label, name: &Label) -> Answer<Balancer> {
        self.get(&of(cluster, &format!("/balancers/{name}"))).await
    }

    /// Removes a balancer.
    pub async fn delete_balancer(&self, cluster: &Label, name: &Label) -> Answer<()> {
        self.delete(&of(cluster, &format!("/balancers/{name}"))).await
    }

    /// Opens a door from 127.0.0.1.
    pub async fn put_forward(&self, cluster: &Label, name: &Label, spec: &ForwardSpec) -> Answer<Forward> {
        self.put(&of(cluster, &format!("/forwards/{name}")), spec).await
    }

    /// Closes it.
    pub async fn delete_forward(&self, cluster: &Label, name: &Label) -> Answer<()> {
        self.delete(&of(cluster, &format!("/forwards/{name}"))).await
    }

    /// Makes or changes a group.
    pub async fn put_group(&self, cluster: &Label, name: &Label, spec: &GroupSpec) -> Answer<Group> {
        self.put(&of(cluster, &format!("/groups/{name}")), spec).await
    }

    /// One group.
    pub async fn group(&self, cluster: &Label, name: &Label) -> Answer<Group> {
        self.get(&of(cluster, &format!("/groups/{name}"))).await
    }

    /// Removes a group and its machines.
    pub async fn delete_group(&self, cluster: &Label, name: &Label) -> Answer<()> {
        self.delete(&of(cluster, &format!("/groups/{name}"))).await
    }

    /// Changes what a name stands for.
    pub async fn put_record(&self, cluster: &Label, name: &RecordName, change: &RecordChange) -> Answer<Record> {
        self.put(&of(cluster, &format!("/records/{name}")), change).await
    }

    /// Every record of a cluster's zone.
    pub async fn records(&self, cluster: &Label) -> Answer<Vec<Record>> {
        self.get(&of(cluster, "/records")).await
    }

    /// Keeps an object.
    pub async fn put_object(&self, cluster: &Label, key: &ObjectKey, bytes: Vec<u8>) -> Answer<ObjectInfo> {
        self.send(Method::PUT, &of(cluster, &format!("/objects/{key}")), bytes).await
    }

    /// Keeps several objects, all or none; large files of this host are taken from where they lie.
    pub async fn put_objects(&self, cluster: &Label, objects: &[NewObject]) -> Answer<Vec<ObjectInfo>> {
        self.post(&of(cluster, "/objects"), &objects).await
    }

    /// Every object of a cluster.
    pub async fn objects(&self, cluster: &Label) -> Answer<Vec<ObjectInfo>> {
        self.get(&of(cluster, "/objects")).await
    }

    /// A URL for an object that works inside the cluster's network for a while.
    pub async fn object_url(&self, cluster: &Label, key: &ObjectKey, seconds: u32) -> Answer<ObjectUrl> {
        self.post(&of(cluster, &format!("/urls/{key}")), &UrlRequest { seconds }).await
    }

    /// Deletes an object and looks whether it is gone.
    pub async fn delete_object(&self, cluster: &Label, key: &ObjectKey) -> Answer<ProofOfDeletion> {
        self.delete(&of(cluster, &format!("/objects/{key}"))).await
    }

    /// Puts these faults, and no others, into effect.
    pub async fn put_faults(&self, cluster: &Label, faults: &[Fault]) -> Answer<Vec<Fault>> {
        self.put(&of(cluster, "/faults"), &faults).await
    }

    async fn get<T: DeserializeOwned>(&self, path: &str) -> Answer<T> {
        self.send(Method::GET, path, Vec::new()).await
    }

    async fn delete<T: DeserializeOwned>(&self, path: &str) -> Answer<T> {
        self.send(Method::DELETE, path, Vec::new()).await
    }

    async fn put<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Answer<T> {
        self.send(Method::PUT, path, json(path, body)?).await
    }

    async fn post<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Answer<T> {
        self.send(Method::POST, path, json(path, body)?).await
    }

    /// Sends a request as it is; the typed calls above are all made of this.
    pub async fn send<T: DeserializeOwned>(&self, method: Method, path: &str, body: Vec<u8>) -> Answer<T> {
        let (status, body) = self.exchange(method, path, body).await?;
        let understand = |source| ClientError::Understand { path: path.to_owned(), source };
        if status.is_success() {
            let text: &[u8] = if body.is_empty() { b"null" } else { &body };
            return serde_json::from_slice(text).map_err(understand);
        }
        let refusal = serde_json::from_slice(&body).unwrap_or_else(|_| Refusal {
            error: format!("the local cloud answered {status}"),
            because: vec![String::from_utf8_lossy(&body).chars().take(200).collect()],
            next: None,
        });
        Err(ClientError::Refused { status: status.as_u16(), refusal })
    }

    async fn exchange(&self, method: Method, path: &str, body: Vec<u8>) -> Answer<(StatusCode, Bytes)> {
        let connect = |source| ClientError::Connect { socket: self.socket.clone(), source };
        let talk = |source| ClientError::Talk { path: path.to_owned(), source };
        let ask = |source: hyper::http::Error| ClientError::Ask { path: path.to_owned(), source: Box::new(source) };
        let stream = UnixStream::connect(&self.socket).await.map_err(connect)?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(talk)?;
        let request = Request::builder().method(method).uri(path).header("host", "cloud");
        let request = request.header("content-type", "application/json").body(Full::new(Bytes::from(body)));
        let request = request.map_err(ask)?;
        let conversation = async {
            let answer = sender.send_request(request).await.map_err(talk)?;
            let status = answer.status();
            Ok((status, answer.into_body().collect().await.map_err(talk)?.to_bytes()))
        };
        // The connection has to be driven while the answer is awaited; its own end says nothing that the answer does not.
        tokio::pin!(conversation);
        tokio::pin!(connection);
        tokio::select! {
            answer = &mut conversation => answer,
            _ = &mut connection => conversation.await,
        }
    }
}

fn of(cluster: &Label, rest: &str) -> String {
    format!("/v1/clusters/{cluster}{rest}")
}

fn json(path: &str, body: &impl Serialize) -> Answer<Vec<u8>> {
    serde_json::to_vec(body).map_err(|source| ClientError::Ask { path: path.to_owned(), source: Box::new(source) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_cloud_that_is_not_there_is_told_from_one_that_refuses() {
        let error = Client::new("/nonexistent/cloud.sock").status().await.unwrap_err();
        assert!(error.is_absent());
        assert_eq!(error.status(), None);
    }
}
