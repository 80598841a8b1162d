//! Asking the kubelet itself whether it is well, where it says so.

use std::net::SocketAddr;

use hyper::{Method, StatusCode};
use windlass_spec::yaml::{self, Budget};
use windlass_steps::host::read_file;
use windlass_steps::report::chain;

use crate::bootstrap::http::{Asking, ask};
use crate::places::Places;

const FILE_LIMIT: u64 = 1 << 20;
/// Where the kubelet says that it is well unless it is told otherwise, also one that runs without an API: `enableServer`
/// is about its other port.
const HEALTHZ: ([u8; 4], u16) = ([127, 0, 0, 1], 10248);

/// Where this machine's kubelet says that it is well; nowhere if a user has switched that off.
pub(super) fn place(places: &Places) -> Option<SocketAddr> {
    let text = |path: std::path::PathBuf| {
        let bytes = read_file(path, FILE_LIMIT).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let environment = text(places.kubelet_env()) + &text(places.kubelet_join_env());
    address(&text(places.kubelet_config()), &environment)
}

/// A flag wins over the configuration, as it does in the kubelet.
fn address(config: &str, environment: &str) -> Option<SocketAddr> {
    // What cannot be read the kubelet cannot read either, and then it does not run.
    let config = yaml::read(config.as_bytes(), &Budget::SPEC).map(|node| node.to_json()).unwrap_or_default();
    let flag = |name: &str| {
        let (_, rest) = environment.rsplit_once(&format!("--{name}="))?;
        rest.split([' ', '\'', '"', '\n']).next().map(str::to_owned)
    };
    let port = flag("healthz-port").and_then(|port| port.parse().ok());
    let port = port.or_else(|| config["healthzPort"].as_u64().and_then(|port| u16::try_from(port).ok()));
    let host = flag("healthz-bind-address").or_else(|| config["healthzBindAddress"].as_str().map(str::to_owned));
    let default = SocketAddr::from(HEALTHZ);
    let host = host.and_then(|host| host.parse().ok()).unwrap_or(default.ip());
    // One that listens everywhere listens here.
    let host = if host.is_unspecified() { default.ip() } else { host };
    Some(SocketAddr::new(host, port.unwrap_or(default.port()))).filter(|address| address.port() != 0)
}

/// Asks it; the error says why it is not well.
pub(super) async fn ask_it(at: SocketAddr) -> Result<(), String> {
    let host = at.ip().to_string();
    let asking =
        Asking { method: Method::GET, host: &host, port: at.port(), path: "/healthz", bearer: None, tls: None };
    match ask(&asking).await {
        Ok(answer) if answer.status == StatusCode::OK => Ok(()),
        Ok(answer) => {
            let said = String::from_utf8_lossy(&answer.body).lines().next().unwrap_or_default().to_owned();
            Err(format!("it says {}: {said}", answer.status.as_u16()))
        }
        Err(error) => Err(chain(&error).join(": ")),
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    #[test]
    fn the_address_follows_what_the_kubelet_is_told() {
        let config =
            |lines: &str| format!("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n{lines}");
        let cases = [
            ("", "", Some("127.0.0.1:10248")),
            ("not: [yaml", "", Some("127.0.0.1:10248")),
            (&config("enableServer: false\n"), "", Some("127.0.0.1:10248")),
            (&config("healthzPort: 1000\n"), "", Some("127.0.0.1:1000")),
            (&config("healthzPort: 0\n"), "", None),
            (&config("healthzBindAddress: 0.0.0.0\n"), "", Some("127.0.0.1:10248")),
            (&config("healthzBindAddress: 10.0.0.2\nhealthzPort: 7\n"), "", Some("10.0.0.2:7")),
            (&config("healthzPort: 7\n"), "KUBELET_ARGS='--healthz-port=8 --v=2'\n", Some("127.0.0.1:8")),
            (&config(""), "KUBELET_ARGS='--v=2 --healthz-port=0'\n", None),
            (&config(""), "A='--healthz-port=1'\nA='--healthz-port=2'\n", Some("127.0.0.1:2")),
            (&config(""), "A='--healthz-bind-address=10.0.0.3'\n", Some("10.0.0.3:10248")),
        ];
        for (config, environment, want) in cases {
            let got = address(config, environment).map(|address| address.to_string());
            assert_eq!(got.as_deref(), want, "{config} {environment}");
        }
    }

    #[tokio::test]
    async fn a_kubelet_is_well_if_it_says_so() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        let answers =
            ["HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "HTTP/1.1 500 no\r\nContent-Length: 3\r\n\r\nbad", ""];
        let serve = async {
            for answer in answers {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut asked = [0; 1024];
                let read = stream.read(&mut asked).await.unwrap();
                assert!(asked[..read].starts_with(b"GET /healthz HTTP/1.1\r\n"));
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        };
        let asks = async { [ask_it(at).await, ask_it(at).await, ask_it(at).await] };
        let ([well, sick, silent], ()) = tokio::join!(asks, serve);
        assert_eq!(well, Ok(()));
        assert_eq!(sick, Err("it says 500: bad".to_owned()));
        assert!(silent.is_err());
        drop(listener);
        assert!(ask_it(at).await.unwrap_err().contains("cannot connect"));
    }
}
