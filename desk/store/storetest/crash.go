package storetest

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/store"
)

// childEnv names the database that a second process of the test writes to until it is killed.
const childEnv = "EDDY_STORETEST_PLACE"

const crashes, crashAcks, crashWriters = 3, 150, 4

// testCrash kills a process in the middle of its work, three times over, and looks at what it left: everything that was
// acknowledged, and nothing half done.
func testCrash(t *testing.T, b Backend) {
	place := b.New(t)
	t.Run("prepare", func(t *testing.T) {
		r := newRig(t, b, place)
		r.site.Group = r.aiming(time.Millisecond, r.lin, r.moe).ID
		r.must(r.UpdateSite(t.Context(), r.site))
		r.lin.Capacity = store.MaxCapacity // what the killed processes had in hand stays with her
		r.must(r.UpdateAgent(t.Context(), r.lin))
	})
	left := left{acked: make(map[string]string), done: make(map[string][]string)}
	for round := range crashes {
		if !t.Run(fmt.Sprint("round", round+1), func(t *testing.T) {
			left.kill(t, place)
			r := openRig(t, b, place)
			r.again()
			r.checkAcked(left.acked)
			r.checkDone(left.done)
		}) {
			return
		}
	}
}

// left is what processes have acknowledged before they were killed.
type left struct {
	acked map[string]string   // events by id, with conversation and number
	done  map[string][]string // keys of durables by name, and commands of the story
}

// kill runs the child until it has acknowledged enough, each command at least once, and ends it without a word.
func (l *left) kill(t *testing.T, place string) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	top, _, _ := strings.Cut(t.Name(), "/")
	cmd := exec.CommandContext(t.Context(), exe, "-test.run=^"+top+"$", "-test.timeout=10m")
	cmd.Env = append(os.Environ(), childEnv+"="+place)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	missing := crashCommands()
	lines := bufio.NewScanner(out)
	n, killed := 0, false
	for lines.Scan() {
		verb, rest, _ := strings.Cut(lines.Text(), " ")
		id, where, _ := strings.Cut(rest, " ")
		switch verb {
		case "ack":
			l.acked[id] = where
			n++
		case "done":
			l.done[id] = append(l.done[id], where)
			delete(missing, id)
		case "failed":
			t.Error(rest)
		default:
			t.Log(lines.Text())
		}
		if (n >= crashAcks && len(missing) == 0 || t.Failed()) && !killed { // what it has still written into the pipe counts, too
			killed = true
			if err := cmd.Process.Kill(); err != nil {
				t.Error(err)
			}
		}
	}
	if err := cmd.Wait(); !killed || err == nil {
		t.Fatalf("the process ended by itself after %d acknowledgements, without %v: %v", n, missing, err)
	}
}

// crashCommands returns what a process does at least once before it is killed.
func crashCommands() map[string]bool {
	all := make(map[string]bool)
	for _, d := range durables() {
		all[d.names[0]] = true
	}
	for _, name := range storyCommands() {
		all[name] = true
	}
	return all
}

// storyCommands returns the commands of a story, whose events are looked for.
func storyCommands() []string {
	return []string{"Open", "Append", "BotTurn", "Arrange", "Relax", "Move", "Snooze", "Warn", "TellTarget", "LeftMessage"}
}

// checkDone looks for what was done without an event.
func (r *rig) checkDone(done map[string][]string) {
	r.t.Helper()
	for _, d := range durables() {
		for _, key := range done[d.names[0]] {
			if err := d.there(r, key); err != nil {
				r.t.Errorf("%v of %s was acknowledged: %v", d.names, key, err)
			}
		}
	}
}

func (r *rig) checkAcked(acked map[string]string) {
	r.t.Helper()
	convs := make(map[string][]string)
	for id, where := range acked {
		conv, _, _ := strings.Cut(where, " ")
		convs[conv] = append(convs[conv], id)
	}
	for conv, ids := range convs {
		there := make(map[string]string)
		for _, e := range r.events(conv, store.StaffSide) {
			there[e.ID] = fmt.Sprint(e.Conv, " ", e.Seq)
		}
		for _, id := range ids {
			if there[id] != acked[id] {
				r.t.Errorf("event %s was acknowledged as %q, there is %q", id, acked[id], there[id])
			}
		}
		r.verifyConv(conv)
	}
	r.verify()
	told := make(map[string]uint64)
	for _, row := range r.outbox(0) {
		if row.Event == 0 {
			continue // of a contact, of tags, of a rating or of a target
		}
		if told[row.Conv]++; row.Event != told[row.Conv] {
			r.t.Errorf("the outbox has event %d of %s after %d", row.Event, row.Conv, told[row.Conv]-1)
		}
	}
	for conv := range convs {
		if last := r.head(conv).LastSeq; told[conv] != last {
			r.t.Errorf("%d events of %s, %d rows in the outbox", last, conv, told[conv])
		}
	}
	if n := r.verifyTold(true); n == 0 { // a fast machine answers most within the target of a millisecond
		r.t.Errorf("no wait of %d conversations has been told", len(convs))
	}
	if n, err := r.Recount(r.t.Context()); n != 0 || err != nil {
		r.t.Errorf("%d numbers of the reports were wrong, %v", n, err)
	}
}

// child is the process that is killed: it writes without an end and says what has been acknowledged.
func child(t *testing.T, b Backend, place string) {
	r := openRig(t, b, place)
	r.again()
	say := sayer()
	run := func(cmd store.Command) (store.Outcome, bool) {
		result := r.try(cmd)
		if errors.Is(result.Err, store.ErrStopped) {
			return result, false
		}
		if result.Err == nil {
			say("done " + reflect.TypeOf(cmd).Name())
		}
		for _, e := range result.Events {
			say(fmt.Sprintf("ack %s %s %d", e.ID, e.Conv, e.Seq))
		}
		return result, true
	}
	var all sync.WaitGroup
	deadline := time.Now().Add(5 * time.Minute)
	for range crashWriters {
		contact := r.visitor()
		all.Go(func() {
			for time.Now().Before(deadline) && r.story(contact, run) {
			}
		})
	}
	for i := range crashWriters {
		var part []durable
		for n, d := range durables() {
			if n%crashWriters == i {
				part = append(part, d)
			}
		}
		all.Go(func() {
			for time.Now().Before(deadline) && r.durable(part, say) {
			}
		})
	}
	all.Wait()
}

// again finds what newRig has made in another process.
func (r *rig) again() {
	r.t.Helper()
	var err error
	r.site, err = r.Hot().SiteByKey(r.t.Context(), "demo")
	r.must(err)
	r.lin, err = r.Cold().AgentByLogin(r.t.Context(), "lin")
	r.must(err)
	r.moe, err = r.Cold().AgentByLogin(r.t.Context(), "moe")
	r.must(err)
}

// sayer returns a function that writes whole lines to the standard output.
func sayer() func(line string) {
	var mu sync.Mutex
	return func(line string) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Println(line)
	}
}

// durable does each of some things that have no events once, and reports whether the store goes on.
func (r *rig) durable(part []durable, say func(line string)) bool {
	for _, d := range part {
		key := newKey()
		switch err := d.do(r, key); {
		case errors.Is(err, store.ErrStopped):
			return false
		case err == nil:
			say("done " + d.names[0] + " " + key)
		case !errors.Is(err, errFull):
			say("failed " + strings.ReplaceAll(fmt.Sprintf("%v: %v", d.names, err), "\n", "; "))
		}
	}
	return true
}

// story is the whole life of one conversation.
func (r *rig) story(c store.Contact, run func(store.Command) (store.Outcome, bool)) bool {
	opened, ok := run(store.Open{Contact: c})
	id, lin, moe := opened.Conv.ID, r.lin.Actor(), r.moe.Actor()
	for _, cmd := range []store.Command{
		text(id, c.Actor(), "hello"),
		store.BotTurn{Conv: id, Turn: opened.Turn, Say: []store.Say{{Body: "hi"}}, Handoff: true},
		store.Arrange{Conv: id, By: moe, Priority: store.PriorityHigh},
		store.Relax{Conv: id, Rev: 2, Missed: []string{"returns"}},
		store.TellTarget{Conv: id},
		store.TellTarget{Conv: id},
		store.Move{Conv: id, Trigger: store.TakeOver, By: lin},
		text(id, lin, "here I am"),
		store.Warn{Conv: id, Seq: 8, Body: "still there?"},
		store.Append{Conv: id, From: moe, ClientID: "note " + id, Body: "good", Note: true},
		store.Snooze{Conv: id, By: lin, Until: r.now().Add(time.Hour).UnixMilli()},
		text(id, c.Actor(), "are you there?"),
		store.Snooze{Conv: id, By: lin, Until: r.now().Add(time.Hour).UnixMilli()},
		store.Move{Conv: id, Trigger: store.TransferAgent, By: lin, To: r.moe.ID, Note: "yours"},
		store.Move{Conv: id, Trigger: store.Return, By: moe},
		store.Move{Conv: id, Trigger: store.TakeOver, By: moe},
		store.Move{Conv: id, Trigger: store.AgentClose, By: moe},
		text(id, c.Actor(), "one more thing"),
		store.TellTarget{Conv: id},
		store.Move{Conv: id, Trigger: store.CustomerClose, By: c.Actor()},
	} {
		if !ok {
			return false
		}
		_, ok = run(cmd)
	}
	if !ok {
		return false
	}
	left, ok := run(leave(c, "later"))
	for _, trigger := range []store.Trigger{store.TakeOver, store.AgentClose} {
		if ok {
			_, ok = run(store.Move{Conv: left.Conv.ID, Trigger: trigger, By: lin})
		}
	}
	return ok
}
