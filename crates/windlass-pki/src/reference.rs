//! The table as a page for people: `docs/reference/certificates.md` is made here and checked.

use crate::table::{
    AUTHORITIES, LEAVES, LeafRow, MACHINE_LEAVES, MachineCommonName, MachineLeafRow, MachineSanRule, Maker, PAIRS,
    SanRule,
};

const INTRODUCTION: &str = "\
# Certificates and keys

Every key is ECDSA P-256. Certificates start one hour before they are made. A leaf is valid for at most 365
days, an authority for at most 3650, less a number of days that follows from the name: of the certificates that
`windlass prepare` and the etcd members have, no two that were made together expire on the same day. A leaf never
outlives its authority. `windlass certs list` shows what a cluster has.
";

/// The whole page, as Markdown.
pub fn markdown() -> String {
    let authorities = AUTHORITIES.iter().map(|row| {
        let subject = subject(Some("<cluster>"), row.common_name);
        vec![code(row.name), subject, row.purpose.to_owned(), row.lifetime_days().to_string()]
    });
    let pairs = PAIRS.iter().map(|row| vec![code(row.name), row.purpose.to_owned()]);
    let leaves = LEAVES.iter().map(leaf).chain(MACHINE_LEAVES.iter().map(machine_leaf));
    [
        INTRODUCTION.to_owned(),
        "## Authorities\n\nMade by `windlass prepare`; each signs itself, and leaves only.\n".to_owned(),
        table(&["name", "subject", "signs for", "days"], authorities),
        "## Key pairs without a certificate\n\nMade by `windlass prepare`.\n".to_owned(),
        table(&["name", "signs"], pairs),
        "## Leaves\n".to_owned(),
        table(&["name", "made by", "signer", "subject", "names and addresses", "usages", "days"], leaves),
    ]
    .join("\n")
}

fn leaf(row: &LeafRow) -> Vec<String> {
    vec![
        code(row.name),
        maker(Maker::Prepare).to_owned(),
        code(row.signer.row().name),
        subject(row.organization, row.common_name),
        sans(row.sans.iter().map(|rule| san(*rule))),
        row.usages.as_str().to_owned(),
        row.lifetime_days().to_string(),
    ]
}

fn machine_leaf(row: &MachineLeafRow) -> Vec<String> {
    vec![
        code(row.name),
        maker(row.maker).to_owned(),
        code(row.signer.row().name),
        subject(row.organization, machine_common_name(row.common_name)),
        sans(row.sans.iter().map(|rule| machine_san(*rule))),
        row.usages.as_str().to_owned(),
        lifetime(row.common_name).to_owned(),
    ]
}

fn maker(maker: Maker) -> &'static str {
    match maker {
        Maker::Prepare => "`windlass prepare`",
        Maker::EtcdSigner => "the etcd signer, for each master",
        Maker::ControllerManager => "kube-controller-manager, for each machine",
    }
}

fn san(rule: SanRule) -> &'static str {
    match rule {
        SanRule::KubernetesService => {
            "`kubernetes`, `kubernetes.default`, `kubernetes.default.svc`, \
             `kubernetes.default.svc.<clusterDomain>`, the service's address"
        }
        SanRule::ApiName => "`api.<domain>`",
        SanRule::ApiInternalName => "`api.internal.<domain>`",
        SanRule::Localhost => "`localhost`, `127.0.0.1`",
        SanRule::Balancer => "the balancer's address",
        SanRule::Bootstrap => "the bootstrap machine's address (topology `self-hosted`)",
        SanRule::Masters => "every master's name and address",
    }
}

fn machine_san(rule: MachineSanRule) -> &'static str {
    match rule {
        MachineSanRule::EtcdName => "`etcd-<n>.internal.<domain>`",
        MachineSanRule::MachineName => "the machine's name",
        MachineSanRule::MachineAddress => "the machine's address",
        MachineSanRule::Localhost => "`localhost`, `127.0.0.1`",
    }
}

fn machine_common_name(rule: MachineCommonName) -> &'static str {
    match rule {
        MachineCommonName::EtcdMember => "etcd-<n>",
        MachineCommonName::Node => "system:node:<machine>",
    }
}

fn lifetime(rule: MachineCommonName) -> &'static str {
    match rule {
        MachineCommonName::EtcdMember => "276 to 365, by member",
        MachineCommonName::Node => "276 to 365, by machine",
    }
}

fn sans<'a>(words: impl Iterator<Item = &'a str>) -> String {
    let words: Vec<_> = words.collect();
    if words.is_empty() { "none".to_owned() } else { words.join(", ") }
}

fn subject(organization: Option<&str>, common_name: &str) -> String {
    code(&match organization {
        Some(organization) => format!("O={organization}, CN={common_name}"),
        None => format!("CN={common_name}"),
    })
}

fn code(text: &str) -> String {
    format!("`{text}`")
}

fn table(head: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let mut text = format!("| {} |\n|{}\n", head.join(" | "), "---|".repeat(head.len()));
    for row in rows {
        text.push_str(&format!("| {} |\n", row.join(" | ")));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_of_the_table_has_a_line() {
        let page = markdown();
        let names = AUTHORITIES.iter().map(|row| row.name).chain(PAIRS.iter().map(|row| row.name));
        let names = names.chain(LEAVES.iter().map(|row| row.name)).chain(MACHINE_LEAVES.iter().map(|row| row.name));
        for name in names {
            let start = format!("| `{name}` |");
            assert_eq!(page.lines().filter(|line| line.starts_with(&start)).count(), 1, "{name}");
        }
    }

    #[test]
    fn every_table_is_rectangular() {
        for block in markdown().split("\n\n").filter(|block| block.starts_with('|')) {
            let columns: Vec<_> = block.lines().map(|line| line.matches('|').count()).collect();
            assert!(columns.iter().all(|count| *count == columns[0]), "{block}");
        }
    }
}
