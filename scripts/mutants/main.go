// Command mutants plants faults, one at a time, in the code whose tests matter most, and tells which of them no test finds.
// A seed draws the faults, so that two versions of the tests can be held against the same ones. Nothing in the tree is
// changed: the compiler is given the changed file in place of the one on disk.
//
//	go run ./scripts/mutants -n 60 -seed 1
//	go run ./scripts/mutants -n 60 -seed 1 -list         only name them
//	go run ./scripts/mutants -seed 1 -n 60 -only 17      one of them, with what the tests print
package main

import (
	"flag"
	"fmt"
	"os"
	"time"
)

func main() {
	o := options{root: "."}
	flag.IntVar(&o.n, "n", 60, "how many faults")
	flag.Uint64Var(&o.seed, "seed", 1, "which ones")
	flag.IntVar(&o.only, "only", 0, "the number of the only one to plant; 0 = all")
	flag.DurationVar(&o.timeout, "timeout", 3*time.Minute, "of the tests of a package; a test that hangs has found the fault")
	list := flag.Bool("list", false, "name the faults and end")
	flag.Parse()
	all, err := draw(o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(2)
	}
	if *list {
		for i, m := range all[:min(o.n, len(all))] {
			fmt.Printf("%3d %v\n", i+1, m)
		}
		return
	}
	if err := try(o, all, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(2)
	}
}
