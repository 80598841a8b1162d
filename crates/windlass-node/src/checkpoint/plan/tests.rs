use super::*;

const OTHERS: [&str; 3] = ["kube-apiserver", "kube-controller-manager", "kube-scheduler"];

fn program(name: &str) -> Program {
    Program::parse(name).unwrap()
}

fn view(real: Real, word: Word, waiting: Option<&str>, active: Option<&str>) -> View {
    View { real, word, waiting: waiting.map(str::to_owned), active: active.map(str::to_owned) }
}

fn seen(api: Reach, programs: &[(&str, View)]) -> Seen {
    Seen { api, programs: programs.iter().map(|(name, view)| (program(name), view.clone())).collect() }
}

fn here(copy: Option<&str>, steady: u32) -> Word {
    Word::Here { copy: copy.map(str::to_owned), steady }
}

fn gone(looks: u32, elsewhere: Elsewhere) -> Word {
    Word::Gone { looks, elsewhere }
}

/// What the files would be afterwards.
fn after(seen: &Seen, changes: &[Change]) -> Seen {
    let mut next = seen.clone();
    for change in changes {
        let (program, waiting, active) = match change {
            Change::Keep(program, copy) => (program, Some(Some(copy.clone())), None),
            Change::Activate(program, copy) => (program, None, Some(Some(copy.clone()))),
            Change::Deactivate(program) => (program, None, Some(None)),
            Change::Forget(program) => (program, Some(None), None),
        };
        let view = next.programs.get_mut(program).unwrap();
        view.waiting = waiting.unwrap_or(view.waiting.take());
        view.active = active.unwrap_or(view.active.take());
    }
    next
}

/// One program in a machine where the checkpointer's own pod and copy are well, so that it is not cold.
fn warm(api: Reach, name: &str, view_of: View) -> Seen {
    seen(api, &[(name, view_of), ("checkpointer", view(Real::Runs, here(Some("own"), 99), Some("own"), Some("own")))])
}

#[test]
fn one_program_among_others_that_run() {
    use Elsewhere::{Nowhere, Well};
    use Reach::{Answers, Silent};
    use Real::{Absent, Runs};
    let keep = |copy: &str| vec![Change::Keep(program("kube-apiserver"), copy.to_owned())];
    let start = |copy: &str| vec![Change::Activate(program("kube-apiserver"), copy.to_owned())];
    let stop = || Change::Deactivate(program("kube-apiserver"));
    let forget = || Change::Forget(program("kube-apiserver"));
    let away = |looks| Absent { looks };
    let cases = [
        ("first start, not started yet", Answers, view(away(9), here(None, 0), None, None), vec![]),
        ("started for the first time", Answers, view(Runs, here(Some("a"), 0), None, None), keep("a")),
        ("all is well", Answers, view(Runs, here(Some("a"), 99), Some("a"), None), vec![]),
        ("updated", Answers, view(Runs, here(Some("b"), 0), Some("a"), None), keep("b")),
        ("update not started", Answers, view(Runs, here(None, 0), Some("a"), None), vec![]),
        ("runs, nobody to ask", Silent, view(Runs, Word::Unknown, Some("a"), None), vec![]),
        ("a restart", Silent, view(away(9), Word::Unknown, Some("a"), None), vec![]),
        ("down", Silent, view(away(10), Word::Unknown, Some("a"), None), start("a")),
        ("down without a copy", Silent, view(away(99), Word::Unknown, None, None), vec![]),
        ("down, the API shows it", Answers, view(away(10), here(None, 0), Some("a"), None), start("a")),
        ("down, copy runs", Silent, view(away(99), Word::Unknown, Some("a"), Some("a")), vec![]),
        ("back, not ready", Answers, view(Runs, here(None, 0), Some("a"), Some("a")), vec![]),
        ("back, just ready", Answers, view(Runs, here(Some("a"), 19), Some("a"), Some("a")), vec![]),
        ("back for good", Answers, view(Runs, here(Some("a"), 20), Some("a"), Some("a")), vec![stop()]),
        ("back, but nobody says ready", Silent, view(Runs, Word::Unknown, Some("a"), Some("a")), vec![]),
        ("ready by an old word only", Answers, view(away(1), here(None, 20), Some("a"), Some("a")), vec![]),
        (
            "back in another form",
            Answers,
            view(Runs, here(Some("b"), 20), Some("a"), Some("a")),
            [keep("b"), vec![stop()]].concat(),
        ),
        ("moved away", Answers, view(away(99), gone(59, Well), Some("a"), None), vec![]),
        ("moved away for good", Answers, view(away(99), gone(60, Well), Some("a"), None), vec![forget()]),
        (
            "moved away, copy runs",
            Answers,
            view(away(99), gone(60, Well), Some("a"), Some("a")),
            vec![stop(), forget()],
        ),
        ("nowhere any more", Answers, view(away(10), gone(60, Nowhere), Some("a"), None), start("a")),
        ("nowhere, copy runs", Answers, view(away(99), gone(1199, Nowhere), Some("a"), Some("a")), vec![]),
        (
            "nowhere for very long",
            Answers,
            view(away(99), gone(1200, Nowhere), Some("a"), Some("a")),
            vec![stop(), forget()],
        ),
        ("an orphan runs", Silent, view(away(99), Word::Unknown, None, Some("a")), vec![]),
        (
            "an orphan whose pod is back",
            Answers,
            view(Runs, here(Some("a"), 20), None, Some("a")),
            [keep("a"), vec![stop()]].concat(),
        ),
    ];
    assert!(cases.len() >= 20);
    for (name, api, view, want) in cases {
        assert_eq!(plan(&warm(api, "kube-apiserver", view)), want, "{name}");
    }
}

#[test]
fn only_the_api_server_starts_without_an_api() {
    for (api, name, starts) in [
        (Reach::Silent, "kube-apiserver", true),
        (Reach::Silent, "kube-scheduler", false),
        (Reach::Answers, "kube-scheduler", true),
        (Reach::Answers, "kube-apiserver", true),
    ] {
        let down = view(Real::Absent { looks: 99 }, Word::Unknown, Some("a"), None);
        let want = if starts { vec![Change::Activate(program(name), "a".into())] } else { vec![] };
        assert_eq!(plan(&warm(api, name, down)), want, "{api:?} {name}");
    }
}

#[test]
fn the_checkpointers_own_copy_always_runs_and_goes_last() {
    let own = || program("checkpointer");
    let up = |word, waiting, active| view(Real::Runs, word, waiting, active);
    let activate = |copy: &str| Change::Activate(own(), copy.to_owned());
    let keep = |copy: &str| Change::Keep(own(), copy.to_owned());
    let over = gone(60, Elsewhere::Well);
    let cases = [
        ("first", up(here(Some("o"), 0), None, None), vec![keep("o"), activate("o")]),
        ("well", up(here(Some("o"), 99), Some("o"), Some("o")), vec![]),
        ("changed", up(here(Some("p"), 99), Some("o"), Some("o")), vec![keep("p"), activate("p")]),
        ("not started", up(here(None, 0), Some("o"), Some("o")), vec![]),
        ("its file is lost", up(Word::Unknown, Some("o"), None), vec![activate("o")]),
        ("its file is another", up(Word::Unknown, Some("o"), Some("x")), vec![activate("o")]),
        ("gone", up(over.clone(), Some("o"), Some("o")), vec![Change::Deactivate(own()), Change::Forget(own())]),
        ("gone for a moment", up(gone(59, Elsewhere::Well), Some("o"), Some("o")), vec![]),
    ];
    for (name, view, want) in cases {
        assert_eq!(plan(&seen(Reach::Answers, &[("checkpointer", view)])), want, "{name}");
    }
    let own_over = ("checkpointer", up(over.clone(), Some("o"), Some("o")));
    let runs = ("kube-apiserver", view(Real::Runs, here(Some("a"), 99), Some("a"), None));
    assert_eq!(plan(&seen(Reach::Answers, &[own_over.clone(), runs])), []);
    let leaves = ("kube-apiserver", view(Real::Absent { looks: 99 }, over, Some("a"), None));
    let want = [Change::Forget(program("kube-apiserver")), Change::Deactivate(own()), Change::Forget(own())];
    assert_eq!(plan(&seen(Reach::Answers, &[own_over, leaves])), want);
}

/// All machines lose their power; what this one sees from then on, look by look.
#[test]
fn the_control_plane_returns_after_a_power_cut() {
    let dark = |looks| view(Real::Absent { looks }, Word::Unknown, Some("a"), None);
    let own = |looks| ("checkpointer", view(Real::Absent { looks }, Word::Unknown, Some("o"), Some("o")));
    let all = |api, looks| {
        let mut programs: Vec<_> = OTHERS.iter().map(|name| (*name, dark(looks))).collect();
        programs.push(own(looks));
        seen(api, &programs)
    };
    assert_eq!(plan(&all(Reach::Silent, 1)), []);
    let first = plan(&all(Reach::Silent, 2));
    assert_eq!(first, [Change::Activate(program("kube-apiserver"), "a".into())]);
    // Its answers are errors or empty at first; that it answers is enough for the others.
    let next = after(&all(Reach::Answers, 20), &first);
    let second = plan(&next);
    let started = ["kube-controller-manager", "kube-scheduler"].map(|name| Change::Activate(program(name), "a".into()));
    assert_eq!(second, started);
    // The kubelet has found the API and started the real pods again.
    let mut back = after(&next, &second);
    for (program, view) in &mut back.programs {
        let copy = if *program == Program::checkpointer() { "o" } else { "a" };
        view.real = Real::Runs;
        view.word = here(Some(copy), 5);
    }
    assert_eq!(plan(&back), []);
    for view in back.programs.values_mut() {
        if let Word::Here { steady, .. } = &mut view.word {
            *steady = 20;
        }
    }
    let third = plan(&back);
    assert_eq!(third, OTHERS.map(|name| Change::Deactivate(program(name))));
    let end = after(&back, &third);
    assert_eq!(plan(&end), []);
    assert!(end.programs.iter().all(|(p, v)| v.active.is_some() == (*p == Program::checkpointer())));
}

/// Every view of one program beside many views of the checkpointer itself.
#[test]
fn applying_the_plan_makes_the_next_plan_empty() {
    let mut views = Vec::new();
    let reals = [Real::Runs, Real::Absent { looks: 0 }, Real::Absent { looks: 5 }, Real::Absent { looks: 50 }];
    let mut words = vec![Word::Unknown, here(None, 0), here(None, 20)];
    words.extend([here(Some("a"), 0), here(Some("a"), 20), here(Some("b"), 20)]);
    for elsewhere in [Elsewhere::Well, Elsewhere::Nowhere] {
        words.extend([gone(0, elsewhere), gone(60, elsewhere), gone(1200, elsewhere)]);
    }
    let copies = [None, Some("a"), Some("b")];
    for real in reals {
        for word in &words {
            for waiting in copies {
                views.extend(copies.map(|active| view(real, word.clone(), waiting, active)));
            }
        }
    }
    for api in [Reach::Silent, Reach::Answers] {
        for name in ["kube-apiserver", "kube-scheduler"] {
            for other in &views {
                // A number without a factor of the lists above meets every value of each of them.
                for own in views.iter().step_by(11) {
                    let now = seen(api, &[(name, other.clone()), ("checkpointer", own.clone())]);
                    let next = after(&now, &plan(&now));
                    assert_eq!(plan(&next), [], "{now:?}");
                }
            }
        }
    }
}

#[test]
fn no_copy_goes_without_a_word_of_the_api() {
    for looks in [0, 1, 100, 100_000] {
        for active in [None, Some("a")] {
            let down = view(Real::Absent { looks }, Word::Unknown, Some("a"), active);
            for api in [Reach::Silent, Reach::Answers] {
                let changes = plan(&warm(api, "kube-apiserver", down.clone()));
                assert!(!changes.iter().any(|c| matches!(c, Change::Forget(_) | Change::Deactivate(_))), "{changes:?}");
            }
        }
    }
}
