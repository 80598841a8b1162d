//! What a user added to a group: files, user data and hooks.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use windlass_spec::complete::InstanceGroup;
use windlass_spec::file::{AdditionalUserData, Encoding, FileAsset, Hook, UserDataType};

use super::config::{Config, data_url};

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
                 Wants=network-online.target\n\
                 After=network-online.target\n\
                 Before=kubelet.service\n\
                 \n\
                 [Service]\n\
                 Type=oneshot\n\
                 RemainAfterExit=true\n\
                 TimeoutStartSec=infinity\n\
                 ExecStart={script}\n\
                 ExecStartPost=/bin/touch {script}.done\n\
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

fn hook_unit(hook: &Hook) -> String {
    let list = |key: &str, units: &[String]| -> String { units.iter().map(|u| format!("{key}={u}\n")).collect() };
    let mut after = list("After", &hook.after);
    let command = match &hook.image {
        None => hook.exec.clone(),
        Some(image) => {
            after.push_str("Wants=containerd.service\nAfter=containerd.service\n");
            let mut command = vec!["/opt/windlass/bin/windlass-node".to_owned(), "run-image".to_owned()];
            command.extend([hook.name.to_string(), image.clone()]);
            command.extend(hook.exec.iter().cloned());
            command
        }
    };
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
        command = command.iter().map(|w| word(w)).collect::<Vec<_>>().join(" "),
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
    use super::*;

    #[test]
    fn words_of_a_command_keep_their_shape() {
        assert_eq!(word("/bin/true"), "/bin/true");
        assert_eq!(word("a b"), "\"a b\"");
        assert_eq!(word("50% of $HOME \"x\""), "\"50%% of $$HOME \\\"x\\\"\"");
        assert_eq!(word(""), "\"\"");
    }
}
