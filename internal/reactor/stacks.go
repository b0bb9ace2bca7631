package reactor

import (
	"bytes"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
)

// Sizes of the dump that is searched for a goroutine. Loops are among the first goroutines of a process, so a part of the
// dump is enough even when there are very many.
const (
	dumpMin = 64 << 10
	dumpMax = 4 << 20
)

// StackOf returns the stack of the goroutine with this number, "" when it is not among the first ones.
func StackOf(id uint64) string {
	for size := dumpMin; size <= dumpMax; size *= 8 {
		dump := make([]byte, size)
		n := runtime.Stack(dump, true)
		if stack := findStack(dump[:n], id); stack != "" || n < size {
			return stack
		}
	}
	return ""
}

func findStack(dump []byte, id uint64) string {
	header := []byte("goroutine " + strconv.FormatUint(id, 10) + " [")
	for len(dump) > 0 {
		block, rest, _ := bytes.Cut(dump, []byte("\n\n"))
		if bytes.HasPrefix(block, header) {
			return string(block)
		}
		dump = rest
	}
	return ""
}

const modulePath = "github.com/go-eddy/eddy"

// HandlerIn names the application's function that blocks in a stack, where the callee comes first. The function is the
// innermost of those that the engine or one of the module's protocols has called, "" if there is none.
func HandlerIn(stack string) (handler string) {
	for line := range strings.SplitSeq(stack, "\n") {
		if line == "" || line[0] == '\t' || strings.HasPrefix(line, "goroutine ") || strings.HasPrefix(line, "created by ") {
			continue
		}
		if i := strings.LastIndexByte(line, '('); i > 0 {
			line = line[:i]
		}
		switch pkg := packageOf(line); {
		case ofEngine(pkg):
			if handler != "" {
				return handler
			}
		case !ofStandardLibrary(pkg):
			handler = line
		}
	}
	return handler
}

// packageOf returns the import path in the name of a function.
func packageOf(function string) string {
	end := strings.LastIndexByte(function, '/') + 1
	if i := strings.IndexByte(function[end:], '.'); i >= 0 {
		return function[:end+i]
	}
	return function
}

// ofEngine reports whether a package is a library of this module. The module's other packages are applications.
func ofEngine(pkg string) bool {
	rest, ok := strings.CutPrefix(pkg, modulePath)
	if !ok || rest == "" {
		return ok
	}
	first, _, _ := strings.Cut(strings.TrimPrefix(rest, "/"), "/")
	switch first {
	case "admin", "buf", "codec", "executor", "http1", "internal", "metrics", "relay", "ring", "rpc", "tlsx", "websocket":
		return rest[0] == '/'
	}
	return false
}

// mainModule is the path of the application's module, which need not have a dot in it.
var mainModule = sync.OnceValue(func() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.Main.Path
	}
	return ""
})

// ofStandardLibrary reports whether a package comes with Go, or is one of its extensions, of which the engine uses one.
func ofStandardLibrary(pkg string) bool {
	if strings.HasPrefix(pkg, "golang.org/x/") {
		return true
	}
	first, _, _ := strings.Cut(pkg, "/")
	return first != "main" && !strings.Contains(first, ".") && !strings.HasPrefix(pkg+"/", mainModule()+"/")
}

// Starved reports whether a stack without a handler is that of a loop that could go on. Such a loop has no processor, or is
// at its poller, which does not wait during an iteration.
func Starved(stack string) bool {
	header, _, _ := strings.Cut(stack, "\n")
	return strings.Contains(header, " [runnable") || strings.Contains(stack, "\n"+modulePath+"/internal/poll.") ||
		strings.Contains(stack, "\n"+modulePath+"/internal/sys/netsys.(*poller).Wait(")
}
