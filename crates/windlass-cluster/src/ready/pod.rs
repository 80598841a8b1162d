//! Pods, and why one does not become ready: the most precise reason that the API has, with the machine it happens on.

use k8s_openapi::api::core::v1::{ContainerState, ContainerStatus, Pod, PodCondition, PodStatus};
use windlass_steps::criterion::Observation;
use windlass_steps::reason;

use super::{said, told};

/// Whether a pod serves: it is Ready and nobody has told it to go.
pub fn pod_is_ready(pod: &Pod) -> bool {
    let status = pod.status.as_ref();
    let ready = status.and_then(|status| condition(status, "Ready")).is_some_and(|c| c.status == "True");
    ready && pod.metadata.deletion_timestamp.is_none()
}

/// Whether all the pods of a selector are ready, and so many of them if a number is expected.
pub fn pods_ready(pods: &[Pod], expected: Option<usize>) -> Observation {
    if expected == Some(0) {
        return Observation::NotYet(reason!("no pod is expected"));
    }
    let trouble: Vec<String> = pods.iter().filter_map(pod_trouble).collect();
    if !trouble.is_empty() {
        let ready = pods.len() - trouble.len();
        return Observation::NotYet(reason!("{ready} of {} pods are ready; {}", pods.len(), told(trouble)));
    }
    match expected {
        Some(want) if want != pods.len() => {
            Observation::NotYet(reason!("there are {} pods, {want} are expected", pods.len()))
        }
        None if pods.is_empty() => Observation::NotYet(reason!("there is no pod")),
        Some(_) | None => Observation::Holds,
    }
}

/// Whether every pod of a list is ready or has done its work.
pub fn every_pod_ready(pods: &[Pod]) -> Observation {
    if pods.is_empty() {
        return Observation::NotYet(reason!("there is no pod"));
    }
    let trouble: Vec<String> = pods.iter().filter(|pod| !succeeded(pod)).filter_map(pod_trouble).collect();
    if trouble.is_empty() {
        return Observation::Holds;
    }
    let well = pods.len() - trouble.len();
    Observation::NotYet(reason!("{well} of {} pods are ready; {}", pods.len(), told(trouble)))
}

/// Why a pod is not ready, with its name and machine; nothing if it is.
pub fn pod_trouble(pod: &Pod) -> Option<String> {
    if pod_is_ready(pod) {
        return None;
    }
    let meta = &pod.metadata;
    let name = format!("{}/{}", meta.namespace.as_deref().unwrap_or("default"), meta.name.as_deref().unwrap_or("?"));
    let place = match pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) {
        Some(node) => format!(" on {node}"),
        None => String::new(),
    };
    Some(format!("{name}{place}: {}", cause(pod)))
}

fn succeeded(pod: &Pod) -> bool {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Succeeded")
}

/// From the most to the least precise: it is going, a container says why, the pod says why, a condition does.
fn cause(pod: &Pod) -> String {
    if pod.metadata.deletion_timestamp.is_some() {
        return "it is being deleted".to_owned();
    }
    let Some(status) = &pod.status else { return "nobody has said anything about it".to_owned() };
    let of_container = || {
        let init = status.init_container_statuses.iter().flatten().map(|c| ("init container", c));
        let main = status.container_statuses.iter().flatten().map(|c| ("container", c));
        init.chain(main).find_map(|(word, container)| of_container(word, container))
    };
    of_container()
        .or_else(|| said(status.reason.as_deref(), status.message.as_deref()))
        .or_else(|| of_condition(status))
        .unwrap_or_else(|| status.phase.clone().unwrap_or_else(|| "Pending".to_owned()))
}

fn of_container(word: &str, container: &ContainerStatus) -> Option<String> {
    let state = container.state.as_ref()?;
    let why = if let Some(waiting) = &state.waiting {
        let reason = waiting.reason.as_deref();
        match reason {
            // Its message counts seconds; how the container ended last is what there is to know.
            Some("CrashLoopBackOff") => format!("CrashLoopBackOff: {}", last_end(container)),
            // Every container waits in these two while the sandbox is made or init containers run.
            Some("PodInitializing" | "ContainerCreating") if waiting.message.is_none() => return None,
            _ => said(reason, waiting.message.as_deref())?,
        }
    } else if state.terminated.as_ref().is_some_and(|ended| ended.exit_code != 0) {
        ended(state)?
    } else if state.running.is_some() && !container.ready && word == "container" {
        match container.last_state.as_ref().and_then(ended) {
            Some(before) => format!("runs and is not ready; before that it {before}"),
            None => "runs and is not ready".to_owned(),
        }
    } else {
        return None;
    };
    Some(format!("{word} {}: {why}", container.name))
}

fn last_end(container: &ContainerStatus) -> String {
    container.last_state.as_ref().and_then(ended).unwrap_or_else(|| "it ends again and again".to_owned())
}

fn ended(state: &ContainerState) -> Option<String> {
    let ended = state.terminated.as_ref()?;
    let why = said(ended.reason.as_deref(), ended.message.as_deref()).unwrap_or_else(|| "Error".to_owned());
    Some(format!("ended with exit code {}, {why}", ended.exit_code))
}

fn of_condition(status: &PodStatus) -> Option<String> {
    let telling = ["PodScheduled", "Initialized", "ContainersReady", "Ready"];
    let unmet = telling.iter().filter_map(|kind| condition(status, kind)).find(|c| c.status != "True")?;
    said(unmet.reason.as_deref(), unmet.message.as_deref())
}

fn condition<'a>(status: &'a PodStatus, kind: &str) -> Option<&'a PodCondition> {
    status.conditions.iter().flatten().find(|condition| condition.type_ == kind)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::testing::{object, shown};
    use super::*;

    fn pod(status: Value) -> Pod {
        object(json!({"metadata": {"name": "p", "namespace": "n"}, "spec": {"nodeName": "m-0", "containers": []},
                      "status": status}))
    }

    fn ready() -> Value {
        json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]})
    }

    fn container(state: &Value, last: &Value) -> Value {
        json!({"name": "c", "image": "", "imageID": "", "ready": false, "restartCount": 7, "state": state,
               "lastState": last})
    }

    #[test]
    fn a_pod_that_is_not_ready_says_why_and_where() {
        let waiting = |reason: &str, message: Value| json!({"waiting": {"reason": reason, "message": message}});
        let ended = json!({"terminated": {"exitCode": 2, "reason": "Error", "message": "no such flag"}});
        let main =
            |state: Value, last: Value| json!({"phase": "Pending", "containerStatuses": [container(&state, &last)]});
        let unscheduled = json!({"phase": "Pending", "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/5 nodes are available"}]});
        let init = json!({"phase": "Pending",
            "initContainerStatuses": [container(&waiting("ErrImagePull", json!("not found")), &Value::Null)],
            "containerStatuses": [container(&waiting("PodInitializing", Value::Null), &Value::Null)]});
        let cases = [
            (Value::Null, "nobody has said anything about it"),
            (json!({}), "Pending"),
            (json!({"phase": "Succeeded"}), "Succeeded"),
            (json!({"phase": "Failed", "reason": "Evicted", "message": "disk"}), "Evicted: disk"),
            (
                main(waiting("ImagePullBackOff", json!("Back-off pulling image \"x\"")), Value::Null),
                "container c: ImagePullBackOff: Back-off pulling image \"x\"",
            ),
            (
                main(waiting("ErrImageNeverPull", json!("image \"x\" is not present")), Value::Null),
                "container c: ErrImageNeverPull: image \"x\" is not present",
            ),
            (
                main(waiting("CrashLoopBackOff", json!("back-off 10s restarting")), ended.clone()),
                "container c: CrashLoopBackOff: ended with exit code 2, Error: no such flag",
            ),
            (
                main(waiting("CrashLoopBackOff", json!("back-off 10s restarting")), Value::Null),
                "container c: CrashLoopBackOff: it ends again and again",
            ),
            (main(waiting("ContainerCreating", Value::Null), Value::Null), "Pending"),
            (main(ended.clone(), Value::Null), "container c: ended with exit code 2, Error: no such flag"),
            (main(json!({"running": {}}), Value::Null), "container c: runs and is not ready"),
            (
                main(json!({"running": {}}), ended),
                "container c: runs and is not ready; before that it ended with exit code 2, Error: no such flag",
            ),
            (init, "init container c: ErrImagePull: not found"),
            (unscheduled, "Unschedulable: 0/5 nodes are available"),
        ];
        for (status, want) in cases {
            let trouble = pod_trouble(&pod(status.clone()));
            assert_eq!(trouble, Some(format!("n/p on m-0: {want}")), "{status}");
        }
        assert_eq!(pod_trouble(&pod(ready())), None);
        let mut going = pod(ready());
        going.metadata = object(json!({"name": "p", "deletionTimestamp": "2026-11-16T03:00:00Z"}));
        assert_eq!(pod_trouble(&going), Some("default/p on m-0: it is being deleted".to_owned()));
    }

    #[test]
    fn no_pod_is_no_ready_pod() {
        let (good, bad, done) = (pod(ready()), pod(json!({})), pod(json!({"phase": "Succeeded"})));
        let one_of_two = "not yet: 1 of 2 pods are ready; n/p on m-0: Pending";
        let cases: [(&[Pod], Option<usize>, &str, &str); 7] = [
            (&[], None, "not yet: there is no pod", "not yet: there is no pod"),
            (&[], Some(0), "not yet: no pod is expected", "not yet: there is no pod"),
            (&[], Some(2), "not yet: there are 0 pods, 2 are expected", "not yet: there is no pod"),
            (std::slice::from_ref(&good), None, "holds", "holds"),
            (std::slice::from_ref(&good), Some(2), "not yet: there are 1 pods, 2 are expected", "holds"),
            (&[good.clone(), bad], Some(2), one_of_two, one_of_two),
            (&[good.clone(), done], None, "not yet: 1 of 2 pods are ready; n/p on m-0: Succeeded", "holds"),
        ];
        for (pods, expected, selected, every) in cases {
            assert_eq!(shown(&pods_ready(pods, expected)), selected);
            assert_eq!(shown(&every_pod_ready(pods)), every);
        }
    }
}
