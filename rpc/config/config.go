// Package config reads the configuration of RPC servers and clients from a file. A file has ports with their dispatchers
// and pools, services with their timeouts and executors, a registry, and a client.
//
//	cfg, err := config.Load("rpc.yaml")
//	srv, err := cfg.NewServer(svc)
//	cl, err := rpc.NewClient(*cfg.Client)
//
// The files of Dubbo are read as they are, too: application.yaml, dubbo.properties and the XML of Spring. Registries and protocols that are modules of
// their own belong into Engines:
//
//	engines := config.Engines{Registries: []discovery.Engine{zookeeper.Engine()}, Wires: []rpc.Wire{dubbo.Wire()}}
//	cfg, err := engines.Load("application.yaml")
//
// Keys and meaning follow Dubbo's where it has them; docs/rpc.md lists them with their defaults. A key or value that is
// unknown, of the wrong type or out of range is an error that names file and line. A key of Dubbo that has no effect here is a warning that says why.
package config

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/go-eddy/eddy/rpc"
	"github.com/go-eddy/eddy/rpc/discovery"
)

// maxFile bounds the size of a file.
const maxFile = 1 << 20

// Engines are what a file may name and a program has to link: registries and protocols that are packages of their own. The zero value has none.
type Engines struct {
	Registries []discovery.Engine
	Wires      []rpc.Wire
}

// Load is that of Engines without any.
func Load(path string) (*Config, error) { return Engines{}.Load(path) }

// Parse is that of Engines without any.
func Parse(name string, data []byte) (*Config, error) { return Engines{}.Parse(name, data) }

// Load is LoadContext with a context that does not end.
func (e Engines) Load(path string) (*Config, error) { return e.LoadContext(context.Background(), path) }

// LoadContext reads and checks a file, with what its config center has for it. It waits for the center as long as the file says, three seconds by default, and until ctx
// ends, which is an error. The others are those of Parse, or say why the file or the center cannot be read.
func (e Engines) LoadContext(ctx context.Context, path string) (*Config, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	r := &reader{file: path, engines: e}
	d, err := r.read(data)
	if err != nil || d.center == nil {
		return d.config(r), err
	}
	return r.withCenter(ctx, d, data)
}

// Parse checks data, the content of the file name, without its config center. Its ending says what it is: .yaml, .yml, .properties or .xml. Of another name its first characters
// do. The error joins an *Error for each of the first 20 things that are wrong.
func (e Engines) Parse(name string, data []byte) (*Config, error) {
	r := &reader{file: name, engines: e}
	d, err := r.read(data)
	if err == nil && d.center != nil {
		r.idle(d.center.node, d.center.path, kindCenter, "only Load and LoadContext read it")
	}
	return d.config(r), err
}

// read returns the document, or an error that joins all that is wrong in it.
func (r *reader) read(data []byte) (*document, error) {
	if err := r.plain(data); err != nil {
		return nil, err
	}
	var d *document
	var err error
	switch formOf(r.file, data) {
	case formXML:
		d, err = r.xml(data)
	case formProperties:
		d = r.properties(data)
	default:
		d, err = r.yaml(data)
	}
	if err != nil {
		return nil, err
	}
	if len(r.errs) > 0 {
		slices.SortStableFunc(r.errs, func(a, b error) int { return a.(*Error).Line - b.(*Error).Line })
		return nil, errors.Join(r.errs...)
	}
	return d, nil
}

// yaml reads a file of YAML, in either form.
func (r *reader) yaml(data []byte) (*document, error) {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var n yaml.Node
	if err := dec.Decode(&n); err != nil && !errors.Is(err, io.EOF) {
		return nil, r.syntax(err)
	}
	var second yaml.Node
	switch err := dec.Decode(&second); {
	case err == nil:
		r.fail(&second, "", "", "a second document begins here: one file is one document")
	case !errors.Is(err, io.EOF):
		return nil, r.syntax(err)
	}
	root := &yaml.Node{Kind: yaml.MappingNode}
	if len(n.Content) > 0 && !(n.Content[0].Kind == yaml.ScalarNode && n.Content[0].Tag == "!!null") {
		root = named(n.Content[0])
	}
	if ofDubbo(root) {
		return r.settings(func(take func(setting)) { r.flatten(root, nil, take) }), nil
	}
	return r.document(root), nil
}

// plain refuses files that are too long, and characters that the parser would refuse without naming a line.
func (r *reader) plain(data []byte) error {
	if len(data) > maxFile {
		return &Error{File: r.file, Line: 1, Problem: fmt.Sprintf("the file is longer than %d bytes", maxFile)}
	}
	line := 1
	for i := 0; i < len(data); {
		c, n := utf8.DecodeRune(data[i:])
		if c == utf8.RuneError && n == 1 || c < ' ' && c != '\t' && c != '\n' && c != '\r' || c == 0x7f {
			return &Error{File: r.file, Line: line, Value: fmt.Sprintf("%q", data[i:i+n]), Problem: "is no text: files are UTF-8 without control characters"}
		}
		if c == '\n' {
			line++
		}
		i += n
	}
	return nil
}
