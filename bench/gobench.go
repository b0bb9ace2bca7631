package main

import (
	"bufio"
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
)

// figures are the values of one line of `go test -bench` by their unit, such as "ns/op".
type figures map[string]float64

// goBench runs the benchmarks of a package of the engine that match the pattern and returns their figures by name. Names
// lack the prefix Benchmark and the suffix with the processors. With more than one count the figures are medians.
func goBench(ctx context.Context, pkg, pattern, benchtime string, count int) (map[string]figures, error) {
	cmd := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", pattern, "-benchtime", benchtime, "-count", strconv.Itoa(count), pkg)
	cmd.Dir = ".."
	out, err := cmd.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	found := parseBench(string(out))
	if len(found) == 0 {
		return nil, fmt.Errorf("%s: no benchmark in\n%s", strings.Join(cmd.Args, " "), out)
	}
	return found, nil
}

var benchName = regexp.MustCompile(`^Benchmark(\S+?)(-\d+)?$`)

// parseBench reads the output of `go test -bench`. For a benchmark that ran several times it takes the medians.
func parseBench(text string) map[string]figures {
	all := map[string]map[string][]float64{}
	for s := bufio.NewScanner(strings.NewReader(text)); s.Scan(); {
		fields := strings.Fields(s.Text())
		if len(fields) < 4 || len(fields)%2 != 0 {
			continue
		}
		m := benchName.FindStringSubmatch(fields[0])
		if m == nil {
			continue
		}
		if all[m[1]] == nil {
			all[m[1]] = map[string][]float64{}
		}
		for i := 2; i < len(fields); i += 2 {
			if v, err := strconv.ParseFloat(fields[i], 64); err == nil {
				all[m[1]][fields[i+1]] = append(all[m[1]][fields[i+1]], v)
			}
		}
	}
	found := map[string]figures{}
	for name, units := range all {
		found[name] = figures{}
		for unit, values := range units {
			found[name][unit] = median(values)
		}
	}
	return found
}

// timers measures the wheel of deadlines.
func timers(ctx context.Context, _ *binaries, s settings) (*report, error) {
	progress("the wheel with 1 k, 100 k and 1 M armed deadlines")
	found, err := goBench(ctx, "./internal/wheel", "^Benchmark(Move|ScheduleCancel|Tick|Expire|Memory)$", s.duration.String(), s.rounds)
	if err != nil {
		return nil, err
	}
	g := &grid{First: "armed deadlines", Columns: []column{
		{"bytes each", "%.1f"}, {"re-arm ns", "%.0f"}, {"arm and cancel ns", "%.0f"}, {"tick ns", "%.0f"}, {"expire and arm again ns", "%.0f"},
	}}
	for _, n := range []string{"1000", "100000", "1000000"} {
		at := func(name, unit string) float64 { return found[name+"/armed="+n][unit] }
		g.add(n, at("Memory", "B/entry"), at("Move", "ns/op"), at("ScheduleCancel", "ns/op"), at("Tick", "ns/op"), at("Expire", "ns/op"))
	}
	return &report{Rounds: s.rounds, Duration: s.duration.String(), Grids: []*grid{g},
		Note: "Median over the rounds. Activity on a connection re-arms nothing: it stores a time, and the wheel looks at it when the entry fires."}, nil
}
