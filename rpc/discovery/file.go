package discovery

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
)

const (
	// MaxFile bounds the bytes of a File.
	MaxFile = 4 << 20
	// DefaultFileEvery is how often File reads, if it is not told.
	DefaultFileEvery = 5 * time.Second
)

// File returns a Resolver that reads a file every so often; 0 and less are DefaultFileEvery. Replace the file by renaming another one over it, so that no
// half of it is read. A file has one instance per line, and comments behind #:
//
//	10.0.0.1:7000 weight=100 zone=a since=2026-01-02T15:04:05Z rack=7
//
// Keys other than weight, zone and since are attributes. A file that begins with [ is JSON:
//
//	[{"addr": "10.0.0.1:7000", "weight": 100, "zone": "a", "since": "2026-01-02T15:04:05Z", "attributes": {"rack": "7"}}]
//
// A file that cannot be read, is longer than MaxFile, or has a line that is wrong is an error, which names the line.
func File(path string, every time.Duration) Resolver {
	if every <= 0 {
		every = DefaultFileEvery
	}
	return Poll(every, func(context.Context) ([]Instance, error) {
		text, err := readFile(path)
		if err != nil {
			return nil, err
		}
		return ParseFile(path, text)
	})
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("discovery: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, MaxFile+1))
	if err != nil {
		return nil, fmt.Errorf("discovery: %w", err)
	}
	if len(text) > MaxFile {
		return nil, fmt.Errorf("discovery: %s has more than %d bytes, the limit", path, MaxFile)
	}
	return text, nil
}

// ParseFile returns the instances in the text of a File, for programs that check one. path is for the errors only.
func ParseFile(path string, text []byte) ([]Instance, error) {
	if bytes.HasPrefix(bytes.TrimSpace(text), []byte{'['}) {
		return parseJSON(path, text)
	}
	var list []Instance
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, MaxFile+1)
	for n := 1; lines.Scan(); n++ {
		line, _, _ := strings.Cut(lines.Text(), "#")
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		i, err := parseLine(words)
		if err == nil {
			list, err = add(list, i)
		}
		if err != nil {
			return nil, fmt.Errorf("discovery: %s:%d: %w", path, n, err)
		}
	}
	return list, nil
}

// parseLine returns the instance of a line.
func parseLine(words []string) (Instance, error) {
	i := Instance{Addr: words[0]}
	for _, word := range words[1:] {
		key, value, ok := strings.Cut(word, "=")
		if !ok || key == "" {
			return i, fmt.Errorf("%q is not of the form key=value", word)
		}
		var err error
		switch key {
		case "weight":
			i.Weight, err = strconv.Atoi(value)
		case "zone":
			i.Zone = value
		case "since":
			i.Since, err = time.Parse(time.RFC3339, value)
		default:
			if i.Attributes == nil {
				i.Attributes = make(map[string]string)
			}
			i.Attributes[key] = value
		}
		if err != nil {
			return i, fmt.Errorf("%s: %w", key, err)
		}
	}
	return i, nil
}

// add appends an instance that is right, as long as there is room.
func add(list []Instance, i Instance) ([]Instance, error) {
	if err := i.Check(); err != nil {
		return nil, err
	}
	if len(list) == MaxInstances {
		return nil, fmt.Errorf("more than %d instances, the limit", MaxInstances)
	}
	return append(list, i), nil
}

// jsonInstance is an Instance as a file has it.
type jsonInstance struct {
	Addr       string            `json:"addr"`
	Weight     int               `json:"weight"`
	Zone       string            `json:"zone"`
	Since      time.Time         `json:"since"`
	Attributes map[string]string `json:"attributes"`
}

func parseJSON(path string, text []byte) (list []Instance, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	defer func() {
		if err != nil {
			line := 1 + bytes.Count(text[:min(d.InputOffset(), int64(len(text)))], []byte{'\n'})
			list, err = nil, fmt.Errorf("discovery: %s:%d: %w", path, line, err)
		}
	}()
	if _, err = d.Token(); err != nil {
		return nil, err
	}
	for d.More() {
		var i jsonInstance
		if err = d.Decode(&i); err != nil {
			return nil, err
		}
		if list, err = add(list, Instance(i)); err != nil {
			return nil, err
		}
	}
	if _, err = d.Token(); err != nil {
		return nil, err
	}
	if _, err = d.Token(); err != io.EOF { //nolint:errorlint // returned bare
		return nil, fmt.Errorf("there is more behind the array")
	}
	return list, nil
}
