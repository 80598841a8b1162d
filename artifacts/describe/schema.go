package describe

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

// Schema is the part of JSON Schema that configuration files need.
type Schema struct {
	// Type is a type name, or several where the decoder accepts either.
	Type        any    `json:"type,omitempty"`
	Format      string `json:"format,omitempty"`
	Default     any    `json:"default,omitempty"`
	Enum        []any  `json:"enum,omitempty"`
	Description string `json:"description,omitempty"`

	Items                *Schema            `json:"items,omitempty"`
	AdditionalProperties *Schema            `json:"additionalProperties,omitempty"`
	Properties           map[string]*Schema `json:"properties,omitempty"`
}

// FieldDoc adds what reflection cannot see, such as a description, to the schema of
// the field that a struct type names so in JSON.
type FieldDoc func(owner reflect.Type, name string, schema *Schema)

// leaves are the types that decode from something other than their Go structure.
var leaves = map[string]Schema{
	"k8s.io/apimachinery/pkg/apis/meta/v1.Duration":        {Type: "string", Format: "duration"},
	"k8s.io/apimachinery/pkg/apis/meta/v1.Time":            {Type: "string", Format: "date-time"},
	"k8s.io/apimachinery/pkg/apis/meta/v1.MicroTime":       {Type: "string", Format: "date-time"},
	"k8s.io/apimachinery/pkg/api/resource.Quantity":        {Type: "string", Format: "quantity"},
	"k8s.io/apimachinery/pkg/api/resource.QuantityValue":   {Type: "string", Format: "quantity"},
	"k8s.io/apimachinery/pkg/util/intstr.IntOrString":      {Type: []string{"integer", "string"}},
	"k8s.io/component-base/logs/api/v1.TimeOrMetaDuration": {Type: []string{"string", "integer"}, Format: "duration"},
	"k8s.io/apimachinery/pkg/apis/meta/v1.FieldsV1":        {Type: "object"},
	"k8s.io/apimachinery/pkg/runtime.RawExtension":         {Type: "object"},
}

// SchemaOf describes what decodes into the type of `sample`. Values that `sample`
// holds become the defaults of the leaves they belong to.
func SchemaOf(sample any, doc FieldDoc) (*Schema, error) {
	text, err := json.Marshal(sample)
	if err != nil {
		return nil, fmt.Errorf("cannot encode the defaults of %T: %w", sample, err)
	}
	var defaults any
	if err := json.Unmarshal(text, &defaults); err != nil {
		return nil, fmt.Errorf("cannot read back the defaults of %T: %w", sample, err)
	}
	schema, err := schemaOf(reflect.TypeOf(sample), doc)
	if err != nil {
		return nil, err
	}
	schema.setDefaults(defaults)
	return schema, nil
}

func schemaOf(t reflect.Type, doc FieldDoc) (*Schema, error) {
	if t.Kind() == reflect.Pointer {
		return schemaOf(t.Elem(), doc)
	}
	if leaf, ok := leaves[t.PkgPath()+"."+t.Name()]; ok {
		return &leaf, nil
	}
	if reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		return nil, fmt.Errorf("%v decodes by its own rules: add it to the leaves", t)
	}
	switch t.Kind() {
	case reflect.Bool:
		return &Schema{Type: "boolean"}, nil
	case reflect.Int, reflect.Int64, reflect.Uint64:
		return &Schema{Type: "integer", Format: "int64"}, nil
	case reflect.Int32:
		return &Schema{Type: "integer", Format: "int32"}, nil
	case reflect.Uint32:
		return &Schema{Type: "integer", Format: "uint32"}, nil
	case reflect.Float32, reflect.Float64:
		return &Schema{Type: "number"}, nil
	case reflect.String:
		return &Schema{Type: "string"}, nil
	case reflect.Slice:
		return listOf(t, doc)
	case reflect.Map:
		values, err := schemaOf(t.Elem(), doc)
		return &Schema{Type: "object", AdditionalProperties: values}, err
	case reflect.Struct:
		schema := &Schema{Type: "object", Properties: map[string]*Schema{}}
		return schema, schema.addFields(t, doc)
	default:
		return nil, fmt.Errorf("%v has no form in JSON", t)
	}
}

func listOf(t reflect.Type, doc FieldDoc) (*Schema, error) {
	if t.Elem().Kind() == reflect.Uint8 {
		return &Schema{Type: "string", Format: "byte"}, nil
	}
	items, err := schemaOf(t.Elem(), doc)
	return &Schema{Type: "array", Items: items}, err
}

// addFields adds the fields of a struct by their JSON names. The fields of an
// embedded struct without a name of its own count as the outer struct's.
func (s *Schema) addFields(t reflect.Type, doc FieldDoc) error {
	for _, field := range reflect.VisibleFields(t) {
		if len(field.Index) > 1 || !field.IsExported() && !field.Anonymous {
			continue
		}
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "-" {
			continue
		}
		if name == "" && field.Anonymous {
			if err := s.addFields(field.Type, doc); err != nil {
				return err
			}
			continue
		}
		if name == "" {
			name = field.Name
		}
		schema, err := schemaOf(field.Type, doc)
		if err != nil {
			return fmt.Errorf("%v.%s: %w", t, field.Name, err)
		}
		doc(t, name, schema)
		s.Properties[name] = schema
	}
	return nil
}

// setDefaults hands each part of a decoded value to the property it belongs to.
// Nothing and emptiness are no defaults: leaving the field out says the same.
func (s *Schema) setDefaults(value any) {
	if s.Properties == nil {
		if !empty(value) {
			s.Default = value
		}
		return
	}
	fields, _ := value.(map[string]any)
	for name, field := range fields {
		if property := s.Properties[name]; property != nil {
			property.setDefaults(field)
		}
	}
}

func empty(value any) bool {
	switch value := value.(type) {
	case nil:
		return true
	case string:
		return value == ""
	case []any:
		return len(value) == 0
	case map[string]any:
		return len(value) == 0
	default:
		return false
	}
}
