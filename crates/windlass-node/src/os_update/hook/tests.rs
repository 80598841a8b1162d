use std::sync::Mutex;

use super::super::testing::{in_api, node, object, saying};
use super::*;
use crate::follow::fake::{FakeApi, NODES};

/// A double: it fails as long as it has a reason to.
#[derive(Default)]
struct Stage {
    trouble: Mutex<Option<&'static str>>,
    tried: Mutex<usize>,
}

impl StageNext for &Stage {
    async fn stage_for_next_os(&self) -> Result<Staged, StageError> {
        *self.tried.lock().unwrap() += 1;
        match *self.trouble.lock().unwrap() {
            Some(why) => Err(why.into()),
            None => Ok(Staged { os: "2".to_owned() }),
        }
    }
}

#[test]
fn the_hook_acts_only_between_the_label_and_the_word() {
    let cases = [
        ("nothing is asked", vec![], "none"),
        ("it is asked", vec!["#before-reboot=true"], "stage"),
        ("it has failed before", vec!["#before-reboot=true", "windlass.dev/addons-staged=failed: x"], "stage"),
        ("it has staged", vec!["#before-reboot=true", "windlass.dev/addons-staged=true"], "none"),
        ("it is over", vec!["windlass.dev/addons-staged=true"], "clear"),
        ("it is over without success", vec!["windlass.dev/addons-staged=failed: x"], "clear"),
        ("the label says no", vec!["#before-reboot=false"], "none"),
    ];
    for (name, words, want) in cases {
        let is = match plan(&saying(node("worker-0"), &words)) {
            None => "none",
            Some(Change::Stage) => "stage",
            Some(Change::Clear(_)) => "clear",
        };
        assert_eq!(is, want, "{name}");
    }
}

#[tokio::test]
async fn a_node_says_that_it_is_staged_or_why_not() {
    let api = FakeApi::start().await;
    api.put(NODES, object(&node("worker-0")));
    let stage = Stage::default();
    *stage.trouble.lock().unwrap() = Some("no signature");
    let again = Duration::from_millis(100);
    let hook = Hook { again, ..Hook::new(api.client().await, "worker-0", &stage) };
    let said = |api: &FakeApi| in_api(api, "worker-0").annotations.get(ADDONS_STAGED).cloned();
    let asking = async {
        api.until(|api| api.asked(&format!("GET {NODES}/worker-0")) > 0).await;
        assert_eq!(*stage.tried.lock().unwrap(), 0);
        api.put(NODES, object(&saying(in_api(&api, "worker-0"), &["#before-reboot=true"])));
        api.until(|api| said(api).as_deref() == Some("failed: no signature")).await;
        *stage.trouble.lock().unwrap() = None;
        api.until(|api| said(api).as_deref() == Some("true")).await;
        let mut over = in_api(&api, "worker-0");
        over.labels.clear();
        api.put(NODES, object(&over));
        api.until(|api| said(api).is_none()).await;
        let tried = *stage.tried.lock().unwrap();
        api.put(NODES, object(&saying(in_api(&api, "worker-0"), &["#before-reboot=true"])));
        api.until(|api| said(api).as_deref() == Some("true")).await;
        assert_eq!(*stage.tried.lock().unwrap(), tried + 1, "what is staged is not staged again");
    };
    tokio::select! {
        _never = hook.serve() => {}
        () = asking => {}
    }
}
