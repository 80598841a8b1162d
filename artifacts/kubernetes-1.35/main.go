// The Kubernetes programs as one binary.
//
// Most of what each of them links is the same code, so one binary of all seven is
// less than twice as large as one of them. It answers to the name it is called by
// (`kubelet` as a link to it), or, under any other name, to its first argument
// (`kubernetes kubelet --version`).
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	_ "time/tzdata" // CronJobs name time zones, and our images carry no zone files

	_ "k8s.io/client-go/plugin/pkg/client/auth" // kubectl's ways to authenticate
	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // metrics of API requests
	_ "k8s.io/component-base/metrics/prometheus/version"  // kubernetes_build_info
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	kubeadm "k8s.io/kubernetes/cmd/kubeadm/app"
	kubeadmerrors "k8s.io/kubernetes/cmd/kubeadm/app/util/errors"
	"windlass/kubernetes-1.35/components"
)

func main() {
	programs := programs()
	name := filepath.Base(os.Args[0])
	if programs[name] == nil && len(os.Args) > 1 {
		os.Args = os.Args[1:]
		name = os.Args[0]
	}
	run := programs[name]
	if run == nil {
		fmt.Fprintf(os.Stderr, "error: %q is none of %s\n", name, nameList(programs))
		os.Exit(2)
	}
	run()
}

// programs runs each program the way its upstream main does.
func programs() map[string]func() {
	programs := map[string]func(){"kubeadm": runKubeadm, "kubectl": runKubectl}
	for name, command := range components.Commands {
		programs[name] = func() { os.Exit(cli.Run(command())) }
	}
	return programs
}

func nameList(programs map[string]func()) string {
	var names []string
	for name := range programs {
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

func runKubeadm() {
	// kubeadm, too, takes over what other packages registered.
	components.WithOnlyFlags()
	kubeadmerrors.HandleError(kubeadm.Run())
}

func runKubectl() {
	// Making the command already logs, before its flags are parsed.
	if _, err := logs.GlogSetter(kubectl.GetLogVerbosity(os.Args)); err != nil {
		fmt.Fprintln(os.Stderr, "warning: cannot set the log level:", err)
	}
	if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
		kubectlutil.CheckErr(err)
	}
}
