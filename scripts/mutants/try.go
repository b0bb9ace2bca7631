package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// try plants the faults one at a time and reports how each ended.
func try(o options, all []mutant, out io.Writer) error {
	dir, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	var survivors []mutant
	tried, dead := 0, 0
	for _, m := range all {
		if tried == o.n {
			break
		}
		if o.only > tried+1 {
			// Whether an earlier one compiles decides the number of the later ones.
			if compiles, err := builds(o, dir, m); err != nil {
				return err
			} else if compiles {
				tried++
			}
			continue
		}
		begin := time.Now()
		end, output, err := plant(o, dir, m)
		if err != nil {
			return err
		}
		if end == notBuilt {
			continue
		}
		tried++
		if end == alive {
			survivors = append(survivors, m)
		} else {
			dead++
		}
		fmt.Fprintf(out, "%3d %-8s %5.1f s  %v\n", tried, end, time.Since(begin).Seconds(), m)
		if o.only == tried {
			fmt.Fprintln(out, output)
			return nil
		}
	}
	fmt.Fprintf(out, "\n%d of %d found by the tests (seed %d)\n", dead, tried, o.seed)
	for _, m := range survivors {
		fmt.Fprintf(out, "alive: %v\n", m)
	}
	return nil
}

const (
	alive    = "alive"
	found    = "found"
	notBuilt = "not built"
)

// overlay writes the changed file and the list that tells the go command of it.
func overlay(o options, dir string, m mutant) (list string, err error) {
	original, err := filepath.Abs(filepath.Join(o.root, filepath.FromSlash(m.file)))
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(original)
	if err != nil {
		return "", err
	}
	changed := bytes.Join([][]byte{text[:m.from], []byte(m.new), text[m.to:]}, nil)
	file := filepath.Join(dir, "mutant.go")
	if err := os.WriteFile(file, changed, 0o600); err != nil {
		return "", err
	}
	content, err := json.Marshal(map[string]map[string]string{"Replace": {original: file}})
	if err != nil {
		return "", err
	}
	list = filepath.Join(dir, "overlay.json")
	return list, os.WriteFile(list, content, 0o600)
}

// builds reports whether the changed code compiles.
func builds(o options, dir string, m mutant) (bool, error) {
	list, err := overlay(o, dir, m)
	if err != nil {
		return false, err
	}
	cmd := exec.Command("go", "build", "-overlay", list, "./"+filepath.ToSlash(filepath.Dir(m.file)))
	cmd.Dir = o.root
	return cmd.Run() == nil, nil
}

// plant runs the tests with a fault.
func plant(o options, dir string, m mutant) (end, output string, err error) {
	if ok, err := builds(o, dir, m); err != nil || !ok {
		return notBuilt, "", err
	}
	list := filepath.Join(dir, "overlay.json")
	for _, tests := range m.subject.tests {
		cmd := exec.Command("go", "test", "-overlay", list, "-vet=off", "-count=1", "-failfast", "-timeout", o.timeout.String(), tests)
		cmd.Dir = o.root
		text, err := cmd.CombinedOutput()
		output += string(text)
		if err != nil {
			if strings.Contains(string(text), "[build failed]") {
				return notBuilt, output, nil
			}
			return found, output, nil
		}
	}
	return alive, output, nil
}
