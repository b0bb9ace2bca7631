package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/go-eddy/eddy/examples/greeter/greeterpb"
)

// example is the folder from which the example's code is generated.
const example = "../../examples/greeter/"

// TestExampleIsCurrent: the example has the code that the plugin makes now of the example's .proto file.
func TestExampleIsCurrent(t *testing.T) {
	text, err := os.ReadFile(example + "greeterpb/greeter.proto")
	if err != nil {
		t.Fatal(err)
	}
	file := describe((*greeterpb.HelloRequest)(nil))
	lines := strings.Split(strings.ReplaceAll(string(text), "\r\n", "\n"), "\n")
	if got, want := strings.Join(statements(lines), "\n"), source(file); got != want {
		t.Fatalf("greeter.pb.go was made of another file. It has\n%s\nbut greeter.proto has\n%s", want, got)
	}
	file.SourceCodeInfo = comments(lines)
	req := request("paths=source_relative", []*descriptorpb.FileDescriptorProto{file}, file.GetName())
	req.CompilerVersion = nil
	files := contents(t, answer(t, req))
	const name = "greeterpb/greeter_eddy.pb.go"
	if len(files) != 1 || files[name] == "" {
		t.Fatalf("%v", files)
	}
	same(t, example+name, files[name])
}

// statements returns what of a .proto file is no comment.
func statements(lines []string) (list []string) {
	for _, line := range lines {
		if text := strings.TrimSpace(line); text != "" && !strings.HasPrefix(text, "//") {
			list = append(list, text)
		}
	}
	return list
}

// source returns the statements of a file in proto3 with one service and messages of plain fields.
func source(f *descriptorpb.FileDescriptorProto) string {
	var b strings.Builder
	fmt.Fprintf(&b, "syntax = %q;\npackage %s;\noption go_package = %q;\n", f.GetSyntax(), f.GetPackage(), f.GetOptions().GetGoPackage())
	short := func(name string) string { return strings.TrimPrefix(name, "."+f.GetPackage()+".") }
	stream := map[bool]string{true: "stream "}
	for _, s := range f.Service {
		fmt.Fprintf(&b, "service %s {\n", s.GetName())
		for _, m := range s.Method {
			fmt.Fprintf(&b, "rpc %s(%s%s) returns (%s%s);\n", m.GetName(),
				stream[m.GetClientStreaming()], short(m.GetInputType()), stream[m.GetServerStreaming()], short(m.GetOutputType()))
		}
		b.WriteString("}\n")
	}
	for _, m := range f.MessageType {
		fmt.Fprintf(&b, "message %s {\n", m.GetName())
		for _, field := range m.Field {
			if field.GetProto3Optional() {
				b.WriteString("optional ")
			}
			kind := strings.ToLower(strings.TrimPrefix(field.GetType().String(), "TYPE_"))
			fmt.Fprintf(&b, "%s %s = %d;\n", kind, field.GetName(), field.GetNumber())
		}
		b.WriteString("}\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

var declaration = regexp.MustCompile(`^\s*(service|rpc) (\w+)`)

// comments returns where the comments of services and methods are, as a compiler notes it.
func comments(lines []string) *descriptorpb.SourceCodeInfo {
	info := new(descriptorpb.SourceCodeInfo)
	service, method, leading := -1, -1, ""
	for n, line := range lines {
		if text, ok := strings.CutPrefix(strings.TrimSpace(line), "//"); ok {
			leading += text + "\n"
			continue
		}
		if m := declaration.FindStringSubmatch(line); m != nil {
			path := []int32{6, 0}
			if m[1] == "service" {
				service, method = service+1, -1
				path[1] = int32(service)
			} else {
				method++
				path[1] = int32(service)
				path = append(path, 2, int32(method))
			}
			info.Location = append(info.Location, &descriptorpb.SourceCodeInfo_Location{Path: path, Span: []int32{int32(n), 0, 1}, LeadingComments: proto.String(leading)})
		}
		leading = ""
	}
	return info
}
