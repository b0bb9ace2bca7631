package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const sample = `package sample

func limit(n int) int {
	if n > 100 {
		n = 100
	}
	used++
	note(n)
	log.Info("limit", "n", n)
	return n + 1
}

func note(int) {}

var used int

type logger struct{}

func (logger) Info(...any) {}

var log logger
`

const sampleTest = `package sample

import "testing"

func TestLimit(t *testing.T) {
	for in, want := range map[int]int{7: 8, 200: 101} {
		if got := limit(in); got != want {
			t.Fatal(got)
		}
	}
	if used != 2 {
		t.Fatal(used)
	}
}
`

// module makes a module with one package, of which the faults are drawn.
func module(t *testing.T) options {
	t.Helper()
	root := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module sample\n\ngo 1.26\n", "sample.go": sample, "sample_test.go": sampleTest} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	before := subjects
	subjects = []subject{{[]string{"*.go"}, []string{"."}}}
	t.Cleanup(func() { subjects = before })
	return options{root: root, n: 20, seed: 7, timeout: time.Minute}
}

// TestMutants: which faults a piece of code can have.
func TestMutants(t *testing.T) {
	o := module(t)
	all, err := draw(o)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range all {
		got = append(got, m.String())
	}
	slices.Sort(got)
	want := []string{
		"sample.go:10: + → -", "sample.go:10: 1 → 1+1", "sample.go:4: 100 → 100+1", "sample.go:4: > → >=",
		"sample.go:4: n > 100 → !(n > 100)", "sample.go:5: 100 → 100+1", "sample.go:5: n = 100 → nothing",
		"sample.go:7: used++ → nothing", "sample.go:8: note(n) → nothing",
	}
	if !slices.Equal(got, want) {
		t.Errorf("faults:\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestTry: the faults that the tests miss are named, those that they find are counted, and the tree is as it was.
func TestTry(t *testing.T) {
	o := module(t)
	all, err := draw(o)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := try(o, all, &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"6 of 9 found by the tests (seed 7)", "alive: sample.go:4: > → >=", "alive: sample.go:8: note(n) → nothing", "alive: sample.go:4: 100 → 100+1"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
	if text, err := os.ReadFile(filepath.Join(o.root, "sample.go")); err != nil || string(text) != sample {
		t.Errorf("the file was changed (%v)", err)
	}
}

// TestSeed: a seed draws the same faults each time, another one others, and one of them can be had alone.
func TestSeed(t *testing.T) {
	o := module(t)
	first, err := draw(o)
	if err != nil {
		t.Fatal(err)
	}
	same, err := draw(o)
	if err != nil {
		t.Fatal(err)
	}
	o.seed++
	other, err := draw(o)
	if err != nil {
		t.Fatal(err)
	}
	names := func(all []mutant) (s string) {
		for _, m := range all {
			s += m.String() + "\n"
		}
		return s
	}
	if names(first) != names(same) || names(first) == names(other) {
		t.Errorf("%s\n%s\n%s", names(first), names(same), names(other))
	}
	o.only = 3
	var out strings.Builder
	if err := try(o, first, &out); err != nil || !strings.Contains(out.String(), first[2].String()) || strings.Contains(out.String(), first[1].String()) {
		t.Errorf("%v, %s", err, &out)
	}
}

// TestSubjects: each pattern names code of this repository, in which faults can be planted.
func TestSubjects(t *testing.T) {
	all, err := draw(options{root: "../..", n: 60, seed: 1})
	if err != nil || len(all) < 120 {
		t.Fatalf("%d faults, %v", len(all), err)
	}
	for _, s := range subjects {
		for _, pattern := range s.files {
			if found, err := filepath.Glob(filepath.Join("../..", pattern)); err != nil || len(found) == 0 {
				t.Errorf("%s: %v", pattern, err)
			}
		}
	}
}
