//! Whether kubelet and container runtime are to make control groups in the same way: one of two drivers that differ finds
//! nothing where the other puts it, and no pod starts.

use windlass_assets::Configs;
use windlass_assets::config::Config;
use windlass_spec::complete::components::foreign_driver;
use windlass_spec::yaml;

const KUBELETS: [Config; 3] = [Config::KubeletMaster, Config::KubeletWorker, Config::KubeletStandalone];

/// What edits of kubelets' configurations say that the runtime does not do.
pub(super) fn foreign(configs: &Configs) -> Vec<String> {
    let trouble = |config: Config| {
        let trouble = trouble(configs.text(config))?;
        Some(format!("assets/config/{}: {trouble}", config.file_name()))
    };
    KUBELETS.into_iter().filter_map(trouble).collect()
}

/// What is not YAML is refused too: the kubelet would not start with it.
fn trouble(text: &str) -> Option<String> {
    match yaml::read(text.as_bytes(), &yaml::Budget::SPEC) {
        Ok(config) => Some(format!("cgroupDriver: {}", foreign_driver(&config.get("cgroupDriver")?.to_json())?)),
        Err(problems) => problems.0.first().map(ToString::to_string),
    }
}

#[cfg(test)]
mod tests {
    use windlass_assets::{Asset as _, AssetDir};
    use windlass_spec::file::read_and_complete;
    use windlass_steps::host::{Mode, make_dir, write_file};

    use super::*;

    #[test]
    fn a_driver_that_is_not_the_runtimes_is_told_with_its_file() {
        for (text, says) in [
            ("cgroupDriver: cgroupfs\n", None),
            ("kind: KubeletConfiguration\n", None),
            ("cgroupDriver: null\n", None),
            (
                "cgroupDriver: systemd\n",
                Some("cgroupDriver: \"systemd\" is not the cgroup driver of the container runtime"),
            ),
            ("cgroupDriver: \"systemd\"\nmaxPods: 9\n", Some("use cgroupfs, or leave it out")),
            ("cgroupDriver: 5\n", Some("5 is not the cgroup driver")),
            ("cgroupDriver: [\n", Some("not YAML")),
        ] {
            let told = trouble(text);
            match says {
                None => assert_eq!(told, None, "{text}"),
                Some(says) => assert!(told.as_ref().is_some_and(|told| told.contains(says)), "{text}: {told:?}"),
            }
        }
    }

    #[test]
    fn every_edited_configuration_of_a_kubelet_is_looked_at() {
        let spec = b"apiVersion: windlass.dev/v1alpha1\nkind: Cluster\nmetadata:\n  name: demo\n";
        let (_, spec) = read_and_complete(spec).unwrap();
        let made = Configs::make(&spec);
        assert_eq!(foreign(&made), Vec::<String>::new());
        let dir = tempfile::tempdir().unwrap();
        make_dir(dir.path().join("assets/config"), Mode::PRIVATE_DIR).unwrap();
        for file in made.files() {
            let text = String::from_utf8(file.contents).unwrap();
            let edited = text.replace("cgroupDriver: cgroupfs", "cgroupDriver: systemd");
            write_file(dir.path().join(&file.path), edited, Mode::PRIVATE_FILE).unwrap();
        }
        let edited = Configs::read(&AssetDir::open(dir.path()).unwrap()).unwrap();
        let problems = foreign(&edited);
        for name in ["kubelet-master.yaml", "kubelet-worker.yaml", "kubelet-standalone.yaml"] {
            let start = format!("assets/config/{name}: cgroupDriver: \"systemd\"");
            assert!(problems.iter().any(|problem| problem.starts_with(&start)), "{name}: {problems:?}");
        }
        assert_eq!(problems.len(), 3);
    }
}
