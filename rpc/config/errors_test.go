package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const oneProtocol = "protocols:\n  frame: {port: -1}\n"

// TestErrorsNameTheirPlace: each thing that can be wrong is refused with file, line, key, value, and the limit or the choices.
func TestErrorsNameTheirPlace(t *testing.T) {
	for _, c := range []struct{ name, file, want string }{
		{"unknown key", "prootcols: {}", `f.yaml:1: prootcols: is no key here (did you mean protocols?): known are application, protocols, registry, pools, services, client`},
		{"unknown key below", "protocols:\n  frame:\n    port: 1\n    thread: 5\n", `f.yaml:4: protocols.frame.thread: is no key here (did you mean threads?): known are threadpool, threads,`},
		{"unknown key of a service", oneProtocol + "services:\n- interface: a\n  versoin: 1\n", `f.yaml:5: services[0].versoin: is no key here (did you mean version?): known are interface, group, version, protocol`},
		{"unknown key of an executor", oneProtocol + "services:\n- interface: a\n  executor: {port: 1}\n", `f.yaml:5: services[0].executor.port: is no key here: known are threadpool`},
		{"unknown key of the client", "client:\n  addresses: [a:1]\n  retries: 2\n", `f.yaml:3: client.retries: is no key here`},
		{"unknown key of the application", "application:\n  nane: x\n", `f.yaml:2: application.nane: is no key here (did you mean name?): known are name, executor-management-mode, dump-enable, dump-directory, overload, retry-after`},
		{"text for a number", "protocols:\n  frame:\n    port: none", `f.yaml:3: protocols.frame.port: "none" is no whole number from -1 to 65535`},
		{"number in quotes", "protocols:\n  frame:\n    port: '80'", `f.yaml:3: protocols.frame.port: "80" is no whole number`},
		{"fraction", "protocols:\n  frame:\n    port: 1\n    threads: 1.5", `f.yaml:4: protocols.frame.threads: "1.5" is no whole number from 1 to 100000`},
		{"nothing for a number", "protocols:\n  frame:\n    port:\n", `f.yaml:3: protocols.frame.port: nothing is no whole number`},
		{"list for a number", "protocols:\n  frame:\n    port: [1]\n", `f.yaml:3: protocols.frame.port: a list is no whole number`},
		{"mapping for text", "protocols:\n  frame:\n    port: 1\n    host: {}\n", `f.yaml:4: protocols.frame.host: a mapping is no text`},
		{"text for a switch", "application:\n  dump-enable: maybe", `f.yaml:2: application.dump-enable: "maybe" is neither true nor false`},
		{"scalar for a mapping", "protocols: 5", `f.yaml:1: protocols: "5" is no mapping of keys to values`},
		{"list for a mapping", "- protocols", `f.yaml:1: a list is no mapping of keys to values`},
		{"mapping for a list", oneProtocol + "services: {}", `f.yaml:3: services: a mapping is no list of services`},
		{"text for a service", oneProtocol + "services:\n- demo\n", `f.yaml:4: services[0]: "demo" is no mapping of keys to values`},
		{"port", "protocols:\n  frame: {port: 65536}", `f.yaml:2: protocols.frame.port: "65536" is out of range: -1 to 65535`},
		{"port below", "protocols:\n  frame: {port: -2}", `f.yaml:2: protocols.frame.port: "-2" is out of range: -1 to 65535`},
		{"huge number", "protocols:\n  frame: {port: 99999999999999999999999}", `f.yaml:2: protocols.frame.port: "99999999999999999999999" is`},
		{"no port", "protocols:\n  frame: {threads: 5}", `f.yaml:2: protocols.frame: has no port: -1 takes any that is free`},
		{"threads", "protocols:\n  frame: {port: 1, threads: 0}", `"0" is out of range: 1 to 100000`},
		{"threads above", "protocols:\n  frame: {port: 1, threads: 100001}", `"100001" is out of range: 1 to 100000`},
		{"queue without a bound", "protocols:\n  frame: {port: 1, queues: -1}", `protocols.frame.queues: "-1" is out of range: 0 to 1048576`},
		{"core", "protocols:\n  frame:\n    port: 1\n    threads: 10\n    corethreads: 11\n", `f.yaml:5: protocols.frame.corethreads: "11" is more than the 10 threads of the pool`},
		{"core of the default", "protocols:\n  frame:\n    port: 1\n    corethreads: 201\n", `f.yaml:4: protocols.frame.corethreads: "201" is more than the 200 threads of the pool`},
		{"core of a cached pool", "protocols:\n  frame:\n    port: 1\n    threadpool: cached\n    corethreads: 10001\n", `f.yaml:5: protocols.frame.corethreads: "10001" is more than the 10000 threads of the pool`},
		{"alive", "protocols:\n  frame: {port: 1, alive: 0}", `protocols.frame.alive: "0" is out of range: 1ms to 24h0m0s`},
		{"alive above", "protocols:\n  frame: {port: 1, alive: 25h}", `"25h" is out of range: 1ms to 24h0m0s`},
		{"alive far above", "protocols:\n  frame: {port: 1, alive: 9223372036854775807}", `"9223372036854775807" is out of range`},
		{"alive below", "protocols:\n  frame: {port: 1, alive: -5}", `"-5" is out of range`},
		{"no duration", "protocols:\n  frame: {port: 1, alive: soon}", `protocols.frame.alive: "soon" is no duration: write 3s or 500ms; a number is milliseconds`},
		{"accepts", "protocols:\n  frame: {port: 1, accepts: -1}", `protocols.frame.accepts: "-1" is out of range: 0 to`},
		{"iothreads", "protocols:\n  frame: {port: 1, iothreads: 1025}", `protocols.frame.iothreads: "1025" is out of range: 0 to 1024`},
		{"payload", "protocols:\n  frame: {port: 1, payload: 0}", `protocols.frame.payload: "0" is out of range: 1 to 268435455`},
		{"in flight", "protocols:\n  frame: {port: 1, in-flight: 0}", `protocols.frame.in-flight: "0" is out of range: 1 to 65536`},
		{"warning above the capacity", "protocols:\n  frame:\n    port: 1\n    connect.queue.capacity: 10\n    connect.queue.warning.size: 11", `f.yaml:5: protocols.frame.connect-queue-warning-size: "11" is more than the capacity of 10`},
		{"host", "protocols:\n  frame: {port: 1, host: 'a b'}", `protocols.frame.host: "a b" is no host`},
		{"host with port", "protocols:\n  frame: {port: 1, host: '127.0.0.1:80'}", `protocols.frame.host: "127.0.0.1:80" is no host`},
		{"dispatcher", "protocols:\n  frame:\n    port: 1\n    dispatcher: some\n", `f.yaml:4: protocols.frame.dispatcher: "some" is none of all, direct, message, execution, connection`},
		{"pool kind", "protocols:\n  frame: {port: 1, threadpool: virtual}", `protocols.frame.threadpool: "virtual" is none of fixed, cached, limited, eager`},
		{"ordering", "protocols:\n  frame: {port: 1, ordering: any}", `protocols.frame.ordering: "any" is none of completion, ordered, serial, no-pipelining`},
		{"speaks", "protocols:\n  frame: {port: 1, speaks: [grpc, dubbo]}", `protocols.frame.speaks[1]: "dubbo" is none of frame, grpc, web`},
		{"speaks twice", "protocols:\n  frame: {port: 1, speaks: 'grpc,grpc'}", `protocols.frame.speaks[1]: "grpc" is there twice`},
		{"origin", "protocols:\n  frame: {port: 1, origins: 'a.example'}", `protocols.frame.origins[0]: "a.example" is no origin: write https://host`},
		{"origin with a path", "protocols:\n  frame: {port: 1, origins: ['https://a.example/']}", `protocols.frame.origins[0]: "https://a.example/" is no origin`},
		{"response", "protocols:\n  frame: {port: 1, max-response: 0}", `protocols.frame.max-response: "0" is out of range: 1 to`},
		{"age", "protocols:\n  frame: {port: 1, max-age: 0}", `protocols.frame.max-age: "0" is out of range: 1ms to`},
		{"mode", "application: {executor-management-mode: service}", `application.executor-management-mode: "service" is none of default, isolation`},
		{"retry after", "application: {retry-after: -1s}", `application.retry-after: "-1s" is out of range: 0s to`},
		{"name of a protocol", "protocols:\n  'a b': {port: 1}", `f.yaml:2: protocols.a b: is no name`},
		{"no protocols", "protocols: {}", `f.yaml:1: protocols: needs at least one`},
		{"two protocols on a port", "protocols:\n  a: {port: 80}\n  b: {port: 80}\n", `f.yaml:3: protocols.b.port: 80 is the port of a, too`},
		{"the same key twice", "application: {}\nprotocols:\n  a: {port: 1}\napplication: {}\n", `f.yaml:4: application: is there twice: in line 1, too`},
		{"the same protocol twice", "protocols:\n  a: {port: 1}\n  a: {port: 2}\n", `f.yaml:3: protocols.a: is there twice: in line 2, too`},
		{"two spellings", "application:\n  dump-enable: true\n  dump.enable: true\n", `f.yaml:3: application.dump.enable: is there twice: as dump-enable in line 2, too`},
		{"service without interface", oneProtocol + "services:\n- group: a\n", `f.yaml:4: services[0]: has no interface`},
		{"empty interface", oneProtocol + "services:\n- interface: ''\n", `f.yaml:4: services[0].interface: "" cannot be part of a key`},
		{"colon in a group", oneProtocol + "services:\n- interface: a\n  group: 'b:c'\n", `f.yaml:5: services[0].group: "b:c" cannot be part of a key`},
		{"slash in a version", oneProtocol + "services:\n- interface: a\n  version: 1/2\n", `f.yaml:5: services[0].version: "1/2" cannot be part of a key`},
		{"duplicate service", oneProtocol + "services:\n- {interface: a, version: 1.0}\n- {interface: a}\n- interface: a\n  version: 1.0\n", `f.yaml:6: services[2]: "/a:1.0" is there twice: in line 4, too`},
		{"unknown protocol", oneProtocol + "  tri: {port: -1}\nservices:\n- interface: a\n  protocol: [frame, dubbo]\n", `f.yaml:6: services[0].protocol: "dubbo" is none of the protocols frame, tri`},
		{"a protocol twice", oneProtocol + "services:\n- interface: a\n  protocol: frame,frame\n", `f.yaml:5: services[0].protocol: "frame" is there twice`},
		{"no list of protocols", oneProtocol + "services:\n- interface: a\n  protocol: []\n", `f.yaml:5: services[0].protocol: a list is no list of names`},
		{"services without protocols", "services:\n- interface: a\n", `f.yaml:2: services: need protocols`},
		{"service timeout", oneProtocol + "services:\n- interface: a\n  timeout: 0\n", `f.yaml:5: services[0].timeout: "0" is out of range: 1ms to 24h0m0s`},
		{"unknown executor", "application: {executor-management-mode: isolation}\n" + oneProtocol + "pools: {p: {}}\nservices:\n- interface: a\n  executor: q\n", `f.yaml:7: services[0].executor: "q" is no name in pools: there are p`},
		{"no executors", oneProtocol + "services:\n- interface: a\n  executor: q\n", `f.yaml:5: services[0].executor: "q" is no name in pools: there are none`},
		{"executor of a wrong type", oneProtocol + "services:\n- interface: a\n  executor: [q]\n", `f.yaml:5: services[0].executor: a list is no text`},
		{"client without addresses", "client: {timeout: 1s}", `f.yaml:1: client: has no addresses`},
		{"address", "client:\n  addresses: [a:1, b]\n", `f.yaml:2: client.addresses[1]: "b" is no address: write host:port`},
		{"address without a port", "client:\n  addresses: 'a:0'\n", `f.yaml:2: client.addresses[0]: "a:0" is no address`},
		{"load balance", "client: {addresses: 'a:1', loadbalance: random}", `client.loadbalance: "random" is none of roundrobin, weighted, leastactive, p2c`},
		{"serialization", "client: {addresses: 'a:1', serialization: hessian}", `client.serialization: "hessian" is none of raw, json, protobuf`},
		{"consumer", "client: {addresses: 'a:1', consumer: both}", `client.consumer: "both" is none of caller, pool`},
		{"back-off", "client:\n  addresses: 'a:1'\n  backoff-min: 2s\n  backoff-max: 1s\n", `f.yaml:4: client.backoff-max: "1s" is less than backoff-min, which is 2s`},
		{"back-off above the default", "client:\n  addresses: 'a:1'\n  backoff-min: 11s\n", `f.yaml:3: client.backoff-min: "11s" is more than backoff-max, which is 10s`},
		{"jitter", "client: {addresses: 'a:1', backoff-jitter: 101}", `client.backoff-jitter: "101" is out of range: 0 to 100`},
		{"too many protocols", "protocols:\n" + many(maxProtocols+1, "  p%d: {port: -1}\n"), `f.yaml:66: protocols.p64: is one too many: at most 64 protocols`},
		{"too many pools", "pools:\n" + many(maxPools+1, "  p%d: {}\n"), `f.yaml:10002: pools.p10000: is one too many: at most 10000 pools`},
		{"too many services", oneProtocol + "services:\n" + many(maxServices+1, "- {interface: s%d}\n"), `f.yaml:4: services: 10001 items are too many: at most 10000`},
		{"too many addresses", "client:\n  addresses:\n" + many(maxAddresses+1, "  - a:%d\n"), `f.yaml:3: client.addresses: 1001 items are too many: at most 1000`},
		{"empty file", "", `f.yaml:1: there is nothing in it: it needs protocols and services, or client`},
		{"comments only", "# nothing\n", `there is nothing in it`},
		{"two documents", oneProtocol + "---\n" + oneProtocol, `f.yaml:3: a second document begins here`},
		{"merge", "protocols:\n  a: &a {port: 1}\n  b:\n    <<: *a\n", `f.yaml:4: protocols.b: "<<" is no key`},
		{"no YAML", "protocols:\n  frame: {port: 1\n", `is no YAML: did not find expected ',' or '}'`},
		{"tabs", "protocols:\n\tframe:\n", `f.yaml:2: is no YAML: found character that cannot start any token`},
		{"unknown anchor", "protocols: *x\n", `f.yaml:1: is no YAML: unknown anchor 'x' referenced`},
		{"control character", "a: 1\nb: \x00\n", `f.yaml:2: "\x00" is no text: files are UTF-8 without control characters`},
		{"no UTF-8", "a: 1\n\nb: \xff\n", `f.yaml:3: "\xff" is no text`},
		{"too long", strings.Repeat("#", maxFile+1), `f.yaml:1: the file is longer than 1048576 bytes`},
	} {
		_, err := Parse("f.yaml", []byte(c.file))
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "config: f.yaml:") {
			t.Errorf("%s: %v\nwant %s", c.name, err, c.want)
		}
	}
}

// many is a line for each of n.
func many(n int, format string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// TestEveryErrorAtOnce: what is wrong in a file is told together, in the order of its lines, and not without end.
func TestEveryErrorAtOnce(t *testing.T) {
	_, err := Parse("f.yaml", []byte("application: {x: 1}\nprotocols:\n  frame: {port: 70000, threads: many}\nservices:\n- interface: a\n  protocol: tri\n"))
	want := `config: f.yaml:1: application.x: is no key here: known are name, executor-management-mode, dump-enable, dump-directory, overload, retry-after
config: f.yaml:3: protocols.frame.port: "70000" is out of range: -1 to 65535
config: f.yaml:3: protocols.frame.threads: "many" is no whole number from 1 to 100000
config: f.yaml:6: services[0].protocol: "tri" is none of the protocols frame`
	if err == nil || err.Error() != want {
		t.Errorf("%v\nwant\n%s", err, want)
	}
	_, err = Parse("f.yaml", []byte("protocols:\n  a: {port: 80}\n  b: {port: 80}\nclient: {x: 1}\n")) // the second is found before the first
	if at := strings.Index(err.Error(), "f.yaml:3:"); at < 0 || at > strings.Index(err.Error(), "f.yaml:4:") {
		t.Errorf("%v", err)
	}
	_, err = Parse("f.yaml", []byte("application: {x: 1}\nprotocols: {}\n"))
	if e, ok := errors.AsType[*Error](err); !ok || e.Line != 1 || e.Key != "application.x" {
		t.Errorf("%+v", e)
	}
	_, err = Parse("f.yaml", []byte("protocols:\n"+strings.Repeat("  '': {}\n", 1000)))
	if n := strings.Count(err.Error(), "\n") + 1; n != maxErrors {
		t.Errorf("%d errors, want %d", n, maxErrors)
	}
}

// TestAliases: anchors work, and an error is in the line that names one.
func TestAliases(t *testing.T) {
	c, err := Parse("f.yaml", []byte("pools:\n  a: &a {threads: 10}\n  b: *a\nprotocols:\n  p: {port: &port 1}\n  q: {port: -1}\n"))
	if err != nil || len(c.Server.Ports) != 2 || c.Server.Ports[0].Addr != ":1" {
		t.Fatalf("%v", err)
	}
	_, err = Parse("f.yaml", []byte("protocols:\n  p: {port: &x -1}\nservices:\n- interface: &n [a]\n- *n\n"))
	if want := "f.yaml:5: services[1]: a list is no mapping of keys to values"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
	_, err = Parse("f.yaml", []byte("protocols:\n  p: {port: &x -1, accepts: 5}\n  q:\n    port: -1\n    threads: *x\n"))
	if want := `config: f.yaml:5: protocols.q.threads: "-1" is out of range: 1 to 100000`; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// TestLoadSaysWhy: a file that cannot be read is named.
func TestLoadSaysWhy(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing.yaml")
	if _, err := Load(missing); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), missing) {
		t.Errorf("%v", err)
	}
	if _, err := Load(t.TempDir()); err == nil {
		t.Error("a directory is read")
	}
}

// FuzzParse: no file makes it panic, and every error names a line that the file has.
func FuzzParse(f *testing.F) {
	for _, file := range []string{
		oneProtocol + "services:\n- {interface: a, protocol: 'frame, tri', executor: {threads: 10, alive: 60s}, timeout: 3000}\n",
		"client: {addresses: [a:1], loadbalance: leastactive, dispather: all}\n",
		"application: {executor-management-mode: isolation, dump.enable: false}\npools: {a: &a {threads: 1}, b: *a}\n",
		"protocols:\n  a: &a\n    port: *a\n", "? [a]\n: {}\n", "&a [*a]", "- - - -", "!!binary x: y", "a: |\n  x\n", "\xef\xbb\xbfclient:\n",
	} {
		f.Add([]byte(file))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		_, err := Parse("f", data)
		if err == nil {
			return
		}
		lines := strings.Count(strings.ReplaceAll(string(data), "\r", "\n"), "\n") + 1
		for _, e := range unjoin(err) {
			one, ok := errors.AsType[*Error](e)
			if !ok || one.File != "f" || one.Line < 1 || one.Line > lines+strings.Count(string(data), "\u0085")+strings.Count(string(data), "\u2028")+strings.Count(string(data), "\u2029") {
				t.Errorf("%v, of %d lines", e, lines)
			}
			if len(one.Error()) > 2000 || !printable(strings.ReplaceAll(one.Error(), "\ufffd", "")) {
				t.Errorf("%q", one.Error())
			}
		}
	})
}

func unjoin(err error) []error {
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		return many.Unwrap()
	}
	return []error{err}
}
