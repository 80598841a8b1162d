//! What the manifests promise: the API of their version accepts every object, texts of a spec stay texts, and the
//! rules for static pods hold, in every kind of cluster.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed, in its helpers too")]
use std::collections::BTreeMap;
use std::sync::LazyLock;

use jsonschema::Validator;
use proptest::prelude::*;
use serde_json::{Value, json};
use windlass_assets::Manifests;
use windlass_assets::manifest::{Group, Object, objects};
use windlass_spec::complete::components::arguments;
use windlass_spec::file::{NetworkPlugin, Topology, read_and_complete};
use windlass_spec::{CompleteSpec, KubeVersion};

/// The API of a version: a validator for each kind that windlass writes.
struct Api {
    kinds: BTreeMap<(String, String), Validator>,
}

impl Api {
    fn of(version: KubeVersion) -> Api {
        let text = match version {
            KubeVersion::V1_36_3 => include_str!("../data/openapi-1.36.3.json"),
            KubeVersion::V1_35_4 => include_str!("../data/openapi-1.35.4.json"),
        };
        let schema: Value = serde_json::from_str(text).unwrap();
        let mut kinds = BTreeMap::new();
        for (name, definition) in schema["definitions"].as_object().unwrap() {
            for mark in definition["x-kubernetes-group-version-kind"].as_array().into_iter().flatten() {
                let (group, version) = (mark["group"].as_str().unwrap(), mark["version"].as_str().unwrap());
                let api_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
                let root = json!({"$schema": "http://json-schema.org/draft-07/schema#", "$ref": format!("#/definitions/{name}"), "definitions": schema["definitions"]});
                let validator = jsonschema::validator_for(&root).unwrap();
                kinds.insert((api_version, mark["kind"].as_str().unwrap().to_owned()), validator);
            }
        }
        Api { kinds }
    }

    /// The same API once a definition has been applied to it.
    fn with(mut self, definition: &Value) -> Api {
        let names = &definition["spec"];
        for version in names["versions"].as_array().unwrap() {
            let mut schema = version["schema"]["openAPIV3Schema"].clone();
            let properties = schema["properties"].as_object_mut().unwrap();
            for field in ["apiVersion", "kind"] {
                properties.insert(field.to_owned(), json!({"type": "string"}));
            }
            properties.insert("metadata".to_owned(), json!({"type": "object"}));
            close(&mut schema);
            let api_version = format!("{}/{}", names["group"].as_str().unwrap(), version["name"].as_str().unwrap());
            let kind = names["names"]["kind"].as_str().unwrap().to_owned();
            self.kinds.insert((api_version, kind), jsonschema::validator_for(&schema).unwrap());
        }
        self
    }

    fn problems(&self, object: &Object) -> Vec<String> {
        let Some(validator) = self.kinds.get(&(object.api_version.clone(), object.kind.clone())) else {
            return vec![format!("{} {} is not a kind of the API", object.api_version, object.kind)];
        };
        validator.iter_errors(&object.body).map(|e| format!("{}: {e}", e.instance_path())).collect()
    }
}

/// Refuses what the API would silently drop.
fn close(schema: &mut Value) {
    if let Some(fields) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        fields.iter_mut().filter(|(name, _)| *name != "metadata").for_each(|(_, field)| close(field));
        schema["additionalProperties"] = false.into();
    }
    if let Some(items) = schema.get_mut("items") {
        close(items);
    }
}

fn spec(text: &str) -> CompleteSpec {
    read_and_complete(text.as_bytes()).unwrap_or_else(|problems| panic!("{problems}")).1
}

fn plain(extra: &str) -> CompleteSpec {
    spec(&format!(
        "apiVersion: windlass.dev/v1alpha1\nkind: Cluster\nmetadata:\n  name: demo\nspec:\n  domain: demo.test\n{extra}"
    ))
}

/// A cluster with its manifests and what is in them.
struct Cluster {
    spec: CompleteSpec,
    manifests: Manifests,
    objects: Vec<(String, Object)>,
}

impl Cluster {
    fn of(spec: CompleteSpec) -> Cluster {
        let manifests = Manifests::make(&spec).unwrap();
        let objects = all_objects(&manifests);
        Cluster { spec, manifests, objects }
    }
}

/// A cluster that says nothing about itself.
static DEFAULT: LazyLock<Cluster> = LazyLock::new(|| Cluster::of(plain("")));

/// Every kind of cluster: versions × topologies × plugins × one and three masters.
static CLUSTERS: LazyLock<Vec<Cluster>> = LazyLock::new(|| {
    let mut list = Vec::new();
    for version in KubeVersion::ALL {
        for topology in Topology::WORDS {
            for plugin in NetworkPlugin::WORDS {
                for masters in [1, 3] {
                    list.push(Cluster::of(plain(&format!(
                        "  kubernetesVersion: {version}\n  topology: {topology}\n  network:\n    plugin: {plugin}\n  masters: {masters}\n  workers: 2\n"
                    ))));
                }
            }
        }
    }
    assert_eq!(list.len(), 16);
    list
});

fn describe(cluster: &Cluster) -> String {
    let s = &cluster.spec.spec;
    format!("{} {} {}", s.kubernetes_version, s.topology, s.network.plugin)
}

fn all_objects(manifests: &Manifests) -> Vec<(String, Object)> {
    let read = |(path, text): (&str, &str)| {
        let list = objects(path, text).unwrap_or_else(|e| panic!("{path}: {e:?}"));
        assert!(!list.is_empty(), "{path} holds no object");
        list.into_iter().map(|o| (path.to_owned(), o)).collect::<Vec<_>>()
    };
    manifests.files().flat_map(read).collect()
}

fn one<'a>(objects: &'a [(String, Object)], kind: &str, name: &str) -> &'a Value {
    let found: Vec<_> = objects.iter().filter(|(_, o)| o.kind == kind && o.name == name).collect();
    assert_eq!(found.len(), 1, "{kind} {name}");
    &found[0].1.body
}

/// The pod that an object is or makes.
fn pod_of(object: &Object) -> Option<&Value> {
    match object.kind.as_str() {
        "Pod" => object.body.get("spec"),
        "DaemonSet" | "Deployment" => object.body.pointer("/spec/template/spec"),
        _ => None,
    }
}

fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    ["initContainers", "containers"].into_iter().flat_map(|key| pod[key].as_array().into_iter().flatten())
}

/// Pods that run, or may be copied, as static ones.
fn copied(objects: &[(String, Object)]) -> impl Iterator<Item = (&str, &Object)> {
    let mark = "/spec/template/metadata/annotations/windlass.dev~1checkpoint";
    let wanted = move |o: &Object| o.kind == "Pod" || o.body.pointer(mark).is_some_and(|mark| mark == "true");
    objects.iter().filter(move |(_, o)| wanted(o)).map(|(path, o)| (path.as_str(), o))
}

#[test]
fn the_api_accepts_every_object_of_every_cluster() {
    let definition = one(&DEFAULT.objects, "CustomResourceDefinition", "addons.windlass.dev");
    let apis: BTreeMap<KubeVersion, Api> =
        KubeVersion::ALL.into_iter().map(|v| (v, Api::of(v).with(definition))).collect();
    let mut checked = 0;
    for cluster in CLUSTERS.iter() {
        let api = &apis[&cluster.spec.spec.kubernetes_version];
        for (path, object) in &cluster.objects {
            let problems = api.problems(object);
            assert!(
                problems.is_empty(),
                "{}, {path}, {} {}: {problems:#?}",
                describe(cluster),
                object.kind,
                object.name
            );
            checked += 1;
        }
    }
    assert!(checked > 300, "only {checked} objects were looked at");
}

#[test]
fn the_same_check_refuses_what_is_wrong() {
    let api = Api::of(KubeVersion::DEFAULT);
    let objects = &DEFAULT.objects;
    let (_, good) = objects.iter().find(|(_, o)| o.kind == "DaemonSet" && o.name == "kube-apiserver").unwrap();
    assert_eq!(api.problems(good), Vec::<String>::new());
    for (pointer, key, value) in [
        ("", "unknown", json!(1)),
        ("/metadata", "nmae", json!("x")),
        ("/spec/template/spec", "hostNetwrok", json!(true)),
        ("/spec/template/spec", "hostNetwork", json!("true")),
        ("/spec/template/spec", "containers", json!({})),
        ("/spec/template/spec/containers/0", "command", json!("kube-apiserver")),
        ("/spec/template/spec/containers/0", "image", Value::Null),
        ("/spec/template/spec/containers/0/readinessProbe", "periodSeconds", json!("1")),
        ("/spec/template/spec/containers/0/readinessProbe", "periodSeconds", json!(1_u64 << 40)),
        ("/spec/template/spec/containers/0/readinessProbe/httpGet", "port", json!(true)),
        ("/spec/template/spec/containers/0/resources/requests", "cpu", json!("a lot")),
        ("/metadata", "creationTimestamp", json!("yesterday")),
    ] {
        let mut bad = good.clone();
        bad.body.pointer_mut(pointer).unwrap()[key] = value;
        assert_ne!(api.problems(&bad), Vec::<String>::new(), "{pointer}/{key}");
    }
    let mut bad = good.clone();
    bad.body["spec"].as_object_mut().unwrap().remove("selector");
    assert_ne!(api.problems(&bad), Vec::<String>::new(), "a required field is missing");
}

#[test]
fn each_topology_has_its_manifests() {
    let paths = |extra: &str| -> Vec<String> {
        Manifests::make(&plain(extra)).unwrap().files().map(|(path, _)| path.to_owned()).collect()
    };
    let self_hosted = [
        "addons/coredns.yaml",
        "addons/dashboard.yaml",
        "addons/flannel.yaml",
        "addons/kube-proxy.yaml",
        "addons/runtime-mappings.yaml",
        "bootstrap/bootstrap-kube-apiserver.yaml",
        "bootstrap/bootstrap-kube-controller-manager.yaml",
        "bootstrap/bootstrap-kube-scheduler.yaml",
        "control-plane/addon-definition.yaml",
        "control-plane/checkpointer.yaml",
        "control-plane/csr-approver.yaml",
        "control-plane/kube-apiserver.yaml",
        "control-plane/kube-controller-manager.yaml",
        "control-plane/kube-scheduler.yaml",
        "control-plane/machine-config-server.yaml",
        "control-plane/rbac.yaml",
        "master/etcd.yaml",
    ];
    assert_eq!(paths(""), self_hosted);
    let volumes = [
        "addons/addon-definition.yaml",
        "addons/dns-controller.yaml",
        "addons/kube-proxy.yaml",
        "addons/rbac.yaml",
        "addons/runtime-mappings.yaml",
        "master/etcd.yaml",
        "master/kube-apiserver.yaml",
        "master/kube-controller-manager.yaml",
        "master/kube-scheduler.yaml",
    ];
    let bare = "  topology: volumes\n  network: {plugin: none}\n  addons:\n    coreDNS: {enabled: false}\n    dashboard: {enabled: false}\n";
    assert_eq!(paths(bare), volumes);
}

#[test]
fn groups_list_their_files_and_objects() {
    let manifests = Manifests::make(&plain("")).unwrap();
    let names: Vec<&str> = manifests.group(Group::Master).map(|(name, _)| name).collect();
    assert_eq!(names, ["etcd.yaml"]);
    let all: usize = Group::ALL.iter().map(|g| manifests.objects(*g).unwrap().len()).sum();
    assert_eq!(all, all_objects(&manifests).len());
}

#[test]
fn the_same_spec_gives_the_same_bytes_and_reads_back() {
    for cluster in CLUSTERS.iter() {
        let made = &cluster.manifests;
        assert_eq!(*made, Manifests::make(&spec(&cluster.spec.to_yaml())).unwrap());
        let files = made.files().map(|(path, text)| (path.to_owned(), text.to_owned()));
        assert_eq!(Manifests::from_files(files).unwrap(), *made);
    }
}

#[test]
fn an_edit_that_is_no_manifest_is_refused_with_its_path() {
    let broken = [("addons/coredns.yaml".to_owned(), "kind: [".to_owned())];
    assert!(Manifests::from_files(broken).unwrap_err().to_string().contains("addons/coredns.yaml"));
    let outside = [("../coredns.yaml".to_owned(), String::new())];
    assert!(Manifests::from_files(outside).is_err());
}

#[test]
fn the_dashboard_can_list_and_nothing_else() {
    let objects = &DEFAULT.objects;
    let rules = one(objects, "ClusterRole", "windlass:dashboard")["rules"].as_array().unwrap().clone();
    assert!(rules.iter().all(|rule| rule["verbs"] == json!(["list"])), "{rules:?}");
    let resources: Vec<&Value> = rules.iter().flat_map(|rule| rule["resources"].as_array().unwrap()).collect();
    assert!(resources.contains(&&json!("addons")) && !resources.contains(&&json!("secrets")), "{resources:?}");
    let container = |objects: &[(String, Object)]| {
        one(objects, "Deployment", "dashboard")["spec"]["template"]["spec"]["containers"][0].clone()
    };
    assert_eq!(container(objects)["command"], json!(["/windlass-node", "dashboard"]));
    let other = Manifests::make(&plain("  addons: {dashboard: {image: example.org/page:1}}\n")).unwrap();
    let other = container(&all_objects(&other));
    assert_eq!(
        (&other["image"], other.get("command"), other.get("readinessProbe")),
        (&json!("example.org/page:1"), None, None)
    );
}

#[test]
fn no_object_is_there_twice() {
    for cluster in CLUSTERS.iter() {
        let mut seen = BTreeMap::new();
        for (path, o) in &cluster.objects {
            let key = (&o.kind, &o.namespace, &o.name);
            if let Some(first) = seen.insert(key, path) {
                panic!("{}: {key:?} is in {first} and {path}", describe(cluster));
            }
        }
    }
}

#[test]
fn every_add_on_names_workloads_that_it_has() {
    for cluster in CLUSTERS.iter() {
        let addons: Vec<_> = cluster.objects.iter().filter(|(_, o)| o.kind == "Addon").collect();
        let with_workloads: Vec<&str> = cluster
            .objects
            .iter()
            .filter(|(path, o)| path.starts_with("addons/") && pod_of(o).is_some())
            .map(|(path, _)| path.as_str())
            .collect();
        assert_eq!(
            addons.iter().map(|(path, _)| path.as_str()).collect::<Vec<_>>(),
            with_workloads,
            "{}",
            describe(cluster)
        );
        for (path, addon) in addons {
            assert_eq!(*path, format!("addons/{}.yaml", addon.name));
            for workload in addon.body["spec"]["workloads"].as_array().unwrap() {
                let is_it = |o: &Object| {
                    workload["kind"] == o.kind.as_str()
                        && workload["name"] == o.name.as_str()
                        && workload["namespace"].as_str() == o.namespace.as_deref()
                };
                assert!(cluster.objects.iter().any(|(at, o)| at == path && is_it(o)), "{path}: {workload}");
            }
        }
    }
}

#[test]
fn the_definition_of_add_ons_refuses_what_nobody_could_judge() {
    let definition = one(&DEFAULT.objects, "CustomResourceDefinition", "addons.windlass.dev");
    let api = Api::of(KubeVersion::DEFAULT).with(definition);
    let (_, good) = DEFAULT.objects.iter().find(|(_, o)| o.kind == "Addon").unwrap();
    let condition = json!({"type": "Done", "status": "True", "reason": "RolledOut", "message": "", "lastTransitionTime": "2026-11-16T03:00:00Z"});
    for (pointer, value, accepted) in [
        ("/spec/workloads/0/kind", json!("Deployment"), true),
        ("/spec/workloads/0/kind", json!("Job"), false),
        ("/spec/workloads", json!([]), false),
        ("/spec/workloads/0", json!({"kind": "DaemonSet", "name": "a"}), false),
        ("/spec", json!({}), false),
        ("/status", json!({"conditions": [condition]}), true),
        ("/status", json!({"conditions": [{"type": "Done", "status": "True"}]}), false),
        ("/status", json!({"phase": "Done"}), false),
    ] {
        let mut object = good.clone();
        object.body["status"] = json!({});
        *object.body.pointer_mut(pointer).unwrap() = value.clone();
        assert_eq!(api.problems(&object).is_empty(), accepted, "{pointer} {value}");
    }
}

/// The rules by which the twins and the approver live, so that another right has to be argued for here too.
#[test]
fn the_twins_have_the_rights_they_need_and_no_others() {
    let rights = |kind: &str, name: &str| -> Vec<String> {
        let rules = one(&DEFAULT.objects, kind, name)["rules"].as_array().unwrap().clone();
        let words = |rule: &Value, key: &str| {
            let list = rule[key].as_array().into_iter().flatten();
            list.map(|w| w.as_str().unwrap()).collect::<Vec<_>>().join(",")
        };
        let line = |rule: &Value| {
            format!("{} {} [{}]", words(rule, "verbs"), words(rule, "resources"), words(rule, "resourceNames"))
        };
        rules.iter().map(line).collect()
    };
    let etcd = "windlass.dev/etcd-peer,windlass.dev/etcd-server";
    let kubelet = "kubernetes.io/kube-apiserver-client-kubelet,kubernetes.io/kubelet-serving";
    assert_eq!(rights("ClusterRole", "windlass:machine-config-server"), ["get nodes []"]);
    assert_eq!(rights("Role", "windlass:machine-config-server"), ["get,patch configmaps [windlass-burnt-tokens]"]);
    let approver = [
        "get,list,watch certificatesigningrequests []".to_owned(),
        "update certificatesigningrequests/approval,certificatesigningrequests/status []".to_owned(),
        format!("approve signers [{kubelet},{etcd}]"),
        format!("sign signers [{etcd}]"),
        "get,list,watch,patch nodes []".to_owned(),
    ];
    assert_eq!(rights("ClusterRole", "windlass:csr-approver"), approver);
    let burnt = ["get,list,watch,patch configmaps [windlass-burnt-tokens]", "create configmaps []"];
    assert_eq!(rights("Role", "windlass:csr-approver"), burnt);
}

#[test]
fn the_twins_run_on_every_master_before_there_is_a_network() {
    for name in ["machine-config-server", "csr-approver"] {
        let body = one(&DEFAULT.objects, "DaemonSet", name);
        let pod = &body["spec"]["template"]["spec"];
        assert_eq!(pod["nodeSelector"], json!({"node-role.kubernetes.io/control-plane": ""}));
        assert_eq!(pod["tolerations"], json!([{"operator": "Exists"}]));
        assert_eq!((&pod["hostNetwork"], &pod["dnsPolicy"]), (&json!(true), &json!("Default")));
        assert_eq!(pod["priorityClassName"], "system-node-critical");
        let container = &pod["containers"][0];
        assert_eq!(container["command"].as_array().unwrap()[..2], [json!("/windlass-node"), json!(name)]);
        assert_eq!(container["env"][0]["value"], "api.internal.demo.test");
        assert_eq!(container["securityContext"]["capabilities"], json!({"drop": ["ALL"]}));
        assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true);
        assert!(container["volumeMounts"].as_array().unwrap().iter().all(|m| m["readOnly"] == true));
        let secret = pod["volumes"].as_array().unwrap().iter().find_map(|v| v.get("secret")).unwrap();
        assert!(["machine-config", "csr-approver"].contains(&secret["secretName"].as_str().unwrap()));
        assert!(secret["defaultMode"].as_u64().unwrap() & 0o337 == 0, "{name}: nobody else reads or writes it");
    }
}

/// What `HasAPIObjectReference` of the kubelet looks for, and then refuses the pod.
#[test]
fn pods_that_may_be_static_name_nothing_of_the_api() {
    for cluster in CLUSTERS.iter() {
        let objects = &cluster.objects;
        assert!(copied(objects).count() >= 4);
        for (path, object) in copied(objects) {
            let pod = pod_of(object).unwrap();
            for field in ["serviceAccountName", "serviceAccount", "imagePullSecrets", "resourceClaims"] {
                assert!(pod.get(field).is_none(), "{path} names {field}");
            }
            for volume in pod["volumes"].as_array().into_iter().flatten() {
                let sources: Vec<&String> = volume.as_object().unwrap().keys().filter(|k| *k != "name").collect();
                assert_eq!(sources, ["hostPath"], "{path}: {volume}");
            }
            for container in containers(pod) {
                assert!(container.get("envFrom").is_none(), "{path}");
                for variable in container["env"].as_array().into_iter().flatten() {
                    let from = variable.get("valueFrom").map(|f| f.as_object().unwrap().keys().collect::<Vec<_>>());
                    assert!(from.is_none_or(|f| f == ["fieldRef"]), "{path}: {variable}");
                }
            }
            if object.kind != "Pod" {
                assert_eq!(pod["automountServiceAccountToken"], false, "{path}");
            }
        }
    }
}

#[test]
fn control_plane_pods_may_overlap_and_run_anywhere() {
    for cluster in CLUSTERS.iter() {
        let objects = &cluster.objects;
        for (path, object) in copied(objects) {
            let pod = pod_of(object).unwrap();
            assert_eq!(pod["hostNetwork"], true, "{path}");
            assert_eq!(pod["tolerations"], json!([{"operator": "Exists"}]), "{path}");
            for container in containers(pod) {
                assert!(container.get("ports").is_none(), "{path} declares ports");
                assert_eq!(container["imagePullPolicy"], "IfNotPresent", "{path}");
                assert_eq!(container["securityContext"]["capabilities"]["drop"], json!(["ALL"]), "{path}");
            }
            let strategy = ["/spec/updateStrategy/rollingUpdate", "/spec/strategy/rollingUpdate"];
            let update = strategy.iter().find_map(|pointer| object.body.pointer(pointer));
            if object.kind != "Pod" {
                assert_eq!(update, Some(&json!({"maxSurge": 0, "maxUnavailable": 1})), "{path}");
            }
        }
    }
}

/// Kubelets check the selectors of static pods too, and the label comes later than the pods.
#[test]
fn static_pods_select_no_nodes() {
    for cluster in CLUSTERS.iter() {
        for (path, object) in &cluster.objects {
            if object.kind == "Pod" {
                assert!(
                    object.body["spec"].get("nodeSelector").is_none() && object.body["spec"].get("affinity").is_none(),
                    "{path}"
                );
            }
        }
    }
}

#[test]
fn what_the_flags_name_is_mounted() {
    let extra = "  components:\n    kubeAPIServer:\n      flags:\n        encryption-provider-config: /etc/kubernetes/encryption.yaml\n    etcd:\n      flags:\n        wal-dir: /var/lib/etcd-wal\n";
    let mut looked = 0;
    for cluster in CLUSTERS.iter().chain([&Cluster::of(plain(extra))]) {
        let objects = &cluster.objects;
        for (path, object) in copied(objects) {
            let pod = pod_of(object).unwrap();
            for container in pod["containers"].as_array().unwrap() {
                looked += check_mounts(path, pod, container);
            }
        }
    }
    assert!(looked > 500, "only {looked} paths were looked at");
}

/// Every path in a container's command is a mount or below one, and every mount has its volume at the same path.
fn check_mounts(path: &str, pod: &Value, container: &Value) -> usize {
    let mounts = || container["volumeMounts"].as_array().into_iter().flatten();
    for mount in mounts() {
        let volume = pod["volumes"].as_array().unwrap().iter().find(|v| v["name"] == mount["name"]);
        assert_eq!(volume.unwrap()["hostPath"]["path"], mount["mountPath"], "{path}");
    }
    let words = container["command"].as_array().unwrap().iter().filter_map(Value::as_str);
    let values = words.filter_map(|w| w.split_once('=')).flat_map(|(_, value)| value.split(','));
    let roots = ["/etc/", "/var/"];
    let named: Vec<&str> = values.filter(|v| roots.iter().any(|r| v.starts_with(r))).collect();
    for file in &named {
        let holds = |at: &str| file.strip_prefix(at).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        assert!(mounts().any(|m| holds(m["mountPath"].as_str().unwrap())), "{path}: {file} is not mounted");
    }
    named.len()
}

#[test]
fn the_scheduler_sees_its_kubeconfig_and_no_key() {
    let objects = &DEFAULT.objects;
    let deployment = one(objects, "Deployment", "kube-scheduler");
    let volumes = deployment["spec"]["template"]["spec"]["volumes"].as_array().unwrap();
    let paths: Vec<&Value> = volumes.iter().map(|v| &v["hostPath"]["path"]).collect();
    assert_eq!(paths, ["/etc/kubernetes/scheduler.kubeconfig"]);
}

#[test]
fn an_api_server_uses_the_etcd_of_its_own_machine_and_the_bootstrap_machine_that_of_all_masters() {
    let servers = |extra: &str, kind: &str, name: &str| -> String {
        let objects = all_objects(&Manifests::make(&plain(extra)).unwrap());
        let object = one(&objects, kind, name);
        let pod = if kind == "Pod" { &object["spec"] } else { &object["spec"]["template"]["spec"] };
        let words: Vec<String> = serde_json::from_value(pod["containers"][0]["command"].clone()).unwrap();
        words.iter().find_map(|word| word.strip_prefix("--etcd-servers=")).unwrap().to_owned()
    };
    assert_eq!(servers("", "DaemonSet", "kube-apiserver"), "https://127.0.0.1:2379");
    let bootstrap = servers("", "Pod", "bootstrap-kube-apiserver");
    let members: Vec<&str> = bootstrap.split(',').collect();
    assert_eq!(members.len(), 3, "{bootstrap}");
    assert!((0..3).all(|i| members[i].starts_with(&format!("https://etcd-{i}.internal."))), "{bootstrap}");
    let own = "  components: {kubeAPIServer: {flags: {etcd-servers: 'https://etcd.example:2379'}}}\n";
    for (kind, name) in [("DaemonSet", "kube-apiserver"), ("Pod", "bootstrap-kube-apiserver")] {
        assert_eq!(servers(own, kind, name), "https://etcd.example:2379");
    }
}

#[test]
fn the_temporary_controller_manager_begins_with_what_masters_need_to_join() {
    let controllers = |extra: &str, name: &str| -> Vec<String> {
        let objects = all_objects(&Manifests::make(&plain(extra)).unwrap());
        let (pod, hosted) = (format!("bootstrap-{name}"), one(&objects, "Deployment", name).clone());
        let of = |spec: &Value| -> String {
            let words: Vec<String> = serde_json::from_value(spec["containers"][0]["command"].clone()).unwrap();
            words.iter().find_map(|word| word.strip_prefix("--controllers=")).unwrap().to_owned()
        };
        vec![of(&one(&objects, "Pod", &pod)["spec"]), of(&hosted["spec"]["template"]["spec"])]
    };
    let decided = controllers("", "kube-controller-manager");
    assert!(decided[0].contains("certificatesigningrequest-signing-controller"), "{decided:?}");
    assert!(!decided[0].contains('*'), "{decided:?}");
    assert_eq!(decided[1], "*,bootstrapsigner,tokencleaner");
    let own = "  components: {kubeControllerManager: {flags: {controllers: '*'}}}\n";
    assert_eq!(controllers(own, "kube-controller-manager"), ["*", "*"]);
}

#[test]
fn bootstrap_programs_hold_short_leases_unless_the_spec_speaks_of_them() {
    let command = |extra: &str, name: &str| -> Vec<String> {
        let objects = all_objects(&Manifests::make(&plain(extra)).unwrap());
        serde_json::from_value(one(&objects, "Pod", name)["spec"]["containers"][0]["command"].clone()).unwrap()
    };
    for name in ["bootstrap-kube-controller-manager", "bootstrap-kube-scheduler"] {
        let words = command("", name);
        for flag in
            ["--leader-elect-lease-duration=6s", "--leader-elect-renew-deadline=4s", "--leader-elect-retry-period=1s"]
        {
            assert!(words.iter().any(|w| w == flag), "{name} has no {flag}");
        }
    }
    let written =
        "  components: {kubeScheduler: {flags: {leader-elect-lease-duration: 20s, leader-elect-retry-period: null}}}\n";
    let words = command(written, "bootstrap-kube-scheduler");
    assert!(words.contains(&"--leader-elect-lease-duration=20s".to_owned()));
    assert!(!words.iter().any(|w| w.starts_with("--leader-elect-retry-period")));
    assert!(!command("", "bootstrap-kube-apiserver").iter().any(|w| w.starts_with("--leader-elect")));
}

#[test]
fn every_flag_of_the_spec_is_passed() {
    let objects = &DEFAULT.objects;
    let components = &DEFAULT.spec.spec.components;
    for (kind, name, flags) in [
        ("DaemonSet", "kube-apiserver", &components.kube_api_server.flags),
        ("Deployment", "kube-controller-manager", &components.kube_controller_manager.flags),
        ("Deployment", "kube-scheduler", &components.kube_scheduler.flags),
        ("DaemonSet", "kube-proxy", &components.kube_proxy.flags),
    ] {
        let container = &one(objects, kind, name)["spec"]["template"]["spec"]["containers"][0];
        let words: Vec<String> = serde_json::from_value(container["command"].clone()).unwrap();
        assert_eq!(words[0], name);
        assert_eq!(words[1..], arguments(flags));
    }
}

#[test]
fn replicas_follow_the_masters() {
    for (masters, replicas) in [(1, 1), (3, 3), (5, 3)] {
        let objects = all_objects(&Manifests::make(&plain(&format!("  masters: {masters}\n"))).unwrap());
        for name in ["kube-controller-manager", "kube-scheduler"] {
            assert_eq!(one(&objects, "Deployment", name)["spec"]["replicas"], replicas);
            // A budget that allows nothing would hold up every drain.
            assert_eq!(one(&objects, "PodDisruptionBudget", name)["spec"]["maxUnavailable"], 1);
        }
    }
}

#[test]
fn the_api_servers_names_are_published_in_topology_volumes() {
    let objects = all_objects(&Manifests::make(&plain("  topology: volumes\n")).unwrap());
    let annotations = &one(&objects, "Pod", "kube-apiserver")["metadata"]["annotations"];
    assert_eq!(annotations["dns.alpha.kubernetes.io/external"], "api.demo.test");
    assert_eq!(annotations["dns.alpha.kubernetes.io/internal"], "api.internal.demo.test");
    assert!(one(&objects, "Pod", "kube-scheduler")["metadata"].get("annotations").is_none());
}

#[test]
fn configuration_inside_manifests_can_be_read() {
    let objects = &DEFAULT.objects;
    let read = |text: &Value| {
        windlass_spec::yaml::read(text.as_str().unwrap().as_bytes(), &windlass_spec::yaml::Budget::SPEC)
            .unwrap()
            .to_json()
    };
    let proxy = &one(objects, "ConfigMap", "kube-proxy")["data"];
    assert_eq!(read(&proxy["config.yaml"])["kind"], "KubeProxyConfiguration");
    assert_eq!(read(&proxy["config.yaml"])["mode"], "nftables");
    assert_eq!(read(&proxy["kubeconfig"])["clusters"][0]["cluster"]["server"], "https://api.internal.demo.test:6443");
    let flannel = one(objects, "ConfigMap", "kube-flannel-cfg")["data"]["net-conf.json"].as_str().unwrap();
    let flannel: Value = serde_json::from_str(flannel).unwrap();
    assert_eq!(flannel, json!({"Network": "10.244.0.0/16", "EnableNFTables": true, "Backend": {"Type": "vxlan"}}));
    let mappings = &one(objects, "ConfigMap", "tectonic-torcx-runtime-mappings")["data"]["runtime-mappings.yaml"];
    assert_eq!(read(mappings)["kubernetes"]["1.36"]["containerd"], "2.2.9");
    assert_eq!(one(objects, "Service", "kube-dns")["spec"]["clusterIP"], "10.96.0.10");
}

#[test]
fn etcd_is_one_file_for_all_masters() {
    for cluster in CLUSTERS.iter() {
        let objects = &cluster.objects;
        let pod = &one(objects, "Pod", "etcd")["spec"];
        assert_eq!(pod["initContainers"][0]["command"], json!(["/windlass-node", "etcd-certs"]));
        for container in containers(pod) {
            let value = |name: &str| container["env"].as_array().unwrap().iter().find(|v| v["name"] == name).unwrap();
            assert_eq!(value("ETCD_INDEX")["value"], "@ETCD_INDEX@");
            assert_eq!(value("MACHINE_ADDRESS")["valueFrom"]["fieldRef"]["fieldPath"], "status.hostIP");
            assert_eq!(value("MACHINE_NAME")["valueFrom"]["fieldRef"]["fieldPath"], "spec.nodeName");
        }
        // The index stands in the variable alone, so that filling it in is one replacement.
        let (_, text) = cluster.manifests.group(Group::Master).find(|(n, _)| *n == "etcd.yaml").unwrap();
        assert_eq!((text.matches("@ETCD_INDEX@").count(), text.matches("value: \"@ETCD_INDEX@\"").count()), (2, 2));
    }
}

#[test]
fn no_manifest_holds_a_key_or_a_secret() {
    for cluster in CLUSTERS.iter() {
        for (path, text) in cluster.manifests.files() {
            assert!(!text.contains("PRIVATE KEY") && !text.contains("kind: Secret"), "{path}");
        }
    }
}

/// A spec whose texts are as hostile as the spec lets them be.
fn hostile(text: &str) -> CompleteSpec {
    let mut cluster = plain("");
    let components = &mut cluster.spec.components;
    for flags in [
        &mut components.kube_api_server.flags,
        &mut components.kube_controller_manager.flags,
        &mut components.kube_scheduler.flags,
        &mut components.kube_proxy.flags,
        &mut components.etcd.flags,
    ] {
        flags.insert("hostile".to_owned(), text.into());
    }
    cluster.spec.images.core_dns = text.to_owned();
    cluster.spec.images.windlass_node = text.to_owned();
    components.kube_proxy.config.insert("hostile".to_owned(), text.into());
    // What is read again as a spec has passed the spec's own checks; these fields take any text.
    cluster
}

fn check_hostile(text: &str) {
    let good = &DEFAULT.objects;
    let objects = all_objects(&Manifests::make(&hostile(text)).unwrap());
    let names = |list: &[(String, Object)]| {
        list.iter().map(|(p, o)| (p.clone(), o.kind.clone(), o.name.clone())).collect::<Vec<_>>()
    };
    assert_eq!(names(&objects), names(good), "{text:?} became structure");
    let wanted = format!("--hostile={text}");
    let mut found = 0;
    for (_, object) in &objects {
        for container in pod_of(object).into_iter().flat_map(containers) {
            found += container["command"].as_array().into_iter().flatten().filter(|w| **w == wanted).count();
        }
    }
    assert_eq!(found, 8, "{text:?} did not arrive everywhere");
    assert_eq!(one(&objects, "Deployment", "coredns")["spec"]["template"]["spec"]["containers"][0]["image"], text);
    let config = one(&objects, "ConfigMap", "kube-proxy")["data"]["config.yaml"].as_str().unwrap();
    let config = windlass_spec::yaml::read(config.as_bytes(), &windlass_spec::yaml::Budget::SPEC).unwrap().to_json();
    assert_eq!(config["hostile"], text);
}

#[test]
fn hostile_texts_stay_texts() {
    for text in [
        "plain",
        "",
        "\"",
        "'",
        "\\",
        "a: b",
        "- x",
        "# no comment",
        "{{ image }}",
        "{% if x %}",
        "{# #}",
        "x\n---\nkind: Pod\n",
        "\n  privileged: true",
        "}\n",
        "]",
        "*alias",
        "&anchor",
        "!tag",
        "| literal",
        "yes",
        "null",
        "1e3",
        "0x10",
        "\t",
        "ü\u{1f600}",
        "$(HOST_IP)",
        "<script>",
        "%YAML 1.2",
        "...",
        "@ETCD_INDEX@",
        "trailing \n",
        " leading",
    ] {
        check_hostile(text);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn any_text_stays_a_text(text in any::<String>()) {
        check_hostile(&text);
    }
}
