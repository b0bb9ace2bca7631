package main

import (
	"fmt"
	"slices"
	"strings"
)

// A run is a row of the plan: packages, how they are built and what they run on.
type run struct {
	name     string
	build    string   // race, plain or debug
	poller   string   // EDDY_POLLER; "" = the platform's best
	packages []string // as folders; "x/..." with what is below; nil = all that no other run with own is about
	modules  []string // folders of modules of their own, all of whose packages are in the run; nil = the run is about the root's
	own      bool     // its packages are in no other run on the best poller
	long     bool     // only when it is named, as by scripts/long
	skip     string   // tests that are left out, a regular expression
	args     []string
	why      string
}

// builds are the flags of each build.
var builds = map[string][]string{
	// SQLite is C made Go: its memory lies outside the heap, where the race detector sees nothing, and looks at each access all the same.
	"race":  {"-race", "-gcflags=modernc.org/sqlite/lib=-race=false -d=checkptr=0 -dwarf=false", "-gcflags=modernc.org/libc/...=-d=checkptr=0 -dwarf=false"},
	"plain": nil,
	"debug": {"-tags", "eddydebug"},
}

// buildOrder are all builds, in the order in which they are made.
var buildOrder = []string{"plain", "race", "debug"}

// noPoller are the tests of the engine and its protocols that touch no readiness backend: parsers, models and the soak.
const noPoller = `^(Fuzz|TestParser|TestInflate|TestCompressWithinWindow|TestWindowSlides|TestPipelineModel|TestFuturesAgainstModel|TestDropsAgainstModel|TestProducersFasterThanConsumers)`

// core is what meets the readiness backend itself; protocols run on it and see no difference by design.
var (
	core      = []string{".", "tlsx", "relay"}
	protocols = []string{"http1", "http2", "websocket", "rpc", "responder"}
	engine    = slices.Concat(core, protocols)
)

// Modules of their own, for libraries that the root's has not.
var (
	registries = []string{"rpc/discovery/etcd", "rpc/discovery/zookeeper", "cmd/eddy/full"}
	others     = append([]string{"interop", "interop/connect", "rpc/dubbo", "rpc/grpcgo", "otel"}, registries...)
)

var stores = []string{"desk/store/sqlstore", "cmd/eddy/internal/desk"}

// apps are linked with libraries that take long to compile: the gate compiles them once.
var apps = []string{"cmd/eddy", "cmd/eddy/internal/bench", "cmd/eddy/internal/benchdesk", "cmd/eddy/internal/call", "cmd/eddy/internal/deskload", "cmd/eddy/internal/doctor",
	"cmd/eddy/internal/health", "cmd/eddy/internal/root", "cmd/eddy/internal/serve", "cmd/eddy/internal/serving", "cmd/eddy/internal/top", "cmd/protoc-gen-eddy",
	"desk", "desk/bus", "desk/files/objects", "desk/model", "metrics/..."}

// plan says which test needs which backend, which build and how often. Every package with tests has its place: a test of
// this package says so.
var plan = []run{
	{name: "race", build: "race",
		why: "what has goroutines, each with the race detector, on epoll"},
	{name: "once", build: "plain", own: true,
		packages: []string{"examples/...", "internal/docs", "internal/house", "scripts/...", "desk/mask", "desk/perm", "desk/proto", "desk/store/words", "desk/web", "internal/version", "limit", "rpc/balance/internal/clustertest", "rpc/internal/virtual"},
		why:      "documents, house rules, examples, scripts and what has no goroutine: nothing for the race detector; whole clusters, which take ten times as long with it"},
	{name: "store", build: "plain", own: true, packages: stores,
		why: "the store by itself, and several Desks on one; the hub and the server that use it are in race"},
	{name: "apps", build: "plain", own: true, packages: apps,
		why: "Desk as a whole, the commands, which run others as processes of their own, and metrics: their libraries take long to compile for the race detector; what Desk is made of is in race"},
	{name: "holes", build: "plain", packages: []string{"desk/hub"}, args: []string{"-lossy-feed"},
		why: "Desk's hub on a feed with holes, as one through a network has"},
	{name: "postgres", build: "plain", packages: []string{"desk/front", "desk/hub", "desk/mail"}, args: []string{"-postgres"},
		why: "what is told, shown and sent, from a store on PostgreSQL"},
	{name: "pages", build: "plain", own: true, packages: []string{"desk/e2e"},
		why: "Desk in a browser, against the built command"},
	{name: "sim", build: "plain", own: true, packages: []string{"internal/sys/sim"}, args: []string{"-seeds", "500"},
		why: "whole servers on a simulated machine, which is one goroutine; 500 seeds"},
	{name: "net", build: "race", poller: "net", packages: core, skip: noPoller,
		why: "the engine over package net, which has goroutines of its own"},
	{name: "wire", build: "plain", poller: "net", packages: protocols, skip: noPoller,
		why: "the protocols over package net, whose connections the engine does not see"},
	{name: "select", build: "plain", poller: "select", packages: core, skip: noPoller,
		why: "the engine on select, whose loops run as on epoll"},
	{name: "poll", build: "debug", poller: "poll", packages: append(slices.Clone(engine), "buf", "codec/..."), skip: noPoller,
		why: "the engine on poll, with released memory overwritten and written memory watched"},
	{name: "peers", build: "plain", modules: others,
		why: "what others wrote, on the other side of the wire: clients, servers, suites, registries ([conformance.md](conformance.md)); their libraries take long to compile for the race detector"},
	{name: "peers-race", long: true, build: "race", modules: registries,
		why: "the registries with the race detector"},
	{name: "store-race", long: true, build: "race", packages: stores,
		why: "the same with the race detector, which takes three times as long"},
	{name: "apps-race", long: true, build: "race", packages: apps,
		why: "the same with the race detector"},
	{name: "wire-race", long: true, build: "race", poller: "net", packages: protocols, skip: noPoller,
		why: "the protocols over package net with the race detector"},
	{name: "wire-select", long: true, build: "plain", poller: "select", packages: protocols, skip: noPoller,
		why: "the protocols on select"},
}

// longest are the test programs to begin with, so that none is left alone at the end.
var longest = []string{"pages desk/e2e", "apps cmd/eddy/internal/serve", "store cmd/eddy/internal/desk", "apps cmd/eddy", "race .", "race desk/hub", "apps desk", "store desk/store/sqlstore", "net .", "once internal/docs",
	"poll .", "select .", "race websocket", "race internal/poll", "race cmd/eddy/internal/load", "race rpc", "sim internal/sys/sim"}

// holds reports whether the folder is one of patterns.
func holds(patterns []string, folder string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		above, all := strings.CutSuffix(p, "/...")
		return p == folder || all && strings.HasPrefix(folder, above+"/")
	})
}

// about reports whether the run tests the package.
func (r run) about(p pkg) bool {
	switch {
	case p.module != ".":
		return slices.Contains(r.modules, p.module)
	case r.modules != nil:
		return false
	case r.packages != nil:
		return holds(r.packages, p.folder)
	}
	return !slices.ContainsFunc(plan, func(o run) bool { return o.own && holds(o.packages, p.folder) })
}

// table is the plan for docs/testing.md.
func table() string {
	var b strings.Builder
	b.WriteString("| run | build | backend | packages | in | why |\n|---|---|---|---|---|---|\n")
	for _, r := range plan {
		packages := "all others"
		switch {
		case r.modules != nil:
			packages = "the modules `" + strings.Join(r.modules, "` `") + "`"
		case r.packages != nil:
			packages = "`" + strings.Join(r.packages, "` `") + "`"
		}
		poller := r.poller
		if poller == "" {
			poller = "the best"
		}
		in := "the gate"
		if r.long {
			in = "`scripts/long`"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", r.name, r.build, poller, packages, in, r.why)
	}
	return b.String()
}
