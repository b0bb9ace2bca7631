// Command gate runs the tests of the repository as its plan says (plan.go): each package in the builds and on the readiness
// backends that it is about, a few test programs side by side, the longest first. A test that fails is run again alone,
// twice, when everything else is over. If it fails again the gate is red; if it passes twice it is named as unsteady, and
// more than three of those make the gate red.
//
//	go run ./scripts/gate                  the whole plan but for what is only in scripts/long
//	go run ./scripts/gate race net         only these runs of the plan
//	go run ./scripts/gate -rounds 5 -count 5 -shuffle -burn 2 race
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
)

func main() {
	o := options{}
	list := flag.Bool("plan", false, "print the plan as a table and end")
	flag.IntVar(&o.beside, "p", 2*runtime.NumCPU(), "test programs side by side")
	flag.IntVar(&o.rounds, "rounds", 1, "how often each run; with more than 1 no test is run again, each failure counts")
	flag.IntVar(&o.count, "count", 1, "-test.count of each test program")
	flag.BoolVar(&o.shuffle, "shuffle", false, "tests in random order")
	flag.IntVar(&o.burn, "burn", 0, "processes that keep a processor busy each, meanwhile")
	flag.StringVar(&o.dir, "dir", "", "where test programs are built; \"\" = a temporary directory")
	flag.StringVar(&o.unsteady, "unsteady", "", "file to which the names of unsteady tests are written")
	flag.Parse()
	if *list {
		fmt.Print(table())
		return
	}
	ok, err := gate(o, flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "gate:", err)
	}
	if !ok {
		os.Exit(1)
	}
}
