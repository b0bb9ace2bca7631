// Command protoc-gen-eddy is a plugin of protoc and buf. It writes servers and clients of package rpc for the services of
// .proto files; protoc-gen-go writes the messages. docs/rpc.md says how to run it and what it writes.
package main

import (
	"flag"
	"fmt"
	"os"

	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"

	"github.com/go-eddy/eddy/internal/version"
)

const name = "protoc-gen-eddy"

func main() {
	v := version.Get().Version
	if len(os.Args) == 2 && os.Args[1] == "--version" {
		fmt.Println(name, v)
		return
	}
	options, generate := plugin(v)
	options.Run(generate)
}

// plugin returns the plugin with its options. The files that it writes name the version.
func plugin(version string) (protogen.Options, func(*protogen.Plugin) error) {
	var flags flag.FlagSet
	require := flags.Bool("require_unimplemented_servers", true, "implementations must embed the Unimplemented server")
	return protogen.Options{ParamFunc: flags.Set}, func(p *protogen.Plugin) error {
		p.SupportedFeatures = uint64(pluginpb.CodeGeneratorResponse_FEATURE_PROTO3_OPTIONAL | pluginpb.CodeGeneratorResponse_FEATURE_SUPPORTS_EDITIONS)
		p.SupportedEditionsMinimum = descriptorpb.Edition_EDITION_PROTO2
		p.SupportedEditionsMaximum = descriptorpb.Edition_EDITION_2024
		if err := checkNames(p.Files); err != nil {
			return err
		}
		for _, f := range p.Files {
			if f.Generate && len(f.Services) > 0 {
				writeFile(p, f, version, *require)
			}
		}
		return nil
	}
}
