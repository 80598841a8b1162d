package describe

import (
	"flag"
	"reflect"
	"regexp"
	"strings"

	"github.com/spf13/pflag"
)

// Flag is what one command-line flag accepts.
type Flag struct {
	Type string `json:"type"`
	// Default is the value a component uses when the flag is absent, as the flag's
	// own text form. The empty text also stands for "no value", which pflag prints
	// as `<nil>` for addresses.
	Default    string `json:"default"`
	Deprecated bool   `json:"deprecated,omitempty"`
	// Hidden flags are parsed, but --help does not show them.
	Hidden bool   `json:"hidden,omitempty"`
	Usage  string `json:"usage,omitempty"`
}

// Flags reads a flag set as Kubernetes components use them.
func Flags(set *pflag.FlagSet) map[string]Flag {
	flags := map[string]Flag{}
	set.VisitAll(func(f *pflag.Flag) {
		_, usage := pflag.UnquoteUsage(f)
		flags[f.Name] = Flag{
			Type:       f.Value.Type(),
			Default:    defaultText(f.DefValue),
			Deprecated: f.Deprecated != "" || saysDeprecated(usage),
			Hidden:     f.Hidden,
			Usage:      FirstSentence(usage),
		}
	})
	return flags
}

// GoFlags reads a flag set of the standard library, as etcd uses them. Those carry
// no type names, so the type is named after what the value holds.
func GoFlags(set *flag.FlagSet) map[string]Flag {
	flags := map[string]Flag{}
	set.VisitAll(func(f *flag.Flag) {
		_, usage := flag.UnquoteUsage(f)
		flags[f.Name] = Flag{
			Type:       goFlagType(f),
			Default:    defaultText(f.DefValue),
			Deprecated: saysDeprecated(usage),
			Usage:      FirstSentence(usage),
		}
	})
	return flags
}

func goFlagType(f *flag.Flag) string {
	if b, ok := f.Value.(interface{ IsBoolFlag() bool }); ok && b.IsBoolFlag() {
		return "bool"
	}
	// UnquoteUsage names the value after its type, unless the usage text quotes
	// another name; an empty usage leaves only the type.
	name, _ := flag.UnquoteUsage(&flag.Flag{Value: f.Value})
	if name != "value" {
		return name
	}
	switch reflect.Indirect(reflect.ValueOf(f.Value)).Kind() {
	case reflect.Uint32, reflect.Uint64:
		return "uint"
	default:
		return "string"
	}
}

func defaultText(text string) string {
	if text == "<nil>" {
		return ""
	}
	return text
}

var deprecatedMark = regexp.MustCompile(`^\W*(?i:deprecated)\b`)

// saysDeprecated recognises flags that are deprecated in words only: pflag refuses
// to describe a deprecated flag twice, so many components never mark them.
func saysDeprecated(usage string) bool {
	return deprecatedMark.MatchString(strings.TrimSpace(usage))
}

var (
	// A sentence ends at its mark, before the list it announces, or where upstream's
	// comments go on to name the default without ending it.
	sentenceEnd = regexp.MustCompile(`[.!?]\s+[A-Z0-9'"\[(-]|[.:;]$|:\s+[-*]\s|\s[Dd]efault: `)
	// A first sentence of one such word says nothing about the field.
	remark = regexp.MustCompile(`^(Required|Optional)\.\s+`)
)

// abbreviations end in a full stop that ends no sentence.
var abbreviations = []string{"e.g", "i.e", "etc", "vs", "eg", "ie"}

// FirstSentence cuts a text down to one line and one sentence, without its full stop.
func FirstSentence(text string) string {
	paragraph, _, _ := strings.Cut(strings.TrimSpace(text), "\n\n")
	line := remark.ReplaceAllString(strings.Join(strings.Fields(paragraph), " "), "")
	for at := 0; ; {
		end := sentenceEnd.FindStringIndex(line[at:])
		if end == nil {
			return line
		}
		at += end[0]
		if !endsAbbreviated(line[:at]) {
			return line[:at]
		}
		at++
	}
}

func endsAbbreviated(text string) bool {
	for _, short := range abbreviations {
		if strings.HasSuffix(strings.ToLower(text), short) {
			return true
		}
	}
	return false
}
