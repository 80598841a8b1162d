//! What is said when a cluster is ready: how long each step took, how to use it, how to remove it.

use std::io::Write;

use serde::Serialize;
use windlass_install::launch::Ready;
use windlass_install::logbook;
use windlass_install::preflight::Cleared;
use windlass_install::prepare::Assets;
use windlass_install::status::{StepStatus, steps};

use crate::args::Common;
use crate::command::answer;
use crate::exit::{Exit, Failure};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Summary<'a> {
    #[serde(rename = "infraID")]
    infra_id: &'a str,
    nodes: &'a [String],
    kubeconfig: String,
    kubectl: String,
    seconds: f64,
    steps: Vec<StepStatus>,
    notices: Vec<String>,
}

pub(super) fn tell(common: &Common, assets: &Assets, ready: &Ready, out: &mut impl Write) -> Result<Exit, Failure> {
    let history = logbook::read(&common.dir).map_err(|error| super::logbook_failure(common, &error))?;
    let history = history.unwrap_or_default();
    let steps = steps(&history);
    let summary = Summary {
        infra_id: &assets.metadata.infra_id,
        nodes: ready.nodes(),
        kubeconfig: common.dir.join("auth/kubeconfig").display().to_string(),
        kubectl: common.dir.join("bin/kubectl").display().to_string(),
        seconds: steps.iter().filter_map(|step| step.took).sum(),
        steps,
        notices: Cleared::notices(&history),
    };
    answer(&common.output, out, &summary, || text(common, &summary))?;
    Ok(Exit::Done)
}

fn text(common: &Common, summary: &Summary<'_>) -> String {
    let mut text =
        format!("{} is ready: {} nodes, after {:.1} s\n", summary.infra_id, summary.nodes.len(), summary.seconds);
    for StepStatus { name, took, .. } in &summary.steps {
        let took = took.map(|took| format!("{took:>6.1} s")).unwrap_or_default();
        text.push_str(&format!("  {name:<22} {took}\n"));
    }
    text.extend(summary.notices.iter().map(|notice| format!("notice:    {notice}\n")));
    let Summary { kubectl, kubeconfig, .. } = summary;
    let dir = common.dir.display();
    text.push_str(&format!(
        "use it:    {kubectl} --kubeconfig {kubeconfig} get nodes\nremove it: windlass down --dir {dir}\n"
    ));
    text
}
