// Prints what the etcd server accepts: every flag with its type and default.
//
// Most flags are registered by etcd's embed package, which this program asks. A few
// more are known only to etcd's main package, which shows them in its help and
// nowhere else; so this program runs itself as `etcd --help` and reads the answer.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"regexp"

	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"windlass/describe"
)

func main() {
	if len(os.Args) > 1 {
		etcdmain.Main(os.Args)
		return
	}
	document, err := document()
	if err == nil {
		err = describe.Write(os.Stdout, document)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func document() (describe.Object, error) {
	version, err := describe.LinkedVersion("go.etcd.io/etcd/server/v3")
	if err != nil {
		return nil, err
	}
	help, err := help()
	if err != nil {
		return nil, err
	}
	set := flag.NewFlagSet("etcd", flag.ContinueOnError)
	embed.NewConfig().AddFlags(set)
	flags := merge(describe.GoFlags(set), help)
	return describe.Object{
		{Name: "etcd", Value: version},
		{Name: "flags", Value: describe.FlagLines(flags)},
	}, nil
}

// helpFlag is a flag as etcd's help shows it.
type helpFlag struct{ shownDefault, text string }

var (
	helpEntry = regexp.MustCompile(`(?m)^  --([a-z0-9-]+)(?: '?(.*?)'?)?\n((?:    .*\n)+)`)
	// "Will be deprecated" is not yet.
	deprecated = regexp.MustCompile(`Deprecated (?:in|and)\b|It's deprecated`)
)

func help() (map[string]helpFlag, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("cannot find this program: %w", err)
	}
	var stderr bytes.Buffer
	command := exec.Command(self, "--help")
	command.Stderr = &stderr
	text, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("etcd --help: %w: %s", err, stderr.String())
	}
	flags := map[string]helpFlag{}
	for _, entry := range helpEntry.FindAllStringSubmatch(string(text), -1) {
		flags[entry[1]] = helpFlag{shownDefault: entry[2], text: entry[3]}
	}
	if len(flags) == 0 {
		return nil, fmt.Errorf("etcd --help shows no flags: %q", text)
	}
	return flags, nil
}

// merge adds to the embed package's flags those of the main package, all of which
// hold text, and what the help says about either.
func merge(flags map[string]describe.Flag, help map[string]helpFlag) map[string]describe.Flag {
	for name, shown := range help {
		if _, ok := flags[name]; !ok {
			flags[name] = describe.Flag{
				Type:    "string",
				Default: shown.shownDefault,
				Usage:   describe.FirstSentence(shown.text),
			}
		}
	}
	for name, f := range flags {
		shown, ok := help[name]
		f.Hidden = !ok
		f.Deprecated = f.Deprecated || deprecated.MatchString(shown.text)
		flags[name] = f
	}
	// The help gives these two in its usage, as commands rather than flags.
	flags["config-file"] = describe.Flag{Type: "string", Usage: "Path to the server configuration file"}
	flags["version"] = describe.Flag{Type: "bool", Default: "false", Usage: "Print the version and exit"}
	return flags
}
