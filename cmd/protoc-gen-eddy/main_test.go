package main

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/pluginpb"
)

// update writes the files that tests compare with what the plugin makes.
var update = flag.Bool("update", false, "write testdata and the files of examples/greeter anew")

// asCommand lets the test program be the command.
const asCommand = "EDDY_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		main()
		return
	}
	goleak.VerifyTestMain(m)
}

// request returns what a compiler asks of a plugin.
func request(param string, files []*descriptorpb.FileDescriptorProto, generate ...string) *pluginpb.CodeGeneratorRequest {
	return &pluginpb.CodeGeneratorRequest{
		Parameter: &param, ProtoFile: files, FileToGenerate: generate,
		CompilerVersion: &pluginpb.Version{Major: proto.Int32(5), Minor: proto.Int32(29), Patch: proto.Int32(3)},
	}
}

// answer runs the plugin.
func answer(t *testing.T, req *pluginpb.CodeGeneratorRequest) *pluginpb.CodeGeneratorResponse {
	t.Helper()
	options, generate := plugin("devel")
	p, err := options.New(req)
	if err != nil {
		msg := err.Error()
		return &pluginpb.CodeGeneratorResponse{Error: &msg}
	}
	if err := generate(p); err != nil {
		p.Error(err)
	}
	return p.Response()
}

// contents returns the written files by name.
func contents(t *testing.T, resp *pluginpb.CodeGeneratorResponse) map[string]string {
	t.Helper()
	if resp.Error != nil {
		t.Fatal(resp.GetError())
	}
	files := map[string]string{}
	for _, f := range resp.File {
		files[f.GetName()] = f.GetContent()
	}
	return files
}

// same compares a committed file with what it must be, or writes it.
func same(t *testing.T, name, want string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(name, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if strings.ReplaceAll(string(got), "\r\n", "\n") != want {
		t.Errorf("%s is not what the plugin makes; write it by go test ./cmd/protoc-gen-eddy -update. Made:\n%s", name, want)
	}
}

// TestCommand runs the command as a compiler does.
func TestCommand(t *testing.T) {
	run := func(stdin []byte, args ...string) ([]byte, error) {
		cmd := exec.Command(os.Args[0], args...)
		cmd.Env = append(os.Environ(), asCommand+"=1")
		cmd.Stdin = bytes.NewReader(stdin)
		return cmd.Output()
	}
	if out, err := run(nil, "--version"); err != nil || !strings.HasPrefix(string(out), "protoc-gen-eddy ") || strings.Count(string(out), "\n") != 1 {
		t.Errorf("--version: %q, %v", out, err)
	}
	if out, err := run(nil, "x.proto"); err == nil {
		t.Errorf("an argument: %q", out)
	}
	if out, err := run([]byte("?")); err == nil {
		t.Errorf("no request: %q", out)
	}
	in, err := proto.Marshal(request("paths=source_relative", torture(), "a/torture.proto"))
	if err != nil {
		t.Fatal(err)
	}
	out, err := run(in)
	if err != nil {
		t.Fatal(err)
	}
	var resp pluginpb.CodeGeneratorResponse
	if err := proto.Unmarshal(out, &resp); err != nil {
		t.Fatal(err)
	}
	if files := contents(t, &resp); len(files) != 1 || !strings.Contains(files["a/torture_eddy.pb.go"], "package torture\n") {
		t.Errorf("%v", files)
	}
}

// TestOptions: what the plugin says of itself, and its parameters.
func TestOptions(t *testing.T) {
	files := torture()
	resp := answer(t, request("", files, "a/torture.proto"))
	if got := pluginpb.CodeGeneratorResponse_Feature(resp.GetSupportedFeatures()); got&pluginpb.CodeGeneratorResponse_FEATURE_PROTO3_OPTIONAL == 0 ||
		got&pluginpb.CodeGeneratorResponse_FEATURE_SUPPORTS_EDITIONS == 0 || resp.GetMinimumEdition() > resp.GetMaximumEdition() {
		t.Errorf("features %v, editions %v to %v", got, resp.GetMinimumEdition(), resp.GetMaximumEdition())
	}
	for param, want := range map[string]string{
		"":                          "example.com/torture/torture_eddy.pb.go",
		"paths=source_relative":     "a/torture_eddy.pb.go",
		"module=example.com":        "torture/torture_eddy.pb.go",
		"Ma/torture.proto=other/go": "other/go/torture_eddy.pb.go",
	} {
		if got := contents(t, answer(t, request(param, files, "a/torture.proto"))); len(got) != 1 || got[want] == "" {
			t.Errorf("%s: %v, want %s", param, got, want)
		}
	}
	free := contents(t, answer(t, request("paths=source_relative,require_unimplemented_servers=false", files, "a/torture.proto")))
	if code := free["a/torture_eddy.pb.go"]; code == "" || strings.Contains(code, "mustEmbed") || strings.Contains(code, "Unsafe") {
		t.Errorf("require_unimplemented_servers=false: %s", code)
	}
	if got := contents(t, answer(t, request("", files, "b/ctx.proto"))); len(got) != 0 {
		t.Errorf("a file without services: %v", got)
	}
	for _, param := range []string{"require_unimplemented_servers=perhaps", "colour=blue"} {
		if resp := answer(t, request(param, files, "a/torture.proto")); resp.Error == nil {
			t.Errorf("%s is taken", param)
		}
	}
	req := request("", files, "a/torture.proto")
	for version, want := range map[*pluginpb.Version]string{
		nil: "(unknown)",
		{Major: proto.Int32(6), Minor: proto.Int32(1), Suffix: proto.String("rc2")}: "v6.1.0-rc2",
	} {
		req.CompilerVersion = version
		for _, code := range contents(t, answer(t, req)) {
			if !strings.Contains(code, "\n// - protoc          "+want+"\n") {
				t.Errorf("%v: want %s in %s", version, want, code[:min(200, len(code))])
			}
		}
	}
}

// describe returns the file of a generated message.
func describe(msg proto.Message) *descriptorpb.FileDescriptorProto {
	return protodesc.ToFileDescriptorProto(msg.ProtoReflect().Descriptor().ParentFile())
}

// torture returns files whose names make trouble: two packages, of which one has the name of a parameter.
func torture() []*descriptorpb.FileDescriptorProto {
	message := func(name string, nested ...*descriptorpb.DescriptorProto) *descriptorpb.DescriptorProto {
		return &descriptorpb.DescriptorProto{Name: &name, NestedType: nested}
	}
	method := func(name, in, out string, kind string) *descriptorpb.MethodDescriptorProto {
		return &descriptorpb.MethodDescriptorProto{
			Name: &name, InputType: &in, OutputType: &out,
			ClientStreaming: proto.Bool(kind == "client" || kind == "bidi"), ServerStreaming: proto.Bool(kind == "server" || kind == "bidi"),
		}
	}
	others := &descriptorpb.FileDescriptorProto{
		Name: proto.String("b/ctx.proto"), Package: proto.String("b"), Syntax: proto.String("proto3"),
		Options:     &descriptorpb.FileOptions{GoPackage: proto.String("example.com/ctx")},
		MessageType: []*descriptorpb.DescriptorProto{message("Far", message("Away"))},
	}
	others.MessageType[0].Field = []*descriptorpb.FieldDescriptorProto{{
		Name: proto.String("maybe"), Number: proto.Int32(1), Type: descriptorpb.FieldDescriptorProto_TYPE_STRING.Enum(),
		Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(), Proto3Optional: proto.Bool(true), OneofIndex: proto.Int32(0),
	}}
	others.MessageType[0].OneofDecl = []*descriptorpb.OneofDescriptorProto{{Name: proto.String("_maybe")}}
	old := method("return", ".b.Far.Away", ".a.Outer.Inner", "client")
	old.Options = &descriptorpb.MethodOptions{Deprecated: proto.Bool(true)}
	call := method("Call", ".a.Outer", ".a.Outer", "")
	call.Options = &descriptorpb.MethodOptions{IdempotencyLevel: descriptorpb.MethodOptions_NO_SIDE_EFFECTS.Enum()}
	leading := func(text string, path ...int32) *descriptorpb.SourceCodeInfo_Location {
		return &descriptorpb.SourceCodeInfo_Location{Path: path, Span: []int32{0, 0, 1}, LeadingComments: &text}
	}
	return []*descriptorpb.FileDescriptorProto{describe((*emptypb.Empty)(nil)), others, {
		Name: proto.String("a/torture.proto"), Package: proto.String("a"), Syntax: proto.String("editions"), Edition: descriptorpb.Edition_EDITION_2023.Enum(),
		Dependency:  []string{"b/ctx.proto", "google/protobuf/empty.proto"},
		Options:     &descriptorpb.FileOptions{GoPackage: proto.String("example.com/torture"), Deprecated: proto.Bool(true)},
		MessageType: []*descriptorpb.DescriptorProto{message("Outer", message("Inner")), message("string")},
		Service: []*descriptorpb.ServiceDescriptorProto{{
			Name: proto.String("type"), // a word of Go
			Method: []*descriptorpb.MethodDescriptorProto{
				method("func", ".b.Far", ".a.string", ""), method("Range", ".google.protobuf.Empty", ".b.Far.Away", "server"),
				old, method("go_to", ".b.Far", ".b.Far", "bidi"), method("String", ".a.Outer", ".google.protobuf.Empty", ""),
			},
		}, {
			Name:    proto.String("old_fashioned"),
			Options: &descriptorpb.ServiceOptions{Deprecated: proto.Bool(true)},
			Method:  []*descriptorpb.MethodDescriptorProto{call},
		}, {Name: proto.String("Nothing")}},
		SourceCodeInfo: &descriptorpb.SourceCodeInfo{Location: []*descriptorpb.SourceCodeInfo_Location{
			leading(" Type has `trouble`.\n\n  And two */ paragraphs.\n", 6, 0), leading(" Func is \"func\".\n", 6, 0, 2, 0), leading(" Return ends it.\n", 6, 0, 2, 2),
		}},
	}}
}
