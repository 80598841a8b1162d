//! Where the kubelet asks whether a component lives, and how long it waits for one to end. Both follow the flags,
//! since a user may change those.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use serde_json::Value;
use windlass_spec::complete::Flags;
use windlass_spec::flags::scalar_text;

/// Where a component answers about itself. Without a host the kubelet asks at the pod's address, which for these
/// pods is the machine's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Endpoint {
    pub(super) host: Option<String>,
    pub(super) port: u16,
}

impl Endpoint {
    /// That of a program with `--bind-address` and `--secure-port`.
    pub(super) fn secure(flags: &Flags, default_port: u16) -> Self {
        let port = text(flags, "secure-port").and_then(|p| p.parse().ok()).unwrap_or(default_port);
        let host = match text(flags, "bind-address") {
            None => Some(LOCALHOST.to_owned()),
            Some(address) => host(&address),
        };
        Endpoint { host, port }
    }

    /// That of etcd: the first of `--listen-metrics-urls`. The kubelet has no client certificate, so only plain HTTP
    /// can be asked, and without such a URL there is nothing to ask.
    pub(super) fn etcd(flags: &Flags) -> Option<Self> {
        let urls = text(flags, "listen-metrics-urls")?;
        let (address, port) = urls.split(',').find_map(|url| url.strip_prefix("http://"))?.rsplit_once(':')?;
        let port = port.trim_end_matches('/').parse().ok()?;
        Some(Endpoint { host: host(address.trim_matches(['[', ']'])), port })
    }

    /// That of kube-proxy: `healthzBindAddress` of its configuration, which an empty text turns off.
    pub(super) fn proxy(configured: Option<&Value>) -> Option<Self> {
        match configured {
            None => Some(Endpoint { host: Some(LOCALHOST.to_owned()), port: 10256 }),
            Some(value) => {
                let address: SocketAddr = value.as_str()?.parse().ok()?;
                Some(Endpoint { host: host(&address.ip().to_string()), port: address.port() })
            }
        }
    }
}

const LOCALHOST: &str = "127.0.0.1";

/// The address to ask for a program that listens on `address`; none if only the machine knows it.
fn host(address: &str) -> Option<String> {
    match address.parse::<IpAddr>() {
        Ok(ip) if ip.is_unspecified() => Some(LOCALHOST.to_owned()),
        Ok(ip) => Some(ip.to_string()),
        Err(_) => None,
    }
}

/// How long the API server may take to end: what it waits by its own flag, and a minute for the requests it has.
pub(super) fn api_server_grace(flags: &Flags) -> u64 {
    let delay = text(flags, "shutdown-delay-duration").and_then(|d| go_duration(&d)).unwrap_or_default();
    delay.as_secs() + u64::from(delay.subsec_nanos() > 0) + 60
}

fn text(flags: &Flags, name: &str) -> Option<String> {
    flags.get(name).filter(|value| !value.is_null()).map(scalar_text)
}

/// A duration as Go writes it, such as `1m30s` or `1.5h`.
fn go_duration(text: &str) -> Option<Duration> {
    let mut total = Duration::ZERO;
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, after) = rest.split_at(digits);
        let units = [("ns", 1e-9), ("us", 1e-6), ("µs", 1e-6), ("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];
        let (unit, seconds) = units.into_iter().find(|(unit, _)| after.starts_with(unit))?;
        let part = Duration::try_from_secs_f64(number.parse::<f64>().ok()? * seconds).ok()?;
        total = total.checked_add(part)?;
        rest = &after[unit.len()..];
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn flags(value: Value) -> Flags {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn probes_follow_the_flags() {
        for (given, host, port) in [
            (json!({}), Some("127.0.0.1"), 6443),
            (json!({"secure-port": 443, "bind-address": "0.0.0.0"}), Some("127.0.0.1"), 443),
            (json!({"bind-address": "::"}), Some("127.0.0.1"), 6443),
            (json!({"bind-address": "10.0.0.5"}), Some("10.0.0.5"), 6443),
            (json!({"bind-address": "$(HOST_IP)", "secure-port": null}), None, 6443),
        ] {
            let expected = Endpoint { host: host.map(str::to_owned), port };
            assert_eq!(Endpoint::secure(&flags(given.clone()), 6443), expected, "{given}");
        }
    }

    #[test]
    fn etcd_is_asked_over_plain_http_or_not_at_all() {
        let etcd = |urls: Value| Endpoint::etcd(&flags(json!({"listen-metrics-urls": urls}))).map(|e| (e.host, e.port));
        let local = Some("127.0.0.1".to_owned());
        assert_eq!(etcd(json!("http://127.0.0.1:2381")), Some((local.clone(), 2381)));
        assert_eq!(etcd(json!("https://0.0.0.0:1,http://0.0.0.0:2/")), Some((local, 2)));
        assert_eq!(etcd(json!("http://[::1]:2381")), Some((Some("::1".to_owned()), 2381)));
        assert_eq!(etcd(json!("http://$(MACHINE_ADDRESS):2381")), Some((None, 2381)));
        assert_eq!(etcd(json!("https://127.0.0.1:2381")), None);
        assert_eq!(etcd(json!(null)), None);
    }

    #[test]
    fn kube_proxy_is_asked_where_its_configuration_says() {
        assert_eq!(Endpoint::proxy(None).map(|e| e.port), Some(10256));
        assert_eq!(Endpoint::proxy(Some(&json!("0.0.0.0:99"))).map(|e| e.port), Some(99));
        assert_eq!(Endpoint::proxy(Some(&json!(""))), None);
    }

    #[test]
    fn the_api_server_has_longer_than_its_own_delay() {
        for (delay, seconds) in [("2s", 62), ("1m30s", 150), ("1.5s", 62), ("0", 60), ("$(X)", 60)] {
            assert_eq!(api_server_grace(&flags(json!({"shutdown-delay-duration": delay}))), seconds, "{delay}");
        }
    }
}
