// Package components makes the commands of the Kubernetes components: for the
// binary, which runs one, and for the describe program, which reads their flags.
package components

import (
	"context"
	"flag"

	"github.com/spf13/cobra"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

// Commands makes each component's command as its upstream main does. A process may
// make each of them once: the API server's takes over signal handling.
var Commands = map[string]func() *cobra.Command{
	"kube-apiserver":          apiserver.NewAPIServerCommand,
	"kube-controller-manager": controllermanager.NewControllerManagerCommand,
	"kube-proxy":              newProxyCommand,
	"kube-scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
	// The kubelet sets up its own signal handling and panics if the context it is
	// given has done so already.
	"kubelet": func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) },
}

// newProxyCommand keeps the kubelet's flags away from the proxy, which takes over
// every flag that a package registers with the standard library. Upstream's binary
// links only one package that does; this one links all of the kubelet's.
func newProxyCommand() *cobra.Command {
	defer WithOnlyFlags("boot_id_file", "machine_id_file")()
	return proxy.NewProxyCommand()
}

// WithOnlyFlags hides all flags registered with the standard library but the named
// ones, until the function it returns is called.
func WithOnlyFlags(names ...string) (restore func()) {
	all := flag.CommandLine
	flag.CommandLine = flag.NewFlagSet(all.Name(), flag.ExitOnError)
	for _, name := range names {
		f := all.Lookup(name)
		flag.CommandLine.Var(f.Value, f.Name, f.Usage)
	}
	return func() { flag.CommandLine = all }
}
