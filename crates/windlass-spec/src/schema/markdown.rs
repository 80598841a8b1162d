//! The schema as the reference page `docs/reference/spec.md`.

use super::{Field, Origin, ROOT};

/// Every field as a table row, in the order of the spec.
pub fn markdown() -> String {
    let mut page = String::from(
        "# The spec\n\n\
         Every field, its type, where its value comes from when you do not write it, and the document it serves.\n\
         `windlass spec explain PATH` shows the same for one field with the value that your spec gives it.\n\n\
         | field | type | default | document | what it is for |\n|---|---|---|---|---|\n",
    );
    rows(ROOT, "", &mut page);
    page
}

fn rows(fields: &[Field], path: &str, page: &mut String) {
    for field in fields {
        let at = if path.is_empty() { field.name.to_owned() } else { format!("{path}.{}", field.name) };
        let origin = match field.origin {
            Origin::Required => "required".to_owned(),
            Origin::Default(value) => format!("`{value}`"),
            Origin::Derived(from) => format!("derived from {from}"),
            Origin::Unset => "not set".to_owned(),
        };
        let document = field.serves.title().split(' ').next().unwrap_or_default();
        page.push_str(&format!("| `{at}` | {} | {origin} | {document} | {} |\n", field.kind.words(), field.summary));
        let below = if matches!(field.kind, super::Kind::List(_)) { format!("{at}[]") } else { at };
        rows(field.kind.fields(), &below, page);
    }
}
