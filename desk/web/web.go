// Package web holds the desk's pages: HTML, CSS and plain ES modules, embedded as they are, without a build step. Each
// page starts with a module in static/js; its other modules are in a folder of its own and in core, which all pages
// share.
package web

import (
	"embed"
	"io/fs"
)

//go:embed static
var static embed.FS

// Files returns the pages and their assets. index.html, customer.html and console.html are at the root, and everything
// they refer to as /assets/<path> is under its path. The files never change while the program runs. Any goroutine may
// call it and use the result.
func Files() fs.FS {
	files, err := fs.Sub(static, "static")
	if err != nil {
		panic("web: " + err.Error()) // "static" is a valid path
	}
	return files
}
