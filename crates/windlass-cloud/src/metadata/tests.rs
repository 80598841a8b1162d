//! The routes against a small world of one machine, over real HTTP.

use std::sync::{Arc, Mutex};

use serde_json::json;
use time::OffsetDateTime;
use time::macros::datetime;

use super::*;
use crate::testing::{Answer, Web};

const NOON: OffsetDateTime = datetime!(2026-11-16 12:00:00 UTC);

/// A machine with two volumes of its own cluster, one of another, and one record.
struct World {
    role: Role,
    user_data: Option<&'static str>,
    key: TokenKey,
    volumes: Mutex<Vec<VolumeView>>,
    record: Mutex<Option<RecordView>>,
    os: Mutex<OsView>,
}

fn tags(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn volume(name: &str, cluster: &str, holder: Option<&str>) -> VolumeView {
    let (name, cluster) = (name.to_owned(), cluster.to_owned());
    let tags = tags(&[("etcd", "yes"), ("name", &name)]);
    VolumeView { name, cluster, size: 1 << 30, tags, holder: holder.map(str::to_owned), device: None }
}

impl World {
    fn new(role: Role, user_data: Option<&'static str>) -> Arc<Self> {
        let volumes = vec![volume("mine", "one", None), volume("held", "one", Some("m1")), volume("far", "two", None)];
        let os = OsView {
            current: "1.0".into(),
            staged: None,
            next: Some(OsOffer { version: "1.1".into(), size: 7, digest: "sha256:00".into() }),
        };
        Arc::new(Self {
            role,
            user_data,
            key: TokenKey::from_seed(&[1; 32]),
            volumes: Mutex::new(volumes),
            record: Mutex::new(None),
            os: Mutex::new(os),
        })
    }

    fn check(&self, condition: Condition) -> Result<u64, ViewError> {
        let now = self.record.lock().unwrap().as_ref().map(|record| record.version);
        let holds = match condition {
            Condition::Always => true,
            Condition::Absent => now.is_none(),
            Condition::Version(version) => now == Some(version),
        };
        match holds {
            true => Ok(now.unwrap_or(0)),
            false => Err(ViewError::new(Failing::Condition, "the record has changed").because(format!("{now:?}"))),
        }
    }

    fn set_holder(&self, name: &Label, holder: Option<&str>) -> VolumeView {
        let mut volumes = self.volumes.lock().unwrap();
        let volume = volumes.iter_mut().find(|volume| volume.name == name.as_str()).unwrap();
        volume.holder = holder.map(str::to_owned);
        volume.clone()
    }
}

impl MachineView for World {
    async fn identity(&self) -> Result<Identity, ViewError> {
        Ok(Identity {
            name: "m0".into(),
            cluster: "one".into(),
            domain: "one.test".into(),
            role: self.role,
            address: [10, 0, 0, 2].into(),
            tags: tags(&[("owner", "one")]),
            index: 0,
        })
    }
    async fn user_data(&self) -> Result<Option<String>, ViewError> {
        Ok(self.user_data.map(str::to_owned))
    }
    async fn token(&self, purpose: &Label) -> Result<String, ViewError> {
        Ok(self.identity().await?.token(purpose, NOON).sign(&self.key))
    }
    async fn volumes(&self, tags: &[Tag]) -> Result<Vec<VolumeView>, ViewError> {
        let has = |volume: &&VolumeView| tags.iter().all(|tag| volume.tags.get(&tag.key) == Some(&tag.value));
        Ok(self.volumes.lock().unwrap().iter().filter(has).cloned().collect())
    }
    async fn volume(&self, name: &Label) -> Result<Option<VolumeView>, ViewError> {
        Ok(self.volumes.lock().unwrap().iter().find(|volume| volume.name == name.as_str()).cloned())
    }
    async fn attach_volume(&self, name: &Label) -> Result<VolumeView, ViewError> {
        Ok(self.set_holder(name, Some("m0")))
    }
    async fn detach_volume(&self, name: &Label) -> Result<VolumeView, ViewError> {
        Ok(self.set_holder(name, None))
    }
    async fn record(&self, _: &RecordName, kind: RecordKind) -> Result<Option<RecordView>, ViewError> {
        Ok(self.record.lock().unwrap().clone().filter(|record| record.kind == kind))
    }
    async fn put_record(
        &self,
        name: &RecordName,
        new: NewRecord,
        condition: Condition,
    ) -> Result<RecordView, ViewError> {
        let version = self.check(condition)? + 1;
        let record = RecordView { name: name.to_string(), kind: new.kind, values: new.values, version };
        *self.record.lock().unwrap() = Some(record.clone());
        Ok(record)
    }
    async fn delete_record(&self, _: &RecordName, _: RecordKind, condition: Condition) -> Result<(), ViewError> {
        self.check(condition)?;
        *self.record.lock().unwrap() = None;
        Ok(())
    }
    async fn os(&self) -> Result<OsView, ViewError> {
        Ok(self.os.lock().unwrap().clone())
    }
    async fn stage_os(&self, wanted: StageOs) -> Result<OsView, ViewError> {
        let mut os = self.os.lock().unwrap();
        os.staged = wanted.version.or_else(|| os.next.as_ref().map(|next| next.version.clone()));
        Ok(os.clone())
    }
}

async fn web(role: Role) -> Web {
    Web::serve(router(World::new(role, None))).await
}

fn error(answer: &Answer) -> (u16, String) {
    (answer.status, answer.json()["error"].as_str().unwrap_or_else(|| panic!("{answer:?}")).to_owned())
}

#[tokio::test]
async fn a_machine_learns_who_it_is() {
    let web = web(Role::Master).await;
    let want = json!({
        "name": "m0", "cluster": "one", "domain": "one.test", "role": "master", "address": "10.0.0.2",
        "tags": {"owner": "one"}, "index": 0
    });
    assert_eq!(web.get("/v1/identity").await.json(), want);
    assert_eq!(web.get("/v1/tags").await.json(), want["tags"]);
}

#[tokio::test]
async fn user_data_is_where_ignition_looks_and_has_fresh_tokens_in_it() {
    let world = World::new(Role::Worker, Some(r#"{"config":"@token(config)@","join":"@token(join)@"}"#));
    let web = Web::serve(router(Arc::clone(&world))).await;
    for path in ["/v1/user-data", "/hetzner/v1/userdata", "/1.0/user-data", "/user-data/user-data"] {
        let answer = web.get(path).await;
        assert_eq!((answer.status, answer.header("cache-control").as_str()), (200, "no-store"), "{path}");
        for purpose in ["config", "join"] {
            let text = answer.json()[purpose].as_str().unwrap().to_owned();
            let before = NOON - time::Duration::SECOND;
            let token = Token::verify(&text, &world.key.public(), purpose, before).unwrap();
            assert_eq!((token.name.as_str(), token.cluster.as_str(), token.role), ("m0", "one", Role::Worker));
        }
    }
    let text = web.get("/v1/tokens/join").await.json()["token"].as_str().unwrap().to_owned();
    assert!(Token::verify(&text, &world.key.public(), "join", NOON - time::Duration::SECOND).is_ok());
}

#[tokio::test]
async fn no_user_data_is_not_found_and_a_broken_mark_is_our_fault() {
    assert_eq!(error(&web(Role::Worker).await.get("/v1/user-data").await).0, 404);
    let broken = Web::serve(router(World::new(Role::Worker, Some("@token(")))).await;
    let answer = broken.get("/hetzner/v1/userdata").await;
    assert_eq!(error(&answer), (500, "cannot fill the user-data".into()));
    assert!(answer.json()["because"].as_str().unwrap().contains("at byte 0"));
}

#[tokio::test]
async fn volumes_are_found_by_tag_and_only_in_the_own_cluster() {
    let web = web(Role::Worker).await;
    let names = async |query: &str| -> Vec<String> {
        let answer = web.get(&format!("/v1/volumes{query}")).await.json();
        answer.as_array().unwrap().iter().map(|volume| volume["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names("").await, ["mine", "held"]);
    assert_eq!(names("?tag=etcd=yes").await, ["mine", "held"]);
    assert_eq!(names("?tag=etcd%3Dyes&tag=name%3Dheld").await, ["held"]);
    assert!(names("?tag=etcd=no").await.is_empty());
    for query in ["?tag=etcd", "?tag==yes", "?label=a=b"] {
        assert_eq!(web.get(&format!("/v1/volumes{query}")).await.status, 400, "{query}");
    }
}

#[tokio::test]
async fn a_master_takes_and_gives_back_volumes_and_others_may_not() {
    let master = web(Role::Master).await;
    let post = async |web: &Web, path: &str| web.ask("POST", path, "", b"").await;
    assert_eq!(post(&master, "/v1/volumes/mine/detach").await.status, 403);
    assert_eq!(post(&master, "/v1/volumes/held/detach").await.status, 403);
    assert_eq!(post(&master, "/v1/volumes/mine/attach").await.json()["holder"], "m0");
    assert_eq!(post(&master, "/v1/volumes/mine/detach").await.json()["holder"], json!(null));
    assert_eq!(post(&master, "/v1/volumes/held/attach").await.json()["holder"], "m0");
    assert_eq!(post(&master, "/v1/volumes/far/attach").await.status, 404);
    assert_eq!(post(&master, "/v1/volumes/none/attach").await.status, 404);
    assert_eq!(post(&master, "/v1/volumes/..%2Fmine/attach").await.status, 400);
    for role in [Role::Worker, Role::Bootstrap] {
        let other = web(role).await;
        let answer = post(&other, "/v1/volumes/mine/attach").await;
        assert_eq!(error(&answer), (403, "this machine may not do that".into()));
        assert_eq!(answer.json()["because"], format!("a {role} may not attach or detach volumes"));
    }
}

#[tokio::test]
async fn records_change_only_under_their_condition() {
    let web = web(Role::Master).await;
    let put = async |headers: &str, value: &str| {
        let body = json!({ "values": [value] }).to_string();
        web.ask("PUT", "/v1/records/api.one.test", headers, body.as_bytes()).await
    };
    assert_eq!(web.get("/v1/records/api.one.test").await.status, 404);
    let first = put("If-None-Match: *\r\n", "10.0.0.2").await;
    assert_eq!((first.status, first.header("etag").as_str()), (200, "\"1\""));
    assert_eq!(first.json(), json!({"name": "api.one.test", "type": "A", "values": ["10.0.0.2"], "version": 1}));
    assert_eq!(error(&put("If-None-Match: *\r\n", "10.0.0.3").await).0, 412);
    assert_eq!(put("If-Match: \"7\"\r\n", "10.0.0.3").await.status, 412);
    assert_eq!(put("If-Match: \"1\"\r\n", "10.0.0.3").await.header("etag"), "\"2\"");
    assert_eq!(put("", "10.0.0.4").await.header("etag"), "\"3\"");
    for headers in
        ["If-Match: 3\r\n", "If-Match: *\r\n", "If-None-Match: \"3\"\r\n", "If-Match: \"3\"\r\nIf-None-Match: *\r\n"]
    {
        assert_eq!(put(headers, "10.0.0.5").await.status, 400, "{headers}");
    }
    assert_eq!(web.get("/v1/records/api.one.test?type=A").await.json()["values"], json!(["10.0.0.4"]));
    assert_eq!(web.get("/v1/records/api.one.test?type=AAAA").await.status, 404);
    let delete = async |headers: &str| web.ask("DELETE", "/v1/records/api.one.test", headers, b"").await.status;
    assert_eq!(delete("If-Match: \"2\"\r\n").await, 412);
    assert_eq!(delete("If-Match: \"3\"\r\n").await, 204);
    assert_eq!(web.get("/v1/records/api.one.test").await.status, 404);
}

#[tokio::test]
async fn records_of_others_and_records_for_workers_are_refused() {
    let body = br#"{"values": ["10.0.0.2"]}"#;
    let cases = [
        (Role::Master, "api.one.test", 200),
        (Role::Bootstrap, "api.one.test", 200),
        (Role::Worker, "api.one.test", 403),
        (Role::Master, "api.two.test", 403),
        (Role::Master, "api.stone.test", 403),
        (Role::Master, "API.one.test", 400),
    ];
    for (role, name, status) in cases {
        let answer = web(role).await.ask("PUT", &format!("/v1/records/{name}"), "", body).await;
        assert_eq!(answer.status, status, "{role} {name}");
    }
}

#[tokio::test]
async fn a_machine_stages_its_next_operating_system() {
    let web = web(Role::Worker).await;
    let next = json!({"version": "1.1", "size": 7, "digest": "sha256:00"});
    assert_eq!(web.get("/v1/os").await.json(), json!({"current": "1.0", "next": next}));
    for (body, version) in [(&b""[..], "1.1"), (br#"{"version": "1.2"}"#, "1.2")] {
        let answer = web.ask("POST", "/v1/os/stage", "", body).await;
        assert!(answer.body.ends_with(b"{\"state\":\"staged\"}\n"), "{answer:?}");
        assert_eq!(web.get("/v1/os").await.json()["staged"], version);
    }
}

#[tokio::test]
async fn bad_requests_get_clear_answers_and_the_service_lives_on() {
    let web = web(Role::Master).await;
    let large = vec![b' '; 10 << 20];
    let long = format!("/v1/tokens/{}", "a".repeat(64));
    let cases: &[(&str, &str, &[u8], u16)] = &[
        ("GET", "/", b"", 404),
        ("GET", "/v1", b"", 404),
        ("GET", "/latest/meta-data", b"", 404),
        ("POST", "/v1/identity", b"", 405),
        ("DELETE", "/v1/volumes", b"", 405),
        ("GET", "/v1/tokens/JOIN", b"", 400),
        ("GET", &long, b"", 400),
        ("PUT", "/v1/records/a.one.test", b"", 400),
        ("PUT", "/v1/records/a.one.test", b"{", 400),
        ("PUT", "/v1/records/a.one.test", br#"{"values": "x"}"#, 400),
        ("PUT", "/v1/records/a.one.test", br#"{"values": [], "extra": 1}"#, 400),
        ("PUT", "/v1/records/a.one.test", br#"{"values": [], "type": "MX"}"#, 400),
        ("PUT", "/v1/records/a.one.test", &large, 413),
        ("POST", "/v1/os/stage", &large[..(64 << 10) + 1], 413),
        ("POST", "/v1/os/stage", br#"{"versions": []}"#, 400),
    ];
    for (method, path, body, status) in cases {
        let answer = web.ask(method, path, "", body).await;
        assert_eq!(error(&answer).0, *status, "{method} {path}");
    }
    assert_eq!(web.get("/v1/identity").await.status, 200);
}
