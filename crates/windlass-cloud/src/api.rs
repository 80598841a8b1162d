//! The requests over the socket. Text becomes a type here and nowhere later; whatever is wrong with a request is answered
//! with what, why and what to do, and never harms the daemon.

mod ask;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};
use serde::Serialize;
use windlass_cloud_api::{
    AttachRequest, BalancerSpec, ClusterSpec, Event, ExecRequest, Fault, ForwardSpec, GroupSpec, Image, ImageSpec,
    Label, MachineSpec, NewObject, ObjectKey, RecordChange, RecordName, Status, Tag, UrlRequest, VolumeSpec,
};

use crate::cloud::Cloud;
use crate::refused::Refused;
use ask::{Body, Named, Thing, Within};

/// Documents are small.
const DOCUMENT: usize = 4 << 20;
/// Objects, and what commands read, may not be.
const OBJECT: usize = 512 << 20;

/// Everything that the cloud answers.
pub fn router(cloud: Cloud) -> Router {
    let machine = "/v1/clusters/{cluster}/machines/{name}";
    let volume = "/v1/clusters/{cluster}/volumes/{name}";
    let objects = Router::new()
        .route("/v1/clusters/{cluster}/objects/{*name}", put(put_object).delete(delete_object))
        .route(&format!("{machine}/feed"), post(feed))
        .layer(DefaultBodyLimit::max(OBJECT));
    Router::new()
        .route("/v1/status", get(status))
        .route("/v1/events", get(events))
        .route("/v1/leave", post(leave))
        .route("/v1/destroy", post(destroy_tagged))
        .route("/v1/images", get(images))
        .route("/v1/images/{name}", put(put_image))
        .route("/v1/clusters", get(clusters))
        .route("/v1/clusters/{cluster}", get(cluster).put(put_cluster).delete(destroy))
        .route("/v1/clusters/{cluster}/inventory", get(inventory))
        .route("/v1/clusters/{cluster}/faults", put(put_faults))
        .route("/v1/clusters/{cluster}/machines", get(machines))
        .route(machine, get(one_machine).put(put_machine).delete(delete_machine))
        .route(&format!("{machine}/console"), get(console))
        .route(&format!("{machine}/exec"), post(exec))
        .route(&format!("{machine}/{{action}}"), post(act))
        .route("/v1/clusters/{cluster}/volumes", get(volumes))
        .route(volume, put(put_volume).delete(delete_volume))
        .route(&format!("{volume}/attach"), post(attach))
        .route(&format!("{volume}/detach"), post(detach))
        .route(&format!("{volume}/snapshot"), post(snapshot))
        .route("/v1/clusters/{cluster}/balancers/{name}", get(balancer).put(put_balancer).delete(delete_balancer))
        .route("/v1/clusters/{cluster}/forwards", get(forwards))
        .route("/v1/clusters/{cluster}/forwards/{name}", put(put_forward).delete(delete_forward))
        .route("/v1/clusters/{cluster}/groups/{name}", get(group).put(put_group).delete(delete_group))
        .route("/v1/clusters/{cluster}/records", get(records))
        .route("/v1/clusters/{cluster}/records/{name}", put(put_record))
        .route("/v1/clusters/{cluster}/objects", get(list_objects).post(put_objects))
        .route("/v1/clusters/{cluster}/urls/{*name}", post(object_url))
        .fallback(|| async { Refused::new(crate::refused::Class::Unknown, "there is no such request") })
        .layer(DefaultBodyLimit::max(DOCUMENT))
        .merge(objects)
        .with_state(cloud)
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.class.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        (status, axum::Json(self.refusal)).into_response()
    }
}

type Answer<T> = Result<axum::Json<T>, Refused>;

fn told<T: Serialize>(answer: Result<T, Refused>) -> Answer<T> {
    answer.map(axum::Json)
}

async fn status(State(cloud): State<Cloud>) -> axum::Json<Status> {
    axum::Json(cloud.status())
}

async fn events(State(cloud): State<Cloud>) -> axum::Json<Vec<Event>> {
    axum::Json(cloud.log().events())
}

async fn leave(State(cloud): State<Cloud>) -> Answer<()> {
    told(cloud.leave())
}

async fn images(State(cloud): State<Cloud>) -> axum::Json<Vec<Image>> {
    axum::Json(cloud.images())
}

async fn put_image(
    State(cloud): State<Cloud>,
    Named(name): Named<Label>,
    Body(spec): Body<ImageSpec>,
) -> Answer<Image> {
    told(cloud.put_image(&name, spec))
}

async fn clusters(State(cloud): State<Cloud>) -> impl IntoResponse {
    axum::Json(cloud.clusters())
}

async fn cluster(State(cloud): State<Cloud>, Within(cluster): Within) -> impl IntoResponse {
    told(cloud.cluster(&cluster))
}

async fn put_cluster(
    State(cloud): State<Cloud>,
    Within(cluster): Within,
    Body(spec): Body<ClusterSpec>,
) -> impl IntoResponse {
    told(cloud.put_cluster(&cluster, spec))
}

async fn destroy(State(cloud): State<Cloud>, Within(cluster): Within) -> impl IntoResponse {
    told(cloud.destroy(vec![cluster]).await)
}

async fn destroy_tagged(State(cloud): State<Cloud>, Body(tag): Body<Tag>) -> impl IntoResponse {
    let tagged = cloud.tagged(&tag);
    told(cloud.destroy(tagged).await)
}

async fn inventory(State(cloud): State<Cloud>, Within(cluster): Within) -> impl IntoResponse {
    told(cloud.world().inventory(cloud.places(), &cluster))
}

async fn put_faults(
    State(cloud): State<Cloud>,
    Within(cluster): Within,
    Body(faults): Body<Vec<Fault>>,
) -> impl IntoResponse {
    told(cloud.put_faults(&cluster, faults).await)
}

async fn machines(State(cloud): State<Cloud>, Within(cluster): Within) -> impl IntoResponse {
    told(cloud.machines(&cluster))
}

async fn one_machine(State(cloud): State<Cloud>, Thing(cluster, name): Thing<Label>) -> impl IntoResponse {
    told(cloud.machine(&cluster, &name))
}

async fn put_machine(
    State(cloud): State<Cloud>,
    Thing(cluster, name): Thing<Label>,
    Body(spec): Body<MachineSpec>,
) -> impl IntoResponse {
    told(cloud.put_machine(&cluster, &name, spec))
}

async fn delete_machine(State(cloud): State<Cloud>, Thing(cluster, name): Thing<Label>) -> impl IntoResponse {
    told(cloud.delete_machine(&cluster, &name).await)
}

async fn console(State(cloud): State<Cloud>, Thing(cluster, name): Thing<Label>) -> impl IntoResponse {
    told(cloud.console(&cluster, &name))
}

async fn exec(
    State(cloud): State<Cloud>,
    Thing(cluster, name): Thing<Label>,
    Body(request): Body<ExecRequest>,
) -> impl IntoResponse {
    let stdin = request.stdin.clone().into_bytes();
    told(cloud.exec(&cluster, &name, &request, stdin).await)
}

async fn feed(
    State(cloud): State<Cloud>,
    Thing(cluster, name): Thing<Label>,
    ask::Fed(request, stdin): ask::Fed<ExecRequest>,
) -> impl IntoResponse {
    told(cloud.exec(&cluster, &name, &request, stdin.to_vec()).await)
}

async fn act(State(cloud): State<Cloud>, ask::Action(cluster, name, action): ask::Action) -> impl IntoResponse {
    told(match action {
        ask::Deed::Start => cloud.start(&cluster, &name).await,
        ask::Deed::Stop => cloud.stop(&cluster, &name).await,
        ask::Deed::Reboot => cloud.reboot(&cluster, &name).await,
        ask::Deed::PowerCut => cloud.power_cut(&cluster, &name).await,
    })
}

async fn volumes(State(cloud): State<Cloud>, Within(cluster): Within) -> impl IntoResponse {
    told(cloud.volumes(&cluster, None))
}

async fn put_volume(
    State(cloud): State<Cloud>,
    Thing(cluster, name): Thing<Label>,
    Body(spec): Body<VolumeSpec>,
) -> impl IntoResponse {
    told(cloud.put_volume(&cluster, &name, spec).await)
}

async fn delete_volume(State(cloud): State<Cloud>, Thing(cluster, name): Thing<Label>) -> impl IntoResponse {
    told(cloud.delete_volume(&cluster, &name).await)
}

async fn attach(
    State(cloud): State<Cloud>,
    Thing(cluster, name): Thing<Label>,
    Body(request): Body<AttachRequest>,
) -> impl IntoResponse {
    told(cloud.attach(&cluster, &name, &request).await)
}

async fn detach(State(cloud): State<Cloud>, Thing(cluster, name): Thing<Label>) -> impl IntoResponse {
    told(cloud.detach(&cluster, &name).await)
}

async fn snapshot(
    State(cloud): State<Cloud>,
    Thing(cluster, name): Thing<Label>,
    Body(copy): Body<Label>,
) -> impl IntoResponse {
    told(cloud.snapshot(&cluster, &name, &copy).await)
}

async fn balancer(State(cloud): State<Cloud>, Thing(cluster, name): Thing<Label>) -> impl IntoResponse {
    told(cloud.balancer(&cluster, &name))
}

async fn put_balancer(
    State(cloud): State<Cloud>,
    Thing(cluster, name): Thing<Label>,
    Body(spec): Body<BalancerSpec>,
) -> impl IntoResponse {
    told(cloud.put_balancer(&cluster, &name, spec))
}

async fn delete_balancer(State(cloud): State<Cloud>, Thing(cluster, name): Thing<Label>) -> impl IntoResponse {
    told(cloud.delete_balancer(&cluster, &name))
}

async fn forwards(State(cloud): State<Cloud>, Within(cluster): Within) -> impl IntoResponse {
    told(cloud.forwards(&cluster))
}

async fn put_forward(
    State(cloud): State<Cloud>,
    Thing(cluster, name): Thing<Label>,
    Body(spec): Body<ForwardSpec>,
) -> impl IntoResponse {
    told(cloud.put_forward(&cluster, &name, spec).await)
}

async fn delete_forward(State(cloud): State<Cloud>, Thing(cluster, name): Thing<Label>) -> impl IntoResponse {
    told(cloud.delete_forward(&cluster, &name))
}

async fn group(State(cloud): State<Cloud>, Thing(cluster, name): Thing<Label>) -> impl IntoResponse {
    told(cloud.group(&cluster, &name))
}

async fn put_group(
    State(cloud): State<Cloud>,
    Thing(cluster, name): Thing<Label>,
    Body(spec): Body<GroupSpec>,
) -> impl IntoResponse {
    told(cloud.put_group(&cluster, &name, spec))
}

async fn delete_group(State(cloud): State<Cloud>, Thing(cluster, name): Thing<Label>) -> impl IntoResponse {
    told(cloud.delete_group(&cluster, &name))
}

async fn records(State(cloud): State<Cloud>, Within(cluster): Within) -> impl IntoResponse {
    told(cloud.records(&cluster))
}

async fn put_record(
    State(cloud): State<Cloud>,
    Thing(cluster, name): Thing<RecordName>,
    Body(change): Body<RecordChange>,
) -> impl IntoResponse {
    told(cloud.put_record(&cluster, &name, &change))
}

async fn list_objects(State(cloud): State<Cloud>, Within(cluster): Within) -> impl IntoResponse {
    told(cloud.objects(&cluster))
}

async fn put_objects(
    State(cloud): State<Cloud>,
    Within(cluster): Within,
    Body(objects): Body<Vec<NewObject>>,
) -> impl IntoResponse {
    // Files of the host are copied and hashed: not on a thread that others wait for.
    let kept = tokio::task::spawn_blocking(move || cloud.put_objects(&cluster, objects)).await;
    told(kept.unwrap_or_else(|error| Err(Refused::failed("the objects were not kept", &error))))
}

async fn put_object(
    State(cloud): State<Cloud>,
    Thing(cluster, key): Thing<ObjectKey>,
    ask::Raw(bytes): ask::Raw,
) -> impl IntoResponse {
    let bytes: Bytes = bytes;
    told(cloud.put_object(&cluster, &key, &bytes))
}

async fn delete_object(State(cloud): State<Cloud>, Thing(cluster, key): Thing<ObjectKey>) -> impl IntoResponse {
    told(cloud.delete_object(&cluster, &key))
}

async fn object_url(
    State(cloud): State<Cloud>,
    Thing(cluster, key): Thing<ObjectKey>,
    Body(request): Body<UrlRequest>,
) -> impl IntoResponse {
    told(cloud.object_url(&cluster, &key, request.seconds))
}
