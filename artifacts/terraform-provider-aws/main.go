// The AWS provider for OpenTofu.
//
// It is upstream's main with a --version: upstream's only runs under OpenTofu, and a
// new binary should be able to say what it is.
package main

import (
	"fmt"
	"os"
	"runtime/debug"

	"github.com/hashicorp/terraform/plugin"
	"github.com/terraform-providers/terraform-provider-aws/aws"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == "--version" {
		fmt.Println("terraform-provider-aws", linkedVersion("github.com/terraform-providers/terraform-provider-aws"))
		return
	}
	plugin.Serve(&plugin.ServeOpts{ProviderFunc: aws.Provider})
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
