//! What a user added to a group: files, user data and hooks.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use windlass_spec::complete::InstanceGroup;
use windlass_spec::file::{AdditionalUserData, Encoding, FileAsset, Hook, UserDataType};

use super::config::{Config, data_url};

const PROGRAM: &str = "/opt/windlass/bin/windlass-node";

/// The group's own config, if a user added anything.
pub(super) fn config(group: &InstanceGroup) -> Option<Config> {
    if group.file_assets.is_empty() && group.additional_user_data.is_empty() && group.hooks.is_empty() {
        return None;
    }
    let mut config = Config::new();
    for asset in &group.file_assets {
        config = config.file_with_mode(&asset.path, bytes(asset), mode(&asset.mode));
    }
    for data in &group.additional_user_data {
        config = add_user_data(config, data);
    }
    for hook in &group.hooks {
        config = config.unit(format!("windlass-hook-{}.service", hook.name), &hook_unit(hook), Some(true));
    }
    Some(config)
}

fn bytes(asset: &FileAsset) -> Vec<u8> {
    match asset.encoding {
        Encoding::Text => asset.content.clone().into_bytes(),
        Encoding::Base64 => STANDARD.decode(asset.content.trim()).expect("completing the spec has checked it"),
    }
}

fn mode(text: &str) -> u32 {
    u32::from_str_radix(text, 8).expect("completing the spec has checked it")
}

fn add_user_data(config: Config, data: &AdditionalUserData) -> Config {
    match data.kind {
        UserDataType::Ignition => config.merge(data_url(data.content.as_bytes()), None),
        UserDataType::Shell => {
            let script = format!("/opt/windlass/user-data/{}", data.name);
            let unit = format!(
                "[Unit]\n\
                 Description=User data {name}\n\
                 ConditionPathExists=!{script}.done\n\
                 ConditionPathExists=!/run/windlass/reboot-due\n\
                 Wants=network-online.target\n\
                 After=network-online.target k8s-node-bootstrap.service\n\
                 Before=kubelet.service\n\
                 \n\
                 [Service]\n\
                 Type=oneshot\n\
                 RemainAfterExit=true\n\
                 TimeoutStartSec=infinity\n\
                 ExecStart={PROGRAM} run-user-data {name}\n\
                 ExecStartPost=/bin/touch {script}.done\n\
                 ExecStartPost=/bin/sync {script}.done /opt/windlass/user-data\n\
                 \n\
                 [Install]\n\
                 WantedBy=multi-user.target\n",
                name = data.name
            );
            config.file_with_mode(&script, &data.content, 0o700).unit(
                format!("windlass-user-data-{}.service", data.name),
                &unit,
                Some(true),
            )
        }
    }
}

/// A hook that fails stays failed until the next boot: a unit that restarts is never among those that systemd lists as
/// failed, and would hold those that wait for it for ever.
fn hook_unit(hook: &Hook) -> String {
    let list = |key: &str, units: &[String]| -> String { units.iter().map(|u| format!("{key}={u}\n")).collect() };
    let mut after = list("After", &hook.after);
    let mut command = vec![PROGRAM, "run-hook", hook.name.as_str()];
    if let Some(image) = &hook.image {
        after.push_str("Wants=containerd.service\nAfter=containerd.service\n");
        command.extend(["--image", image]);
    }
    command.push("--");
    command.extend(hook.exec.iter().map(String::as_str));
    format!(
        "[Unit]\n\
         Description=Hook {name}\n\
         {after}{before}\
         \n\
         [Service]\n\
         Type=oneshot\n\
         RemainAfterExit=true\n\
         TimeoutStartSec=infinity\n\
         ExecStart={command}\n\
         \n\
         [Install]\n\
         WantedBy=multi-user.target\n",
        name = hook.name,
        before = list("Before", &hook.before),
        command = command.into_iter().map(word).collect::<Vec<_>>().join(" "),
    )
}

/// A word of a command line as systemd takes it, whatever is in it.
fn word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-:=,@+".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    let escaped =
        text.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%").replace('$', "$$").replace('\t', "\\t");
    format!("\"{escaped}\"")
}

#[cfg(test)]
mod tests {
    use windlass_spec::GroupName;

    use super::*;

    fn hook(before: &[&str], after: &[&str], image: Option<&str>) -> Hook {
        let units = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Hook {
            name: GroupName::parse("warm").unwrap(),
            before: units(before),
            after: units(after),
            exec: vec!["/opt/warm up".to_owned(), "--quiet".to_owned()],
            image: image.map(str::to_owned),
        }
    }

    /// A unit that is started by the same target as another and stands before it holds it until its command has ended,
    /// because it is oneshot; that of one without an end would hold it for ever, and that of one that restarts too.
    #[test]
    fn a_hook_holds_those_that_wait_for_it_until_it_has_ended() {
        let text = hook_unit(&hook(&["kubelet.service"], &["network-online.target"], None));
        let lines: Vec<&str> = text.lines().collect();
        for line in [
            "Before=kubelet.service",
            "After=network-online.target",
            "Type=oneshot",
            "RemainAfterExit=true",
            "TimeoutStartSec=infinity",
            "WantedBy=multi-user.target",
            "ExecStart=/opt/windlass/bin/windlass-node run-hook warm -- \"/opt/warm up\" --quiet",
        ] {
            assert!(lines.contains(&line), "{text}");
        }
        assert!(!text.contains("Restart="));
    }

    #[test]
    fn a_hook_in_an_image_waits_for_the_runtime() {
        let text = hook_unit(&hook(&["kubelet.service"], &[], Some("registry.example/warm:2")));
        let command = "ExecStart=/opt/windlass/bin/windlass-node run-hook warm --image registry.example/warm:2 -- ";
        assert!(
            text.contains(command) && text.contains("Wants=containerd.service\nAfter=containerd.service\n"),
            "{text}"
        );
    }

    #[test]
    fn a_script_is_marked_as_run_only_when_it_has_succeeded() {
        let data = AdditionalUserData {
            name: GroupName::parse("tune").unwrap(),
            kind: UserDataType::Shell,
            content: "#!/bin/sh\n".to_owned(),
        };
        let text = add_user_data(Config::new(), &data).to_text();
        let config: serde_json::Value = serde_json::from_str(&text).unwrap();
        let file = &config["storage"]["files"][0];
        assert_eq!((file["path"].as_str(), file["mode"].as_u64()), (Some("/opt/windlass/user-data/tune"), Some(0o700)));
        let unit = config["systemd"]["units"][0]["contents"].as_str().unwrap();
        for line in [
            "ConditionPathExists=!/opt/windlass/user-data/tune.done",
            "ExecStart=/opt/windlass/bin/windlass-node run-user-data tune",
            "ExecStartPost=/bin/touch /opt/windlass/user-data/tune.done",
            "Before=kubelet.service",
            "Type=oneshot",
        ] {
            assert!(unit.lines().any(|l| l == line), "{unit}");
        }
        assert!(!unit.contains("Restart="));
    }

    #[test]
    fn words_of_a_command_keep_their_shape() {
        assert_eq!(word("/bin/true"), "/bin/true");
        assert_eq!(word("a b"), "\"a b\"");
        assert_eq!(word("50% of $HOME \"x\""), "\"50%% of $$HOME \\\"x\\\"\"");
        assert_eq!(word(""), "\"\"");
    }
}
