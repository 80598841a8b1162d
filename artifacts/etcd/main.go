// The etcd programs as one binary: the server, its client etcdctl, and etcdutl,
// which works on data directories and snapshots.
//
// It answers to the name it is called by (`etcdctl` as a link to it), or, under any
// other name, to its first argument (`etcd-all etcdctl version`). Called by its own
// name, `etcd`, it is the server.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/etcdctl/v3/ctlv3"
	"go.etcd.io/etcd/etcdutl/v3/etcdutl"
	"go.etcd.io/etcd/pkg/v3/cobrautl"
	"go.etcd.io/etcd/server/v3/etcdmain"
)

// programs runs each program the way its upstream main does.
var programs = map[string]func(){
	"etcd":    func() { etcdmain.Main(os.Args) },
	"etcdctl": ctlv3.MustStart,
	"etcdutl": runEtcdutl,
}

func main() {
	name := filepath.Base(os.Args[0])
	if programs[name] == nil && len(os.Args) > 1 {
		os.Args = os.Args[1:]
		name = os.Args[0]
	}
	run := programs[name]
	if run == nil {
		fmt.Fprintf(os.Stderr, "error: %q is none of etcd, etcdctl, etcdutl\n", name)
		os.Exit(2)
	}
	run()
}

// runEtcdutl puts upstream's commands under a root of our own, because upstream's
// root is part of its main package.
func runEtcdutl() {
	root := &cobra.Command{Use: "etcdutl", Short: "An administrative command line tool for etcd3."}
	root.PersistentFlags().StringVarP(&etcdutl.OutputFormat, "write-out", "w", "simple",
		"set the output format (fields, json, protobuf, simple, table)")
	root.AddCommand(
		etcdutl.NewDefragCommand(),
		etcdutl.NewSnapshotCommand(),
		etcdutl.NewHashKVCommand(),
		etcdutl.NewVersionCommand(),
		etcdutl.NewCompletionCommand(),
		etcdutl.NewMigrateCommand(),
	)
	root.SetHelpTemplate(`{{.UsageString}}`) // the usage is the help, as upstream has it
	if err := root.Execute(); err != nil {
		cobrautl.ExitWithError(cobrautl.ExitError, err)
	}
}
