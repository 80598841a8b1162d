//! `windlass spec …`.

use std::io::{self, Read as _, Write};
use std::path::Path;

use serde_json::json;
use windlass_spec::file::{SpecDocument, Topology, read_and_complete};
use windlass_spec::init::Start;
use windlass_spec::yaml::Budget;
use windlass_spec::{CompleteSpec, explain, schema};
use windlass_steps::host::read_file;
use windlass_steps::report::chain;

use super::{answer, say};
use crate::args::{Common, Init, Output, Spec, SpecSource, parse_version};
use crate::exit::{Exit, Failure};

pub(super) fn run(
    common: &Common,
    command: &Spec,
    out: &mut impl Write,
    err: &mut impl Write,
) -> Result<Exit, Failure> {
    match command {
        Spec::Init(init) => say(out, &start(init)?.to_yaml())?,
        Spec::Complete(source) => {
            let (_, spec) = complete(common, source)?;
            answer(&common.output, out, &spec, || spec.to_yaml())?;
        }
        Spec::Validate(source) => validate(common, source, out, err)?,
        Spec::Explain { path, source } => {
            let (document, spec) = complete(common, source)?;
            let explanation = explain(&document.node, &spec, path).map_err(|reason| {
                let next = "`windlass spec explain spec` lists the fields to start from";
                Failure::new(Exit::Usage, format!("{path} names nothing in the spec"), vec![reason], next)
            })?;
            answer(&common.output, out, &explanation, || explanation.to_string())?;
        }
        Spec::Schema => answer(&Output::Json, out, &schema::json_schema(), String::new)?,
    }
    Ok(Exit::Done)
}

fn start(init: &Init) -> Result<Start, Failure> {
    let version = init.kubernetes_version.as_deref().map(parse_version).transpose().map_err(|reason| {
        Failure::new(Exit::SpecRejected, "--kubernetes-version was rejected", vec![reason], "choose one of the list")
    })?;
    let provider = Start::provider(&init.provider).expect("the parser takes no other provider");
    Ok(Start {
        name: init.name.clone(),
        provider,
        kubernetes_version: version,
        topology: init.topology.as_deref().and_then(Topology::parse),
        masters: init.num_masters,
        workers: init.num_nodes,
    })
}

fn validate(common: &Common, source: &SpecSource, out: &mut impl Write, err: &mut impl Write) -> Result<(), Failure> {
    let (place, bytes) = read(common, source)?;
    let problems = read_and_complete(&bytes).err().map(|p| p.0).unwrap_or_default();
    if common.output == Output::Json {
        answer(&Output::Json, out, &json!({ "valid": problems.is_empty(), "problems": problems }), String::new)?;
    }
    if !problems.is_empty() {
        return Err(Failure::spec(&place, &windlass_spec::Problems(problems)));
    }
    if common.output == Output::Text {
        say(err, &format!("{place}: the spec is good\n"))?;
    }
    Ok(())
}

fn complete(common: &Common, source: &SpecSource) -> Result<(SpecDocument, CompleteSpec), Failure> {
    let (place, bytes) = read(common, source)?;
    read_and_complete(&bytes).map_err(|problems| Failure::spec(&place, &problems))
}

/// The spec's name for people and its text.
pub(super) fn read(common: &Common, source: &SpecSource) -> Result<(String, Vec<u8>), Failure> {
    let limit = Budget::SPEC.bytes as u64;
    let path = source.spec.clone().unwrap_or_else(|| common.dir.join("cluster.yaml"));
    if path == Path::new("-") {
        let mut bytes = Vec::new();
        // One byte more than the budget shows that there is more.
        let read = io::stdin().lock().take(limit + 1).read_to_end(&mut bytes);
        read.map_err(|error| Failure::of(Exit::SpecRejected, &error, "give the spec on stdin"))?;
        return Ok(("stdin".to_owned(), bytes));
    }
    let place = path.display().to_string();
    let bytes = read_file(&path, limit).map_err(|error| {
        let next = match source.spec {
            Some(_) => "name a spec with --spec FILE".to_owned(),
            None => format!("write one: mkdir -p {0} && windlass spec init > {0}/cluster.yaml", common.dir.display()),
        };
        Failure::new(Exit::SpecRejected, format!("{place}: the spec cannot be read"), chain(&error), next)
    })?;
    Ok((place, bytes))
}
