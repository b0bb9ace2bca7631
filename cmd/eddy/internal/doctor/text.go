package doctor

import (
	"fmt"
	"io"
	"strconv"
	"strings"
)

const (
	width  = 80 // columns of a line of prose; a command stays in one piece
	margin = 23 // columns before the prose
)

// Write prints a report for people. With colour the verdicts are coloured for a terminal.
func (r Report) Write(w io.Writer, colour bool) error {
	var b strings.Builder
	b.WriteString("eddy doctor: " + r.System)
	if r.Conns > 0 {
		fmt.Fprintf(&b, ", for %s", count(r.Conns, "connection"))
	}
	b.WriteString("\n\n")
	tally := make(map[Verdict]int)
	for _, f := range r.Findings {
		f.write(&b, colour)
		tally[f.Verdict]++
	}
	fmt.Fprintf(&b, "\n%d ok, %d to look at, %d failed, %d left out\n", tally[OK], tally[Warn], tally[Fail], tally[Skip])
	_, err := io.WriteString(w, b.String())
	return err
}

func (f Finding) write(b *strings.Builder, colour bool) {
	verdict := fmt.Sprintf("%-4s", strings.ToUpper(string(f.Verdict)))
	if code := map[Verdict]string{OK: "32", Warn: "33", Fail: "31;1", Skip: "2"}[f.Verdict]; colour {
		verdict = "\x1b[" + code + "m" + verdict + "\x1b[0m"
	}
	for i, line := range wrap(f.Found, width-margin) {
		if i == 0 {
			fmt.Fprintf(b, "%s  %-*s%s\n", verdict, margin-6, f.Check, line)
		} else {
			fmt.Fprintf(b, "%*s%s\n", margin, "", line)
		}
	}
	for _, s := range f.Remedy {
		fmt.Fprintf(b, "      %s:\n          %s\n", s.Where, s.Do)
	}
}

// wrap breaks a text between words. A word longer than a line gets a line of its own.
func wrap(text string, columns int) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		switch {
		case line == "":
			line = word
		case len(line)+1+len(word) <= columns:
			line += " " + word
		default:
			lines = append(lines, line)
			line = word
		}
	}
	return append(lines, line)
}

// number prints a number with commas.
func number(n uint64) string {
	s := strconv.FormatUint(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// limit prints a limit.
func limit(n uint64) string {
	if n >= 1<<62 { // as some systems write none
		return "none"
	}
	return number(n)
}

// count prints a number of things.
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return number(uint64(n)) + " " + thing + "s"
}

// size prints a number of bytes.
func size(n uint64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d bytes", n)
	}
	v, i := float64(n)/unit, 0
	for v >= unit && i < 3 {
		v, i = v/unit, i+1
	}
	return fmt.Sprintf("%.1f %s", v, []string{"KiB", "MiB", "GiB", "TiB"}[i])
}
