//! What is added to the bare cluster: its network, services, names, a page about it, the table by which machines choose
//! their container runtime, and what reboots them into an OS update.

use minijinja::context;
use serde_json::{Map, Value};
use windlass_spec::complete::components::{arguments, without_removed};
use windlass_spec::file::{NetworkPlugin, Reboots};
use windlass_spec::{CompleteSpec, yaml};

use super::control_plane::Rendered;
use super::probe::Endpoint;
use super::template::render as render_template;
use super::{Group, ManifestError};

/// Renders the addons that the spec asks for.
pub(super) fn render(spec: &CompleteSpec) -> Result<Vec<Rendered>, ManifestError> {
    let mut list = vec![("kube-proxy", kube_proxy(spec)?), ("runtime-mappings", runtime_mappings()?)];
    match spec.spec.network.plugin {
        NetworkPlugin::Flannel => list.push(("flannel", flannel(spec)?)),
        NetworkPlugin::None => {}
    }
    if spec.spec.addons.core_dns.enabled {
        list.push(("coredns", core_dns(spec)?));
    }
    if spec.spec.addons.dashboard.enabled {
        list.push(("dashboard", dashboard(spec)?));
    }
    match spec.spec.os_update.reboots {
        Reboots::Coordinated => list.extend([("os-update", os_update(spec)?), ("pre-reboot", pre_reboot(spec)?)]),
        Reboots::Never => {}
    }
    Ok(list.into_iter().map(|(name, text)| (Group::Addons, name.to_owned(), text)).collect())
}

fn flannel(spec: &CompleteSpec) -> Result<String, ManifestError> {
    let context = context! {
        image => spec.spec.images.flannel.as_str(),
        node_image => spec.spec.images.windlass_node.as_str(),
        pod_cidr => spec.spec.network.pod_cidr.to_string(),
        api_internal_name => spec.api_internal_name(),
    };
    render_template("addons/flannel.yaml", context)
}

fn kube_proxy(spec: &CompleteSpec) -> Result<String, ManifestError> {
    let proxy = &spec.spec.components.kube_proxy;
    let set = without_removed(&proxy.config);
    let probe = Endpoint::proxy(set.get("healthzBindAddress"));
    let mut config = Map::new();
    config.insert("apiVersion".into(), "kubeproxy.config.k8s.io/v1alpha1".into());
    config.insert("kind".into(), "KubeProxyConfiguration".into());
    config.extend(set);
    let context = context! {
        image => spec.spec.images.kube_proxy.as_str(),
        arguments => arguments(&proxy.flags),
        config => yaml::emit(&Value::Object(config)),
        server => format!("https://{}:6443", spec.api_internal_name()),
        probe_host => probe.as_ref().and_then(|p| p.host.as_deref()),
        probe_port => probe.as_ref().map(|p| p.port),
    };
    render_template("addons/kube-proxy.yaml", context)
}

fn core_dns(spec: &CompleteSpec) -> Result<String, ManifestError> {
    let context = context! {
        image => spec.spec.images.core_dns.as_str(),
        cluster_domain => spec.spec.network.cluster_domain.to_string(),
        cluster_ip => spec.spec.network.dns_service_ip.to_string(),
        replicas => spec.spec.addons.core_dns.replicas,
    };
    render_template("addons/coredns.yaml", context)
}

/// Someone else's image starts as it likes, and is asked nothing that only ours answers.
fn dashboard(spec: &CompleteSpec) -> Result<String, ManifestError> {
    let image = spec.spec.addons.dashboard.image.as_str();
    let context = context!(image => image, is_ours => image == spec.spec.images.windlass_node);
    render_template("addons/dashboard.yaml", context)
}

fn runtime_mappings() -> Result<String, ManifestError> {
    render_template("addons/runtime-mappings.yaml", context!(mappings => crate::config::runtime_mappings()))
}

fn os_update(spec: &CompleteSpec) -> Result<String, ManifestError> {
    render_template("addons/os-update.yaml", context!(image => spec.spec.images.windlass_node.as_str()))
}

fn pre_reboot(spec: &CompleteSpec) -> Result<String, ManifestError> {
    let context = context! {
        image => spec.spec.images.windlass_node.as_str(),
        api_internal_name => spec.api_internal_name(),
        manifests => format!("--torcx-manifest-url={}", spec.spec.artifacts.addon_manifest_url),
    };
    render_template("addons/pre-reboot.yaml", context)
}

#[cfg(test)]
mod tests {
    use windlass_spec::file::read_and_complete;

    use super::*;
    use crate::manifest::objects;

    #[test]
    fn the_hook_runs_only_where_a_reboot_is_about_to_be() {
        let text =
            "apiVersion: windlass.dev/v1alpha1\nkind: Cluster\nmetadata: {name: demo}\nspec: {domain: demo.test}\n";
        let (_, spec) = read_and_complete(text.as_bytes()).unwrap();
        let objects = objects("addons/pre-reboot.yaml", &pre_reboot(&spec).unwrap()).unwrap();
        let set = objects.iter().find(|object| object.kind == "DaemonSet").unwrap();
        let pod = &set.body["spec"]["template"]["spec"];
        let label = "container-linux-update.v1.coreos.com/before-reboot";
        assert_eq!(pod["nodeSelector"], serde_json::json!({ label: "true" }));
        let command = &pod["containers"][0]["command"];
        assert_eq!((&command[0], &command[1]), (&"/windlass-node".into(), &"pre-reboot".into()));
        let url = format!("--torcx-manifest-url={}", spec.spec.artifacts.addon_manifest_url);
        assert_eq!(command[2], url.as_str());
        let addon = objects.iter().find(|object| object.kind == "Addon").unwrap();
        assert_eq!(addon.body["spec"]["workloads"][0]["name"], set.name.as_str());
    }
}
