//! Texts of a spec stay texts, however hostile.

use super::*;

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
