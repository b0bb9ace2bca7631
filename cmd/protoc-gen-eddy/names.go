package main

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/compiler/protogen"
)

// declared has what declares each name of a Go package.
type declared map[string]string

// checkNames returns what is wrong with the Go names of the services that are generated: names that are there twice.
func checkNames(files []*protogen.File) error {
	packages := map[protogen.GoImportPath]declared{}
	for _, f := range files {
		if packages[f.GoImportPath] == nil {
			packages[f.GoImportPath] = declared{}
		}
		packages[f.GoImportPath].addFile(f)
	}
	var errs []error
	for _, generated := range []bool{false, true} { // services that other runs have generated come first
		for _, f := range files {
			if f.Generate != generated {
				continue
			}
			for _, s := range f.Services {
				err := packages[f.GoImportPath].addService(s)
				if generated {
					errs = append(errs, err, checkMethods(s))
				}
			}
		}
	}
	return errors.Join(errs...)
}

// addFile adds what protoc-gen-go declares for a file.
func (d declared) addFile(f *protogen.File) {
	d[f.GoDescriptorIdent.GoName] = "the descriptor of " + f.Desc.Path()
	d.addEnums(f.Enums)
	d.addMessages(f.Messages)
	d.addExtensions(f.Extensions)
}

func (d declared) addMessages(list []*protogen.Message) {
	for _, m := range list {
		d[m.GoIdent.GoName] = "message " + string(m.Desc.FullName())
		for _, field := range m.Fields {
			if field.Oneof != nil && !field.Oneof.Desc.IsSynthetic() {
				d[field.GoIdent.GoName] = "field " + string(field.Desc.FullName())
			}
		}
		d.addEnums(m.Enums)
		d.addMessages(m.Messages)
		d.addExtensions(m.Extensions)
	}
}

func (d declared) addEnums(list []*protogen.Enum) {
	for _, e := range list {
		for _, suffix := range []string{"", "_name", "_value"} {
			d[e.GoIdent.GoName+suffix] = "enum " + string(e.Desc.FullName())
		}
		for _, v := range e.Values {
			d[v.GoIdent.GoName] = "enum value " + string(v.Desc.FullName())
		}
	}
}

func (d declared) addExtensions(list []*protogen.Extension) {
	for _, x := range list {
		d["E_"+x.GoIdent.GoName] = "extension " + string(x.Desc.FullName())
	}
}

// addService adds what this plugin declares for a service. The error names what is declared already.
func (d declared) addService(s *protogen.Service) error {
	what := "service " + string(s.Desc.FullName())
	for _, n := range namesOf(s).list() {
		if other, ok := d[n]; ok {
			return fmt.Errorf("%s: its Go name %s is that of %s: rename one of them in the .proto file", what, n, other)
		}
		d[n] = what
	}
	var errs []error
	own := map[string]bool{}
	for _, m := range s.Methods {
		n := methodConstant(s, m)
		if own[n] {
			continue // checkMethods tells
		}
		own[n] = true
		if other, ok := d[n]; ok {
			errs = append(errs, fmt.Errorf("method %s: its Go name %s is that of %s: rename one of them in the .proto file", m.Desc.FullName(), n, other))
			continue
		}
		d[n] = "method " + string(m.Desc.FullName())
	}
	return errors.Join(errs...)
}

// checkMethods returns the methods of a service that have one Go name.
func checkMethods(s *protogen.Service) error {
	var errs []error
	methods := map[string]*protogen.Method{}
	for _, m := range s.Methods {
		if other := methods[m.GoName]; other != nil {
			errs = append(errs, fmt.Errorf("method %s: its Go name %s is that of method %s: rename one of them in the .proto file", m.Desc.FullName(), m.GoName, other.Desc.FullName()))
			continue
		}
		methods[m.GoName] = m
	}
	return errors.Join(errs...)
}
