// Package describe writes down what the components accept: their flags and the
// schemas of their configuration files.
//
// It is not part of any component. Each component module has a `describe` program
// that links the same commands as its binary and prints one JSON document; windlass
// keeps that document as data and compares the two.
package describe

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
)

// Object is a JSON object that is printed with one field per line.
type Object []Field

// Field is one entry of an Object. A value that is itself an Object is printed over
// several lines, any other on one.
type Field struct {
	Name  string
	Value any
}

// FlagLines lists flags by name, one per line.
func FlagLines(flags map[string]Flag) Object {
	return lines(flags, func(f Flag) any { return f })
}

// Lines lays a schema out so that each property has a line of its own.
func (s *Schema) Lines() any {
	if !s.hasProperties() {
		return s
	}
	var object Object
	if s.Type != nil {
		object = append(object, Field{"type", s.Type})
	}
	if s.Description != "" {
		object = append(object, Field{"description", s.Description})
	}
	if s.Default != nil {
		object = append(object, Field{"default", s.Default})
	}
	if s.Items != nil {
		object = append(object, Field{"items", s.Items.Lines()})
	}
	if s.AdditionalProperties != nil {
		object = append(object, Field{"additionalProperties", s.AdditionalProperties.Lines()})
	}
	if s.Properties != nil {
		object = append(object, Field{"properties", lines(s.Properties, (*Schema).Lines)})
	}
	return object
}

func (s *Schema) hasProperties() bool {
	return s != nil && (s.Properties != nil || s.Items.hasProperties() || s.AdditionalProperties.hasProperties())
}

func lines[V any](values map[string]V, layout func(V) any) Object {
	object := Object{}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		object = append(object, Field{name, layout(values[name])})
	}
	return object
}

// Write prints a document.
func Write(to io.Writer, document Object) error {
	var out bytes.Buffer
	if err := document.print(&out, 0); err != nil {
		return err
	}
	out.WriteByte('\n')
	_, err := to.Write(out.Bytes())
	return err
}

func (o Object) print(out *bytes.Buffer, depth int) error {
	if len(o) == 0 {
		out.WriteString("{}")
		return nil
	}
	out.WriteString("{\n")
	for i, field := range o {
		out.WriteString(strings.Repeat("  ", depth+1))
		if err := printLine(out, field.Name); err != nil {
			return err
		}
		out.WriteString(": ")
		print := func() error { return printLine(out, field.Value) }
		if object, ok := field.Value.(Object); ok {
			print = func() error { return object.print(out, depth+1) }
		}
		if err := print(); err != nil {
			return fmt.Errorf("%s: %w", field.Name, err)
		}
		if i < len(o)-1 {
			out.WriteByte(',')
		}
		out.WriteByte('\n')
	}
	out.WriteString(strings.Repeat("  ", depth) + "}")
	return nil
}

// printLine prints a value on one line, with `<`, `>` and `&` as they are.
func printLine(out *bytes.Buffer, value any) error {
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return err
	}
	out.Truncate(out.Len() - 1) // Encode ends with a newline
	return nil
}

// LinkedVersion is the version, without its `v`, of a module linked into this
// program, so that a document cannot name another version than it describes.
func LinkedVersion(module string) (string, error) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "", fmt.Errorf("this program was built without module information")
	}
	for _, dep := range info.Deps {
		if dep.Path == module {
			return strings.TrimPrefix(dep.Version, "v"), nil
		}
	}
	return "", fmt.Errorf("%s is not linked into this program", module)
}
