// The libvirt provider for OpenTofu.
//
// It is upstream's main with a --version: upstream's only runs under OpenTofu, and a
// new binary should be able to say what it is.
package main

import (
	"fmt"
	"os"
	"runtime/debug"

	"github.com/dmacvicar/terraform-provider-libvirt/libvirt"
	"github.com/hashicorp/terraform-plugin-sdk/v2/plugin"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == "--version" {
		fmt.Println("terraform-provider-libvirt", linkedVersion("github.com/dmacvicar/terraform-provider-libvirt"))
		return
	}
	defer libvirt.CleanupLibvirtConnections()
	plugin.Serve(&plugin.ServeOpts{ProviderFunc: libvirt.Provider})
}

// linkedVersion is the version of a module that this binary links.
func linkedVersion(module string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dep := range info.Deps {
			if dep.Path == module {
				return dep.Version
			}
		}
	}
	return "of unknown version"
}
