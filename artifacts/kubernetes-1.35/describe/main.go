// Prints what the components of this Kubernetes version accept: every flag, and the
// schemas of the kubelet's and the proxy's configuration files.
//
// The commands are the ones the binary links, prepared as their mains prepare them.
// Nothing here reads the machine, so that the document is the same everywhere.
package main

import (
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/logs"
	_ "k8s.io/component-base/logs/json/register" // logging flags name the formats linked in
	"k8s.io/kube-openapi/pkg/common"
	openapiutil "k8s.io/kube-openapi/pkg/util"
	"k8s.io/kube-openapi/pkg/validation/spec"
	proxyv1alpha1 "k8s.io/kube-proxy/config/v1alpha1"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app/options"
	"k8s.io/kubernetes/pkg/generated/openapi"
	kubeletscheme "k8s.io/kubernetes/pkg/kubelet/apis/config/scheme"
	proxyscheme "k8s.io/kubernetes/pkg/proxy/apis/config/scheme"
	"windlass/describe"
	"windlass/kubernetes-1.35/components"
)

func main() {
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
	version, err := describe.LinkedVersion("k8s.io/kubernetes")
	if err != nil {
		return nil, err
	}
	components, err := componentLines()
	if err != nil {
		return nil, err
	}
	configs, err := configLines()
	if err != nil {
		return nil, err
	}
	return describe.Object{
		{Name: "kubernetes", Value: version},
		{Name: "components", Value: components},
		{Name: "configs", Value: configs},
	}, nil
}

func componentLines() (describe.Object, error) {
	var lines describe.Object
	for _, name := range slices.Sorted(maps.Keys(components.Commands)) {
		flags, err := flagsOf(name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		flagLines := describe.FlagLines(describe.Flags(flags))
		lines = append(lines, describe.Field{Name: name, Value: describe.Object{{Name: "flags", Value: flagLines}}})
	}
	return lines, nil
}

func flagsOf(component string) (*pflag.FlagSet, error) {
	if component == "kubelet" {
		return kubeletFlags()
	}
	return commandFlags(components.Commands[component]())
}

// commandFlags are the flags as they stand when component-base's cli.Run parses them.
func commandFlags(command *cobra.Command) (*pflag.FlagSet, error) {
	command.SetGlobalNormalizationFunc(cliflag.WordSepNormalizeFunc)
	logs.AddFlags(command.PersistentFlags())
	command.InitDefaultHelpFlag()
	// Parsing merges the persistent and the global flags into the command's own.
	return command.Flags(), command.ParseFlags(nil)
}

// kubeletFlags are built like the kubelet's own flag set, which its command keeps to
// itself: the kubelet parses its arguments twice, so that flags win over its file.
func kubeletFlags() (*pflag.FlagSet, error) {
	flags := pflag.NewFlagSet("kubelet", pflag.ContinueOnError)
	flags.SetNormalizeFunc(cliflag.WordSepNormalizeFunc)
	config, err := kubelet.NewKubeletConfiguration()
	if err != nil {
		return nil, err
	}
	kubelet.NewKubeletFlags().AddFlags(flags)
	kubelet.AddKubeletConfigFlags(flags, config)
	kubelet.AddGlobalFlags(flags)
	flags.BoolP("help", "h", false, "help for kubelet")
	return flags, nil
}

func configLines() (describe.Object, error) {
	kubeletConfig := &kubeletv1beta1.KubeletConfiguration{}
	scheme, _, err := kubeletscheme.NewSchemeAndCodecs()
	if err != nil {
		return nil, err
	}
	scheme.Default(kubeletConfig)
	proxyConfig := &proxyv1alpha1.KubeProxyConfiguration{}
	proxyscheme.Scheme.Default(proxyConfig)

	var lines describe.Object
	doc := fieldDoc()
	for _, config := range []any{proxyConfig, kubeletConfig} {
		schema, err := describe.SchemaOf(config, doc)
		if err != nil {
			return nil, err
		}
		name := reflect.TypeOf(config).Elem().Name()
		lines = append(lines, describe.Field{Name: name, Value: schema.Lines()})
	}
	return lines, nil
}

// fieldDoc finds the descriptions of fields in upstream's OpenAPI definitions, which
// cover the configuration types although no API serves them.
func fieldDoc() describe.FieldDoc {
	definitions := openapi.GetOpenAPIDefinitions(func(name string) spec.Ref {
		return spec.MustCreateRef("#/" + name)
	})
	return func(owner reflect.Type, name string, schema *describe.Schema) {
		definition, ok := definitions[modelName(owner)]
		if !ok {
			return
		}
		property := upstreamSchema(definition).Properties[name]
		schema.Description = describe.FirstSentence(property.Description)
		schema.Enum = property.Enum
	}
}

func modelName(t reflect.Type) string {
	return openapiutil.GetCanonicalTypeName(reflect.New(t).Interface())
}

func upstreamSchema(definition common.OpenAPIDefinition) spec.Schema {
	if schema, ok := definition.Schema.Extensions[common.ExtensionV2Schema].(spec.Schema); ok {
		return schema
	}
	return definition.Schema
}
