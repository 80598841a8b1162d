//! Objects with conditions: certificate requests, definitions of kinds, and add-ons.

use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::DynamicObject;
use serde_json::Value;
use windlass_steps::criterion::Observation;
use windlass_steps::reason;

use super::said;

/// How far a certificate request has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CsrState {
    /// Nobody has judged it.
    Pending,
    /// It may be signed.
    Approved,
    /// Here is the certificate, PEM.
    Issued(String),
    /// It will not be signed, for this reason.
    Denied(String),
    /// It could not be signed, for this reason.
    Failed(String),
}

/// How far a certificate request has come. A refusal is final, whatever else it says.
pub fn csr_state(request: &CertificateSigningRequest) -> CsrState {
    let Some(status) = &request.status else { return CsrState::Pending };
    let condition = |kind: &str| {
        let found = status.conditions.iter().flatten().find(|c| c.type_ == kind && c.status == "True")?;
        Some(said(found.reason.as_deref(), found.message.as_deref()).unwrap_or_else(|| kind.to_owned()))
    };
    if let Some(why) = condition("Denied") {
        return CsrState::Denied(why);
    }
    if let Some(why) = condition("Failed") {
        return CsrState::Failed(why);
    }
    let certificate = status.certificate.as_ref().and_then(|bytes| String::from_utf8(bytes.0.clone()).ok());
    match (certificate.filter(|pem| !pem.is_empty()), condition("Approved")) {
        (Some(pem), _) => CsrState::Issued(pem),
        (None, Some(_)) => CsrState::Approved,
        (None, None) => CsrState::Pending,
    }
}

/// Whether a certificate request has its certificate.
pub fn csr_issued(request: Option<&CertificateSigningRequest>) -> Observation {
    let Some(request) = request else { return absent() };
    match csr_state(request) {
        CsrState::Issued(_) => Observation::Holds,
        CsrState::Pending => Observation::NotYet(reason!("nobody has approved it yet")),
        CsrState::Approved => Observation::NotYet(reason!("it is approved and not signed yet")),
        CsrState::Denied(why) => Observation::Never(reason!("it was denied: {why}")),
        CsrState::Failed(why) => Observation::Never(reason!("signing failed: {why}")),
    }
}

/// Whether the API serves the kind that this defines.
pub fn crd_established(definition: Option<&CustomResourceDefinition>) -> Observation {
    let Some(definition) = definition else { return absent() };
    let conditions = || definition.status.iter().flat_map(|status| status.conditions.iter().flatten());
    if conditions().any(|c| c.type_ == "Established" && c.status == "True") {
        return Observation::Holds;
    }
    let refused = conditions().find(|c| c.type_ == "NamesAccepted" && c.status == "False");
    match refused.and_then(|c| said(c.reason.as_deref(), c.message.as_deref())) {
        Some(why) => Observation::NotYet(reason!("its names are not accepted: {why}")),
        None => Observation::NotYet(reason!("it is not established yet")),
    }
}

/// Whether an add-on reports that it is done, about what it is now: a report about another generation says nothing.
pub fn addon_done(addon: Option<&DynamicObject>) -> Observation {
    let Some(addon) = addon else { return absent() };
    let mut conditions = addon.data.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
    let Some(done) = conditions.find(|c| c["type"] == "Done") else {
        return Observation::NotYet(reason!("it has not reported yet"));
    };
    let (is, reported) = (addon.metadata.generation, done["observedGeneration"].as_i64());
    if let (Some(is), Some(reported)) = (is, reported)
        && is != reported
    {
        return Observation::NotYet(reason!("it was changed since it reported"));
    }
    if done["status"] == "True" {
        return Observation::Holds;
    }
    let why = said(done["reason"].as_str(), done["message"].as_str()).unwrap_or_else(|| "it is not done".to_owned());
    Observation::NotYet(reason!("{why}"))
}

fn absent() -> Observation {
    Observation::NotYet(reason!("it is not there"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing::{object, shown};
    use super::*;

    const NOT_THERE: &str = "not yet: it is not there";

    #[test]
    fn what_is_absent_is_not_ready() {
        assert_eq!(shown(&csr_issued(None)), NOT_THERE);
        assert_eq!(shown(&crd_established(None)), NOT_THERE);
        assert_eq!(shown(&addon_done(None)), NOT_THERE);
    }

    #[test]
    fn a_request_is_issued_when_it_has_its_certificate_and_nobody_denied_it() {
        let approved = json!({"type": "Approved", "status": "True"});
        let denied = json!({"type": "Denied", "status": "True", "reason": "Stranger", "message": "who are you"});
        let failed = json!({"type": "Failed", "status": "True", "reason": "SignerValidationFailure"});
        let cases = [
            (Value::Null, "not yet: nobody has approved it yet"),
            (json!({}), "not yet: nobody has approved it yet"),
            (json!({"conditions": [{"type": "Approved", "status": "False"}]}), "not yet: nobody has approved it yet"),
            (json!({"conditions": [approved]}), "not yet: it is approved and not signed yet"),
            (json!({"conditions": [approved], "certificate": ""}), "not yet: it is approved and not signed yet"),
            (json!({"conditions": [approved], "certificate": "UEVN"}), "holds"),
            (json!({"conditions": [denied]}), "never: it was denied: Stranger: who are you"),
            (
                json!({"conditions": [approved, denied], "certificate": "UEVN"}),
                "never: it was denied: Stranger: who are you",
            ),
            (json!({"conditions": [approved, failed]}), "never: signing failed: SignerValidationFailure"),
        ];
        for (status, want) in cases {
            let spec = json!({"request": "", "signerName": "s"});
            let request: CertificateSigningRequest = object(json!({"metadata": {}, "spec": spec, "status": status}));
            assert_eq!(shown(&csr_issued(Some(&request))), want, "{status}");
        }
    }

    #[test]
    fn a_definition_is_established_when_it_says_so() {
        let taken = json!([{"type": "NamesAccepted", "status": "False", "reason": "Conflict", "message": "taken",
                            "lastTransitionTime": "2026-11-16T03:00:00Z"}]);
        let established =
            json!([{"type": "Established", "status": "True", "lastTransitionTime": "2026-11-16T03:00:00Z"}]);
        let cases = [
            (Value::Null, "not yet: it is not established yet"),
            (json!({"conditions": taken}), "not yet: its names are not accepted: Conflict: taken"),
            (json!({"conditions": established}), "holds"),
        ];
        for (status, want) in cases {
            let spec = json!({"group": "g", "names": {"kind": "K", "plural": "k"}, "scope": "Cluster", "versions": []});
            let definition: CustomResourceDefinition = object(json!({"metadata": {}, "spec": spec, "status": status}));
            assert_eq!(shown(&crd_established(Some(&definition))), want, "{status}");
        }
    }

    #[test]
    fn an_addon_is_done_when_it_says_so() {
        let cases = [
            (json!({}), "not yet: it has not reported yet"),
            (json!({"conditions": [{"type": "Applied", "status": "True"}]}), "not yet: it has not reported yet"),
            (json!({"conditions": [{"type": "Done", "status": "False"}]}), "not yet: it is not done"),
            (
                json!({"conditions": [{"type": "Done", "status": "False", "reason": "Waiting", "message": "1 of 2"}]}),
                "not yet: Waiting: 1 of 2",
            ),
            (json!({"conditions": [{"type": "Done", "status": "True"}]}), "holds"),
        ];
        for (status, want) in cases {
            let addon: DynamicObject = object(json!({"metadata": {"name": "dns"}, "status": status}));
            assert_eq!(shown(&addon_done(Some(&addon))), want, "{status}");
        }
    }

    #[test]
    fn a_report_about_another_generation_is_not_believed() {
        let cases = [
            (json!(2), json!(2), "holds"),
            (json!(2), json!(1), "not yet: it was changed since it reported"),
            (json!(2), Value::Null, "holds"),
            (Value::Null, json!(1), "holds"),
        ];
        for (generation, observed, want) in cases {
            let mut done = json!({"type": "Done", "status": "True", "observedGeneration": observed});
            if observed.is_null() {
                done.as_object_mut().unwrap().remove("observedGeneration");
            }
            let metadata = json!({"name": "dns", "generation": generation});
            let addon: DynamicObject = object(json!({"metadata": metadata, "status": {"conditions": [done]}}));
            assert_eq!(shown(&addon_done(Some(&addon))), want, "{addon:?}");
        }
    }
}
