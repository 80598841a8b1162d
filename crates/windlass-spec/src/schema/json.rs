//! The schema as JSON Schema, for editors: `windlass spec schema`.

use serde_json::{Map, Value, json};

use super::{Field, Kind, Origin, ROOT};

/// The whole schema in JSON Schema's 2020-12 draft.
pub fn json_schema() -> Value {
    let mut schema = object(ROOT);
    let map = schema.as_object_mut().expect("an object's schema is an object");
    map.insert("$schema".into(), "https://json-schema.org/draft/2020-12/schema".into());
    map.insert("title".into(), "windlass cluster spec".into());
    schema
}

fn object(fields: &[Field]) -> Value {
    let properties: Map<String, Value> = fields.iter().map(|f| (f.name.to_owned(), property(f))).collect();
    let required: Vec<&str> = fields.iter().filter(|f| f.origin == Origin::Required).map(|f| f.name).collect();
    let mut schema = json!({ "type": "object", "additionalProperties": false, "properties": properties });
    if !required.is_empty() {
        schema["required"] = required.into();
    }
    schema
}

fn property(field: &Field) -> Value {
    let mut schema = kind(&field.kind);
    let origin = match field.origin {
        Origin::Required => "Required.".to_owned(),
        Origin::Default(value) => format!("Default: {value}."),
        Origin::Derived(from) => format!("Derived from {from}."),
        Origin::Unset => "Not set by default.".to_owned(),
    };
    schema["description"] = format!("{} {origin}", field.summary).into();
    schema
}

fn kind(kind: &Kind) -> Value {
    match kind {
        Kind::Text(..) => json!({ "type": ["string", "number"] }),
        Kind::Integer(min, max) => json!({ "type": "integer", "minimum": min, "maximum": max }),
        Kind::Bool => json!({ "type": "boolean" }),
        Kind::Words(words) => json!({ "enum": words }),
        Kind::Object(fields) => nullable(object(fields)),
        Kind::OneOf(fields) => {
            let mut schema = object(fields);
            schema["minProperties"] = 1.into();
            schema["maxProperties"] = 1.into();
            schema
        }
        Kind::List(item) => json!({ "type": "array", "items": self::kind(item) }),
        Kind::Flags(_) => json!({
            "type": "object",
            "additionalProperties": { "type": ["string", "number", "boolean", "array", "null"] }
        }),
        Kind::Config(_) => json!({ "type": "object" }),
    }
}

/// `local:` with nothing after it is an empty mapping.
fn nullable(mut schema: Value) -> Value {
    schema["type"] = json!(["object", "null"]);
    schema
}
