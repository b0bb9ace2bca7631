// Command eddy is the product's one binary: the Desk chat server, small example servers on the engine, and a load generator.
package main

import "github.com/go-eddy/eddy/cmd/eddy/internal/root"

func main() { root.Main() }
