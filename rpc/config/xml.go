package config

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// dubboSpaces are the names of Dubbo's elements: those of its schemas, and the prefix where a file does not declare it.
var dubboSpaces = []string{"dubbo", "http://dubbo.apache.org/schema/dubbo", "http://code.alibabatech.com/schema/dubbo"}

// element is an element that is open.
type element struct {
	dubbo bool
	name  string
	block *block // that its children belong to, nil if there is none
}

// xmlReader reads a file of Spring's XML.
type xmlReader struct {
	r    *reader
	b    blocks
	dec  *xml.Decoder
	open []element
}

// xml reads a file with Dubbo's elements, in Spring's beans or by themselves. There are no entities but XML's own, and no other file is read.
func (r *reader) xml(data []byte) (*document, error) {
	x := &xmlReader{r: r, b: blocks{r: r}, dec: xml.NewDecoder(bytes.NewReader(bytes.TrimPrefix(data, []byte("\ufeff"))))}
	for !r.full() {
		t, err := x.dec.Token()
		switch {
		case errors.Is(err, io.EOF):
			return r.dubbo(&x.b), nil
		case err != nil:
			line, _ := x.dec.InputPos()
			return nil, &Error{File: r.file, Line: line, Problem: "is no XML: " + xmlProblem(err)}
		}
		switch t := t.(type) {
		case xml.StartElement:
			if err := x.start(t); err != nil {
				return nil, err
			}
		case xml.EndElement:
			x.open = x.open[:len(x.open)-1]
		case xml.Directive:
			return nil, x.fatal("a DOCTYPE may define entities and name other files: take it out")
		case xml.CharData:
			if text := bytes.TrimSpace(t); len(text) > 0 && (len(x.open) == 0 || x.open[len(x.open)-1].dubbo) {
				r.fail(x.at(), "", quoted(string(text)), "is text where there are only elements and their attributes")
			}
		}
	}
	return nil, errors.Join(r.errs...)
}

func xmlProblem(err error) string {
	if e, ok := errors.AsType[*xml.SyntaxError](err); ok {
		return e.Msg
	}
	return strings.TrimPrefix(err.Error(), "xml: ")
}

// at is a node where the decoder is.
func (x *xmlReader) at() *yaml.Node {
	line, _ := x.dec.InputPos()
	return &yaml.Node{Line: line}
}

func (x *xmlReader) fatal(format string, args ...any) error {
	return &Error{File: x.r.file, Line: x.at().Line, Problem: fmt.Sprintf(format, args...)}
}

// start takes an element with its attributes.
func (x *xmlReader) start(t xml.StartElement) error {
	for range len(t.Attr) + 1 {
		if !x.r.room(x.at()) {
			return errors.Join(x.r.errs...)
		}
	}
	if len(x.open) == maxDepth {
		return x.fatal("there are more than %d elements in each other", maxDepth)
	}
	e := element{dubbo: slices.Contains(dubboSpaces, t.Name.Space), name: t.Name.Local}
	if len(x.open) > 0 {
		e.block = x.open[len(x.open)-1].block
	}
	attrs := x.attributes(t)
	switch {
	case e.dubbo:
		x.dubbo(&e, t, attrs)
	case e.name == kindBean && e.block == nil:
		e.block = newBlock(kindBean, attrs["id"], "bean", x.at().Line)
		x.b.list = append(x.b.list, e.block)
	case e.name == "property" && e.block != nil && e.block.kind == kindBean:
		x.set(e.block, attrs["name"], attrs["value"])
	case e.name == "import":
		x.r.fail(x.at(), "import", quoted(attrs["resource"]), "is refused: the configuration is one file")
	case e.name == "beans" || e.block != nil:
	default:
		x.r.idle(x.at(), shownKey(e.name), e.name, "it is for Spring")
	}
	x.open = append(x.open, e)
	return nil
}

// attributes returns those of an element, without the declarations of names.
func (x *xmlReader) attributes(t xml.StartElement) map[string]string {
	attrs := map[string]string{}
	for _, a := range t.Attr {
		if a.Name.Space == "xmlns" || a.Name.Local == "xmlns" || a.Name.Space != "" {
			continue
		}
		if _, ok := attrs[a.Name.Local]; ok {
			x.r.fail(x.at(), shownKey(t.Name.Local+"."+a.Name.Local), "", "is there twice")
		}
		attrs[a.Name.Local] = a.Value
	}
	return attrs
}

// dubbo takes one of Dubbo's elements.
func (x *xmlReader) dubbo(e *element, t xml.StartElement, attrs map[string]string) {
	name := "dubbo:" + e.name
	switch {
	case e.name == "parameter" && e.block != nil:
		x.set(e.block, attrs["key"], attrs["value"])
		return
	case e.block != nil && e.block.kind == kindService && e.name == kindMethod:
		service := e.block
		e.block = newBlock(kindMethod, "", name, x.at().Line)
		service.add(x.r, "methods", e.block)
		x.keys(e.block, t, attrs)
		return
	case e.block != nil && (e.name == kindMethod || e.name == "argument"):
		x.r.idle(x.at(), name, e.name, "arguments have no settings")
		e.block = newBlock("", "", name, 0) // its children have none, either
		return
	case e.block != nil:
		x.r.fail(x.at(), name, "", "stands in %s: put it beside", shownKey(e.block.path))
		return
	case refusedSections[e.name] != "" && e.name != kindService:
		x.r.fail(x.at(), name, "", "is refused: %s", refusedSections[e.name])
		return
	case idleSections[e.name] != "":
		x.r.idle(x.at(), name, e.name, idleSections[e.name])
		e.block = newBlock("", "", name, 0)
		return
	case !slices.Contains(kinds, e.name):
		known := slices.DeleteFunc(slices.Clone(kinds), func(k string) bool { return k == kindPool })
		x.r.fail(x.at(), shownKey(name), "", "is no element here%s: known are %s", meant(e.name, known), strings.Join(known, ", "))
		return
	}
	e.block = newBlock(e.name, attrs["id"], name, x.at().Line)
	x.b.list = append(x.b.list, e.block)
	x.keys(e.block, t, attrs)
}

// keys sets the attributes of an element in its block.
func (x *xmlReader) keys(b *block, t xml.StartElement, attrs map[string]string) {
	for _, a := range t.Attr {
		if _, ok := attrs[a.Name.Local]; ok && a.Name.Space == "" {
			x.set(b, a.Name.Local, a.Value)
			delete(attrs, a.Name.Local) // one that is there twice was refused
		}
	}
}

// set adds a key to a block, which is checked as those of the other formats are.
func (x *xmlReader) set(b *block, key, value string) {
	n := scalar(value, x.at().Line)
	switch {
	case key == "":
		x.r.fail(n, b.path, quoted(value), "has no name")
	case !x.r.placeholder(n, shownKey(b.path+"."+key)):
		b.set(x.r, key, n.Line, n)
	}
}
