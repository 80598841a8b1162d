//! The templates and how they are filled in. Every value is written as a JSON scalar, list or mapping, which is YAML
//! too, so a value can never become structure: nobody has to remember to quote.

use std::sync::LazyLock;

use minijinja::syntax::SyntaxConfig;
use minijinja::{AutoEscape, Environment, Error, ErrorKind, Output, State, UndefinedBehavior, Value};

use windlass_spec::yaml;

use super::ManifestError;

macro_rules! template {
    ($name:literal) => {
        ($name, include_str!(concat!("../../templates/", $name)))
    };
}

static TEMPLATES: &[(&str, &str)] = &[
    template!("addon-definition.yaml"),
    template!("addons/coredns.yaml"),
    template!("addons/dashboard.yaml"),
    template!("addons/dns-controller.yaml"),
    template!("addons/flannel.yaml"),
    template!("addons/kube-proxy.yaml"),
    template!("addons/os-update.yaml"),
    template!("addons/pre-reboot.yaml"),
    template!("addons/runtime-mappings.yaml"),
    template!("control-plane/checkpointer.yaml"),
    template!("control-plane/csr-approver.yaml"),
    template!("control-plane/daemon-set.yaml"),
    template!("control-plane/deployment.yaml"),
    template!("control-plane/machine-config-server.yaml"),
    template!("master/etcd.yaml"),
    template!("pod.yaml"),
    template!("rbac.yaml"),
    template!("static-pod.yaml"),
];

static ENVIRONMENT: LazyLock<Environment<'static>> = LazyLock::new(|| {
    let mut environment = empty_environment();
    for (name, text) in TEMPLATES {
        environment.add_template(name, text).expect("the templates are part of the program, and the tests render each");
    }
    environment
});

/// Fills a template in.
pub(super) fn render(template: &'static str, context: Value) -> Result<String, ManifestError> {
    let rendered = ENVIRONMENT.get_template(template).and_then(|t| t.render(context));
    rendered.map_err(|source| ManifestError::RenderTemplate { template, source })
}

/// Text that is YAML already, for a template that puts it in with `indented`.
pub(super) fn yaml(text: String) -> Value {
    Value::from_safe_string(text)
}

fn empty_environment() -> Environment<'static> {
    let mut environment = Environment::new();
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).keep_trailing_newline(true).build();
    environment.set_syntax(syntax.expect("the delimiters are the default ones"));
    // A value that a template forgets or misspells must not become an empty field.
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_auto_escape_callback(|_| AutoEscape::Json);
    environment.set_formatter(write_value);
    environment.add_filter("indented", indented);
    environment.add_filter("literal", literal);
    environment
}

/// The engine's JSON leaves a few characters as they are that YAML readers refuse or take for line breaks.
fn write_value(out: &mut Output, _: &mut State, value: &Value) -> Result<(), Error> {
    match value.as_str() {
        Some(text) if value.is_safe() => Ok(out.write_str(text)?),
        _ => Ok(out.write_str(&quoted(value)?)?),
    }
}

fn quoted(value: &Value) -> Result<String, Error> {
    let json = serde_json::to_value(value).map_err(|source| {
        Error::new(ErrorKind::BadSerialization, "cannot write a value as JSON").with_source(source)
    })?;
    Ok(yaml::quoted(&json))
}

/// YAML put under a key: every line but empty ones moved to the right. Only for [`yaml`], never for a plain value.
fn indented(text: &Value, width: usize) -> Result<Value, Error> {
    match text.as_str() {
        Some(text_str) if text.is_safe() => Ok(Value::from_safe_string(shifted(text_str, width))),
        _ => Err(Error::new(ErrorKind::InvalidOperation, "only rendered YAML can be indented")),
    }
}

/// A text as a literal block whose lines start at column `width`, or quoted if a block could not hold it exactly.
fn literal(text: &str, width: usize) -> Result<Value, Error> {
    let body = text.strip_suffix('\n').unwrap_or_default();
    let exact = !body.is_empty()
        && !body.ends_with('\n')
        && !body.starts_with([' ', '\n'])
        && body.chars().all(|c| c == '\n' || yaml::is_printable(c));
    if exact {
        return Ok(Value::from_safe_string(format!("|\n{}", shifted(body, width))));
    }
    Ok(Value::from_safe_string(quoted(&Value::from(text))?))
}

fn shifted(text: &str, width: usize) -> String {
    let pad = " ".repeat(width);
    let line = |line: &str| if line.is_empty() { String::new() } else { format!("{pad}{line}") };
    text.trim_end_matches('\n').split('\n').map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use minijinja::context;
    use proptest::prelude::*;
    use serde_json::json;
    use windlass_spec::yaml::{Budget, read};

    use super::*;

    fn render(template: &str, context: Value) -> Result<serde_json::Value, String> {
        let text = empty_environment().render_str(template, context).map_err(|e| e.to_string())?;
        read(text.as_bytes(), &Budget::SPEC).map(|node| node.to_json()).map_err(|e| format!("{e}\n{text}"))
    }

    #[test]
    fn characters_that_yaml_takes_for_breaks_are_escaped() {
        let hostile = "\u{0}\u{7f}\u{85}\u{2028}\u{2029}\u{feff}\u{fffe}\u{ffff}";
        let text = quoted(&Value::from(hostile)).unwrap();
        assert_eq!(text, r#""\u0000\u007F\u0085\u2028\u2029\uFEFF\uFFFE\uFFFF""#);
    }

    #[test]
    fn an_unknown_name_is_an_error() {
        let error = render("a: {{ b }}", context!(c => 1)).unwrap_err();
        assert!(error.contains("undefined"), "{error}");
    }

    #[test]
    fn a_plain_value_cannot_be_put_in_as_yaml() {
        let error = render("a:\n{{ b | indented(2) }}", context!(b => "c: d")).unwrap_err();
        assert!(error.contains("only rendered YAML"), "{error}");
        let rendered = render("a:\n{{ b | indented(2) }}", context!(b => yaml("c: d\ne: f\n".into())));
        assert_eq!(rendered, Ok(json!({"a": {"c": "d", "e": "f"}})));
    }

    #[test]
    fn every_template_has_a_file_and_every_file_is_a_template() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("templates");
        let mut found = Vec::new();
        let mut folders = vec![root.clone()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()) {
                match entry.is_dir() {
                    true => folders.push(entry),
                    false => found.push(entry.strip_prefix(&root).unwrap().to_str().unwrap().to_owned()),
                }
            }
        }
        found.sort();
        assert_eq!(found, TEMPLATES.iter().map(|(name, _)| *name).collect::<Vec<_>>());
    }

    proptest! {
        #[test]
        fn any_text_comes_back_as_it_was(text in any::<String>(), lines in "[a-z \\n\\t:#{}%-]{0,40}") {
            for text in [text, lines] {
                let rendered = render("a: {{ t }}\nb: [{{ t }}]\nc: {{ t | literal(2) }}\n", context!(t => text.as_str()));
                prop_assert_eq!(rendered, Ok(json!({"a": text, "b": [text], "c": text})));
            }
        }
    }
}
