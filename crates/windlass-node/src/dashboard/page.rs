//! The page itself: a template and a stylesheet that are part of the program. Every value is escaped by the engine.

use std::sync::LazyLock;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment, UndefinedBehavior};
use serde::Serialize;

use super::summary::{Api, Summary};
use super::table::Section;
use super::view::{Age, WorkloadRow};

/// The stylesheet.
pub const STYLE: &str = include_str!("../../templates/style.css");

/// How often the page asks for itself again, in seconds.
const REFRESH: u32 = 15;

static ENVIRONMENT: LazyLock<Environment<'static>> = LazyLock::new(|| {
    let mut environment = Environment::new();
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
    environment.set_syntax(syntax.expect("the delimiters are the default ones"));
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    environment.add_filter("age", |seconds: u64| Age::seconds(seconds).to_string());
    let page = include_str!("../../templates/page.html");
    environment.add_template("page.html", page).expect("the template is part of the program, and the tests render it");
    environment
});

/// What the template is filled with.
#[derive(Serialize)]
struct Contents<'a> {
    refresh: u32,
    summary: &'a Summary,
    failure: Option<&'a str>,
    tiles: [Tile; 4],
    workloads: [Group<'a>; 4],
}

/// One number at the top of the page.
#[derive(Serialize)]
struct Tile {
    name: &'static str,
    number: String,
    note: &'static str,
    mood: Mood,
}

/// How a tile looks; the words are classes of the stylesheet.
#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Mood {
    Good,
    Bad,
    Unknown,
}

/// The workloads of one kind.
#[derive(Serialize)]
struct Group<'a> {
    kind: &'static str,
    section: &'a Section<WorkloadRow>,
}

/// The page about a cluster.
pub fn page(summary: &Summary) -> Result<String, minijinja::Error> {
    let contents = Contents {
        refresh: REFRESH,
        summary,
        failure: failure(&summary.api),
        tiles: tiles(summary),
        workloads: summary.workloads.kinds().map(|(kind, section)| Group { kind, section }),
    };
    ENVIRONMENT.get_template("page.html")?.render(Serde(contents))
}

fn failure(api: &Api) -> Option<&str> {
    match api {
        Api::Answers { .. } => None,
        Api::Failed { reason } => Some(reason),
    }
}

fn tiles(summary: &Summary) -> [Tile; 4] {
    let kinds = summary.workloads.kinds();
    let workloads = kinds.iter().map(|(_, section)| counts(section)).try_fold((0, 0), |(objects, concerns), kind| {
        let (more, worse) = kind?;
        Some((objects + more, concerns + worse))
    });
    [
        share("Nodes", "ready", counts(&summary.nodes)),
        share("Workloads", "ready", workloads),
        share("Pods", "ready or finished", counts(&summary.pods)),
        match &summary.addons {
            Section::Absent => {
                Tile { name: "Add-ons", number: "none".to_owned(), note: "reported", mood: Mood::Unknown }
            }
            section @ (Section::Listed(_) | Section::Failed { .. }) => share("Add-ons", "done", counts(section)),
        },
    ]
}

fn counts<R>(section: &Section<R>) -> Option<(usize, usize)> {
    section.table().map(|table| (table.objects, table.concerns))
}

fn share(name: &'static str, note: &'static str, counts: Option<(usize, usize)>) -> Tile {
    match counts {
        None => Tile { name, number: "?".to_owned(), note: "not known", mood: Mood::Unknown },
        Some((objects, concerns)) => {
            let number = format!("{}/{objects}", objects.saturating_sub(concerns));
            // Absent is not ready: none of a thing is nothing to be glad about.
            let mood = match (objects, concerns) {
                (0, _) => Mood::Unknown,
                (_, 0) => Mood::Good,
                (_, _) => Mood::Bad,
            };
            Tile { name, number, note, mood }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dashboard::summary::Workloads;
    use crate::dashboard::table::{Row, Table};
    use crate::dashboard::view::{
        AddonRow, AddonState, Condition, EventKind, EventRow, Health, NodeRow, NodeState, PodRow, Scheduling,
    };

    const HOSTILE: &str = "<script>alert('x')</script>\" onload=\"{{ 7*7 }}&amp;</td>";

    fn listed<R: Row>(rows: Vec<R>) -> Section<R> {
        let mut table = Table::new();
        table.add(rows.len(), rows);
        Section::Listed(table)
    }

    fn failed<R>(reason: &str) -> Section<R> {
        Section::Failed { reason: reason.to_owned() }
    }

    /// A cluster in which every text is this one.
    fn full(text: &str) -> Summary {
        let text = text.to_owned();
        let age = Some(Age::seconds(90));
        let node = NodeRow {
            name: text.clone(),
            state: NodeState::NotReady,
            scheduling: Scheduling::Disabled,
            roles: vec![text.clone(), text.clone()],
            version: Some(text.clone()),
            age,
            reason: Some(text.clone()),
        };
        let workload = || {
            listed(vec![WorkloadRow {
                namespace: text.clone(),
                name: text.clone(),
                health: Health::NotReady,
                ready: 1,
                desired: 3,
                age: None,
                reason: Some(text.clone()),
            }])
        };
        let pod = PodRow {
            namespace: text.clone(),
            name: text.clone(),
            node: Some(text.clone()),
            phase: text.clone(),
            reason: Some(text.clone()),
            restarts: 3,
            age,
        };
        let event = EventRow {
            age,
            kind: EventKind::Warning,
            reason: text.clone(),
            object: text.clone(),
            message: text.clone(),
            count: 2,
        };
        let condition = Condition { kind: text.clone(), status: text.clone(), reason: Some(text.clone()) };
        let addon = AddonRow { name: text.clone(), state: AddonState::NotDone, conditions: vec![condition], age };
        Summary {
            time: "2026-11-16T03:00:00.000Z".to_owned(),
            api: Api::Answers { version: text.clone() },
            nodes: listed(vec![node]),
            addons: listed(vec![addon]),
            workloads: Workloads {
                deployments: workload(),
                daemon_sets: workload(),
                stateful_sets: workload(),
                replication_controllers: workload(),
            },
            pods: listed(vec![pod]),
            events: listed(vec![event]),
        }
    }

    /// A cluster of which nothing could be read.
    fn dead(reason: &str) -> Summary {
        Summary {
            time: "2026-11-16T03:00:00.000Z".to_owned(),
            api: Api::Failed { reason: reason.to_owned() },
            nodes: failed(reason),
            addons: failed(reason),
            workloads: Workloads {
                deployments: failed(reason),
                daemon_sets: failed(reason),
                stateful_sets: failed(reason),
                replication_controllers: failed(reason),
            },
            pods: failed(reason),
            events: failed(reason),
        }
    }

    /// Every tag of the page, without what is between them.
    fn tags(page: &str) -> Vec<&str> {
        page.split('<').skip(1).map(|rest| rest.split('>').next().unwrap_or(rest)).collect()
    }

    #[test]
    fn no_value_becomes_markup() {
        for summary in [full, dead] {
            let (calm, hostile) = (page(&summary("calm")).unwrap(), page(&summary(HOSTILE)).unwrap());
            assert_eq!(tags(&hostile), tags(&calm));
            assert!(!hostile.contains("<script") && !hostile.contains("49"));
            let escaped = hostile.matches("&lt;script&gt;alert(&#x27;x&#x27;)").count();
            assert_eq!(escaped, calm.matches("calm").count());
        }
    }

    #[test]
    fn a_failure_shows_with_its_reason_in_every_section() {
        let page = page(&dead("connection refused")).unwrap();
        // The API itself and eight lists.
        assert_eq!(page.matches("connection refused").count(), 9);
        for things in ["nodes", "pods", "add-ons", "deployments", "daemon sets", "stateful sets", "events"] {
            assert!(page.contains(&format!("Cannot list {things}.")), "{things}");
        }
        assert_eq!(page.matches("not known").count(), 4);
    }

    #[test]
    fn an_empty_cluster_says_so() {
        let mut summary = full("calm");
        summary.nodes = listed(Vec::new());
        summary.pods = listed(Vec::new());
        summary.events = listed(Vec::new());
        summary.addons = Section::Absent;
        let page = page(&summary).unwrap();
        let said =
            ["No node has registered.", "There are no pods.", "Nothing has happened lately.", "no Addon objects"];
        for words in said {
            assert!(page.contains(words), "{words}");
        }
        assert!(!page.contains("class=\"good\""), "nothing is no success");
    }

    #[test]
    fn what_is_left_out_is_told() {
        let mut summary = full("calm");
        let Section::Listed(pods) = &mut summary.pods else { panic!("listed") };
        (pods.objects, pods.omitted, pods.extent) = (10_000, 12, crate::dashboard::table::Extent::Part);
        let page = page(&summary).unwrap();
        assert!(page.contains("12 more not shown."));
        assert!(page.contains("Only the first 10000 pods were looked at"));
    }

    #[test]
    fn the_page_needs_nothing_from_elsewhere() {
        let page = page(&full("calm")).unwrap();
        assert!(!page.contains("http://") && !page.contains("https://") && !page.contains("//"));
        assert!(!STYLE.contains("url(") && !STYLE.contains("@import"));
        // Our own policy forbids inline styles and scripts.
        assert!(!page.contains("style=\"") && !page.contains("<style"));
    }
}
