//! What a script on a machine asks to know that its kubelet runs.

/// Succeeds if the kubelet has run for some seconds and says that it is well. That systemd takes it for active is not enough:
/// a process that ends every second is active in between.
pub const RUNS: &str = r#"systemctl is-active --quiet kubelet.service
read -r up _ < /proc/uptime
since=$(systemctl show -P ActiveEnterTimestampMonotonic kubelet.service)
test $((${up%.*} - since / 1000000)) -ge 3
timeout 5 bash -c 'exec 3<>/dev/tcp/127.0.0.1/10248 && printf "GET /healthz HTTP/1.0\r\n\r\n" >&3 &&
    read -r line <&3 && [[ $line == *" 200 "* ]]'
"#;
