package storetest

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
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
		r.listened()
		r.site.Group = r.aiming(time.Millisecond, r.lin, r.moe).ID
		r.must(r.UpdateSite(t.Context(), r.site))
	})
	acked := make(map[string]string)
	for round := range crashes {
		if !t.Run(fmt.Sprint("round", round+1), func(t *testing.T) {
			kill(t, place, acked)
			r := openRig(t, b, place)
			r.checkAcked(acked)
		}) {
			return
		}
	}
}

// kill runs the child until it has acknowledged enough and ends it without a word.
func kill(t *testing.T, place string, acked map[string]string) {
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
	lines := bufio.NewScanner(out)
	n := 0
	for lines.Scan() {
		id, where, ok := strings.Cut(strings.TrimPrefix(lines.Text(), "ack "), " ")
		if !ok || !strings.HasPrefix(lines.Text(), "ack ") {
			t.Log(lines.Text())
			continue
		}
		acked[id] = where
		if n++; n == crashAcks { // what it has still written into the pipe counts, too
			if err := cmd.Process.Kill(); err != nil {
				t.Error(err)
			}
		}
	}
	if err := cmd.Wait(); n < crashAcks || err == nil {
		t.Fatalf("the process ended by itself after %d acknowledgements: %v", n, err)
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
			continue // of a contact or a target
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
	if n := r.verifyTold(); n < len(convs)/2 {
		r.t.Errorf("%d waits of %d conversations have been told", n, len(convs))
	}
	if n, err := r.Reconcile(r.t.Context()); n != 0 || err != nil {
		r.t.Errorf("%d counters differ from the rows, %v", n, err)
	}
}

// child is the process that is killed: it writes without an end and says what has been acknowledged.
func child(t *testing.T, b Backend, place string) {
	r := openRig(t, b, place)
	var err error
	r.site, err = r.Hot().SiteByKey(t.Context(), "demo")
	r.must(err)
	r.lin, err = r.Cold().AgentByLogin(t.Context(), "lin")
	r.must(err)
	r.moe, err = r.Cold().AgentByLogin(t.Context(), "moe")
	r.must(err)
	var out sync.Mutex
	run := func(cmd store.Command) (store.Outcome, bool) {
		result := r.try(cmd)
		if errors.Is(result.Err, store.ErrStopped) {
			return result, false
		}
		out.Lock()
		defer out.Unlock()
		for _, e := range result.Events {
			fmt.Printf("ack %s %s %d\n", e.ID, e.Conv, e.Seq)
		}
		return result, true
	}
	var all sync.WaitGroup
	for range crashWriters {
		contact := r.visitor()
		all.Go(func() {
			for deadline := time.Now().Add(5 * time.Minute); time.Now().Before(deadline); {
				if !r.story(contact, run) {
					return
				}
			}
		})
	}
	all.Wait()
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
