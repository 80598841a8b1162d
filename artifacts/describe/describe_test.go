package describe

import (
	"bytes"
	"flag"
	"reflect"
	"testing"
	"time"
)

func TestFirstSentenceIsOneLineAndOneSentence(t *testing.T) {
	for text, want := range map[string]string{
		"Path to a file.": "Path to a file",
		"A limit (e.g. 10Mi).\nMore of it. And more.": "A limit (e.g. 10Mi)",
		"DEPRECATED: Use the file. Really.":           "DEPRECATED: Use the file",
		"Required. The taint key.":                    "The taint key",
		"One of: - this - that":                       "One of",
		"The cgroups\nDefault: \"\"":                  "The cgroups",
		"Gates:\n\nA=true|false":                      "Gates",
		"":                                            "",
	} {
		if got := FirstSentence(text); got != want {
			t.Errorf("FirstSentence(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestGoFlagsNameTypesAndDeprecation(t *testing.T) {
	set := flag.NewFlagSet("", flag.ContinueOnError)
	set.Duration("wait", time.Minute, "How long.")
	set.Bool("old", true, "DEPRECATED: does nothing.")
	want := map[string]Flag{
		"wait": {Type: "duration", Default: "1m0s", Usage: "How long"},
		"old":  {Type: "bool", Default: "true", Deprecated: true, Usage: "DEPRECATED: does nothing"},
	}
	if got := GoFlags(set); !reflect.DeepEqual(got, want) {
		t.Errorf("GoFlags = %+v, want %+v", got, want)
	}
}

type inner struct {
	Kept int32 `json:"kept"`
}

type outer struct {
	inner   `json:",inline"`
	Names   []string        `json:"names,omitempty"`
	Gates   map[string]bool `json:"gates"`
	Deep    *inner          `json:"deep"`
	Dropped string          `json:"-"`
}

func TestSchemaFollowsJSONNamesAndKeepsDefaults(t *testing.T) {
	sample := outer{inner: inner{Kept: 7}, Names: []string{"a"}}
	schema, err := SchemaOf(&sample, func(reflect.Type, string, *Schema) {})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := Write(&out, Object{{"outer", schema.Lines()}}); err != nil {
		t.Fatal(err)
	}
	const want = `{
  "outer": {
    "type": "object",
    "properties": {
      "deep": {
        "type": "object",
        "properties": {
          "kept": {"type":"integer","format":"int32"}
        }
      },
      "gates": {"type":"object","additionalProperties":{"type":"boolean"}},
      "kept": {"type":"integer","format":"int32","default":7},
      "names": {"type":"array","default":["a"],"items":{"type":"string"}}
    }
  }
}
`
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}

type secretive struct{}

func (*secretive) UnmarshalJSON([]byte) error { return nil }

func TestSchemaRefusesTypesThatDecodeByTheirOwnRules(t *testing.T) {
	if _, err := SchemaOf(&secretive{}, nil); err == nil {
		t.Error("a type with its own decoder was described by its structure")
	}
}
