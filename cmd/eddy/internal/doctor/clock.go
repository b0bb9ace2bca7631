package doctor

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	clockReadings = 2_000_000 // largest number; some systems step 15 ms at a time, which is longer than so many readings take
	clockSteps    = 64        // number of steps that is enough

	coarse   = time.Millisecond      // a tenth of the tick of the deadlines
	wallJump = 50 * time.Millisecond // more than a clock that is being slewed can move while the other checks run

	clockSource = "/sys/devices/system/clocksource/clocksource0/"
)

// clock checks the monotonic clock, which all deadlines use, and the wall clock, which certificates and tokens depend
// on.
func (e *exam) clock() []Finding {
	const check = "clock"
	last := e.Clock()
	finest, steps, back := time.Duration(0), 0, time.Duration(0)
	for range clockReadings {
		now := e.Clock()
		switch d := time.Duration(now.Mono - last.Mono); {
		case d < 0:
			back = max(back, -d)
		case d > 0:
			steps++
			if finest == 0 || d < finest {
				finest = d
			}
		}
		last = now
		if steps == clockSteps || back > 0 {
			break
		}
	}
	f := Finding{Check: check, Verdict: OK}
	switch {
	case back > 0:
		f.Verdict = Fail
		f.Found = fmt.Sprintf("the monotonic clock went back by %s: deadlines cannot be kept", back)
	case steps == 0:
		f.Verdict = Fail
		f.Found = "the monotonic clock stands still"
	default:
		f.Found = fmt.Sprintf("monotonic, finest step seen %s", finest)
		if finest > coarse {
			f.Verdict = Warn
			f.Found += fmt.Sprintf(", coarser than %s: latencies are not measured well", coarse)
		}
	}
	e.clockSource(&f)
	if jump := time.Duration((last.Wall - last.Mono) - (e.began.Wall - e.began.Mono)); jump.Abs() > wallJump {
		f.Verdict = worse(f.Verdict, Warn)
		f.Found += fmt.Sprintf("; the wall clock jumped by %s meanwhile", jump.Round(time.Millisecond))
	}
	if in, err := e.Synchronised(); err == nil && !in {
		f.Verdict = worse(f.Verdict, Warn)
		f.Found += "; the wall clock follows no time server: certificates and tokens are judged by it"
		f.Remedy = append(f.Remedy, asRoot("timedatectl set-ntp true"))
	}
	return []Finding{f}
}

// clockSource judges the time source of the Linux kernel.
func (e *exam) clockSource(f *Finding) {
	text, err := e.ReadFile(clockSource + "current_clocksource")
	if err != nil {
		return
	}
	name := strings.TrimSpace(string(text))
	f.Found += ", from " + name
	if !slices.Contains([]string{"hpet", "acpi_pm", "pit", "jiffies", "refined-jiffies"}, name) {
		return
	}
	f.Verdict = worse(f.Verdict, Warn)
	f.Found += ", which takes a system call for each look at it, some per request"
	available, _ := e.ReadFile(clockSource + "available_clocksource")
	for better := range strings.FieldsSeq(string(available)) {
		if better == "tsc" || better == "kvm-clock" || better == "arch_sys_counter" {
			f.Remedy = append(f.Remedy, asRoot(fmt.Sprintf("echo %s > %scurrent_clocksource", better, clockSource)))
			return
		}
	}
}
