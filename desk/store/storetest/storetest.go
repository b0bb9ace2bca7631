// Package storetest is the suite that every implementation of store.Store has to pass.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/go-eddy/eddy/desk/store"
)

// Backend makes stores of one kind.
type Backend struct {
	// New returns the place of a new, empty database; another process can open it, too.
	New func(t testing.TB) string
	// Open opens the database at a place.
	Open func(ctx context.Context, place string, now func() time.Time) (store.Store, error)
	// Settle does the work that a store does in the background for its reports.
	Settle func(ctx context.Context, s store.Store) error
	// Rounds is how many times two agents race for one conversation.
	Rounds int
	// Customers is how many enter at once in a burst; at least 20.
	Customers int
	// Quick leaves out most of what no goroutines are about, but much work: for the race detector.
	Quick bool
}

// Run runs the suite. The name of the calling test must lead to this call alone: the crash test runs it in a second process.
func Run(t *testing.T, b Backend) {
	if place := os.Getenv(childEnv); place != "" {
		child(t, b, place)
		return
	}
	for _, c := range []struct {
		name string
		run  func(*testing.T, *rig)
	}{
		{"Open", testOpen}, {"Dedupe", testDedupe}, {"Refusals", testRefusals}, {"BotTurn", testBotTurn}, {"LateBot", testLateBot},
		{"TakeOver", testTakeOver}, {"Notes", testNotes}, {"Transfer", testTransfer}, {"Return", testReturn}, {"Lost", testLost},
		{"Groups", testGroups}, {"Force", testForce}, {"Seize", testSeize}, {"Missed", testMissed}, {"Warn", testWarn}, {"Leave", testLeave}, {"QueueFull", testQueueFull}, {"Staff", testStaff}, {"LastAgent", testLastAgent}, {"Reopen", testReopen}, {"ReopenToBot", testReopenToBot}, {"NewIsLinked", testNewIsLinked},
		{"Abandoned", testAbandoned}, {"Outbox", testOutbox}, {"OutboxBegins", testOutboxBegins}, {"OutboxTrim", testOutboxTrim}, {"Feed", testFeed}, {"FeedOrder", testFeedOrder}, {"FeedGone", testFeedGone}, {"FeedAccounts", testFeedAccounts}, {"FeedSetup", testFeedSetup}, {"FeedEnds", testFeedEnds}, {"FeedFiles", testFeedFiles}, {"Traced", testTraced}, {"Hooks", testHooks}, {"HookEvents", testHookEvents}, {"OpenByProgram", testOpenByProgram}, {"Capacity", testCapacity}, {"TwoAgents", testTwoAgents},
		{"Files", testFiles}, {"FileRefusals", testFileRefusals}, {"FileStates", testFileStates}, {"FileQuota", testFileQuota}, {"Loose", testLoose}, {"DropClosed", testDropClosed}, {"Erase", testErase}, {"EraseOpen", testEraseOpen}, {"Visits", testVisits}, {"Contacts", testContacts}, {"Merge", testMerge}, {"MergedLate", testMergedLate}, {"OwnFields", testOwnFields}, {"FieldValues", testFieldValues}, {"FieldsApart", testFieldsApart}, {"FieldsMergeErase", testFieldsMergeErase}, {"FieldSearch", testFieldSearch}, {"Secret", testSecret}, {"FilesAt", testFilesAt},
		{"Bots", testBots}, {"BotUsage", testBotUsage}, {"Attributes", testAttributes}, {"Burst", testBurst}, {"Once", testOnce}, {"Random", testRandom}, {"Audit", testAudit},
		{"ManageAgents", testManageAgents}, {"ManageSites", testManageSites}, {"ManageLogo", testManageLogo}, {"ManageGroups", testManageGroups}, {"Canned", testCanned},
		{"Marks", testMarks}, {"Places", testPlaces}, {"Access", testAccess}, {"ClockSetBack", testClockSetBack}, {"History", testHistory}, {"Search", testSearch},
		{"SearchScope", testSearchScope}, {"Lists", testLists}, {"ListsHoldStill", testListsHoldStill}, {"Tag", testTag}, {"Rate", testRate}, {"Block", testBlock}, {"PatchContact", testPatchContact}, {"CannedFor", testCannedFor},
		{"RollUps", testRollUps}, {"Reports", testReports}, {"ReportHistories", testReportHistories}, {"ReportRatings", testReportRatings}, {"ReportTargets", testReportTargets}, {"Silent", testSilent}, {"FirstAction", testFirstAction}, {"Greeting", testGreeting},
		{"Identify", testIdentify}, {"Logins", testLogins}, {"Tickets", testTickets}, {"Leases", testLeases}, {"LeaseRace", testLeaseRace}, {"Nodes", testNodes}, {"Servers", testServers}, {"Presence", testPresence}, {"LostTurns", testLostTurns}, {"TrimWaits", testTrimWaits}, {"Offers", testOffers}, {"Spent", testSpent}, {"Factors", testFactors}, {"Invitations", testInvitations}, {"Identities", testIdentities}, {"PreChat", testPreChat},
		{"Rules", testRules}, {"RuleQueueFull", testRuleQueueFull}, {"RuleLimits", testRuleLimits}, {"Skills", testSkills}, {"Statuses", testStatuses}, {"Priority", testPriority}, {"Snooze", testSnooze}, {"SnoozeEnds", testSnoozeEnds}, {"Targets", testTargets}, {"TargetsAtLast", testTargetsAtLast}, {"TargetsLookAway", testTargetsLookAway}, {"Relax", testRelax},
		{"Keys", testKeys}, {"Filters", testFilters}, {"Conversations", testConversations}, {"Notices", testNotices},
		{"LeftMessage", testLeftMessage}, {"LeftMessageRefused", testLeftMessageRefused}, {"LeftMessageAnswered", testLeftMessageAnswered}, {"Away", testAway},
		{"Mail", testMail}, {"Answers", testAnswers}, {"MailIsBounded", testMailIsBounded}, {"MailGoesWithItsChat", testMailGoesWithItsChat}, {"Resets", testResets}, {"Push", testPush}, {"PushEnds", testPushEnds}, {"PushRefused", testPushRefused}, {"AskReset", testAskReset},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, b, b.New(t))
			c.run(t, r)
			r.verify()
		})
	}
	t.Run("EraseAgain", func(t *testing.T) { testEraseAgain(t, b) })
	t.Run("Crash", func(t *testing.T) { testCrash(t, b) })
}

// rig is a store with a site, its group and two agents, lin and moe.
type rig struct {
	store.Store
	b      Backend
	place  string
	shared bool // there is another server, too
	t      testing.TB
	site   store.Site
	lin    store.AgentAccount
	moe    store.AgentAccount
	feed   *followed
	shift  atomic.Int64 // nanoseconds that the store's clock is ahead
	still  atomic.Int64 // Unix milliseconds at which the store's clock stands, 0 = it goes
}

func openRig(t testing.TB, b Backend, place string) *rig {
	t.Helper()
	r := &rig{b: b, place: place, t: t}
	s, err := b.Open(t.Context(), place, r.now)
	if err != nil {
		t.Fatal(err)
	}
	r.Store, r.feed = s, follow(s)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// now is the store's clock.
func (r *rig) now() time.Time {
	if at := r.still.Load(); at != 0 {
		return time.UnixMilli(at)
	}
	return time.Now().Add(time.Duration(r.shift.Load()))
}

func newRig(t testing.TB, b Backend, place string) *rig {
	t.Helper()
	r := openRig(t, b, place)
	r.site = r.newSite(store.Site{Key: "demo", Name: "Demo", BotName: "Eddy"})
	r.lin, r.moe = r.agent("lin", 5), r.agent("moe", store.MaxCapacity)
	return r
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) newSite(s store.Site) store.Site {
	r.t.Helper()
	s, err := r.CreateSite(r.t.Context(), s)
	r.must(err)
	return s
}

func (r *rig) agent(login string, capacity int) store.AgentAccount {
	r.t.Helper()
	a, err := r.CreateAgent(r.t.Context(), store.AgentAccount{Login: login, Name: login, Password: "x", Capacity: capacity})
	r.must(err)
	return a
}

func (r *rig) group(name string, members ...store.AgentAccount) store.Group {
	r.t.Helper()
	g, err := r.CreateGroup(r.t.Context(), store.Group{Name: name})
	r.must(err)
	for _, a := range members {
		r.must(r.AddMember(r.t.Context(), g.ID, a.ID))
	}
	return g
}

func (r *rig) visitor() store.Contact {
	r.t.Helper()
	id := uuid.New()
	var token store.Token
	copy(token[:], id[:])
	c, err := r.CreateVisitor(r.t.Context(), r.site, token, time.Now().Add(time.Hour))
	r.must(err)
	return c
}

func (r *rig) try(cmd store.Command) store.Outcome {
	result := make(chan store.Outcome, 2)
	r.Do(cmd, time.Now().Add(time.Hour), func(out store.Outcome) { result <- out })
	return <-result
}

func (r *rig) do(cmd store.Command) store.Outcome {
	r.t.Helper()
	out := r.try(cmd)
	if out.Err != nil {
		r.t.Fatalf("%+v: %v", cmd, out.Err)
	}
	return out
}

// refused runs a command that has to fail, and returns the outcome.
func (r *rig) refused(cmd store.Command, want error) store.Outcome {
	r.t.Helper()
	out := r.try(cmd)
	if !errors.Is(out.Err, want) || len(out.Events) != 0 {
		r.t.Errorf("%+v: %v with %d events, want %v", cmd, out.Err, len(out.Events), want)
	}
	return out
}

func (r *rig) open(c store.Contact, human bool) store.Conversation {
	r.t.Helper()
	return r.do(store.Open{Contact: c, Human: human}).Conv
}

// assigned opens a conversation and gives it to an agent.
func (r *rig) assigned(c store.Contact, a store.AgentAccount) store.Conversation {
	r.t.Helper()
	return r.do(store.Move{Conv: r.open(c, true).ID, Trigger: store.TakeOver, By: a.Actor()}).Conv
}

func (r *rig) head(id string) store.Conversation {
	r.t.Helper()
	c, err := r.Cold().Conversation(r.t.Context(), id)
	r.must(err)
	return c
}

func (r *rig) events(conv string, side store.Side) []store.Event {
	r.t.Helper()
	events, more, err := r.Cold().Events(r.t.Context(), conv, side, 0, 1_000_000, 1<<30)
	if err != nil || more {
		r.t.Fatal(err, more)
	}
	return events
}

func (r *rig) load(agent string) store.Load {
	r.t.Helper()
	loads, err := r.Cold().Loads(r.t.Context())
	r.must(err)
	for _, l := range loads {
		if l.Agent == agent {
			return l
		}
	}
	r.t.Fatalf("no agent %s", agent)
	return store.Load{}
}

func text(conv string, from store.Actor, body string) store.Append {
	return store.Append{Conv: conv, From: from, ClientID: uuid.NewString(), Body: body}
}

// system is the server itself.
var system = store.Actor{Kind: store.System, Name: "system"}

// verify compares what the store keeps in several places: counters of agents with rows, heads with events, owners with assignments.
func (r *rig) verify(convs ...string) {
	r.t.Helper()
	open, err := r.Cold().OpenConversations(r.t.Context())
	r.must(err)
	rows := make(map[string]int)
	contacts := make(map[string]int)
	for _, c := range open {
		convs = append(convs, c.ID)
		contacts[c.Contact]++
		if c.State == store.Assigned && !c.Snoozed() {
			rows[c.Owner.ID]++
		}
		if contacts[c.Contact] > 1 {
			r.t.Errorf("contact %s has %d open conversations", c.Contact, contacts[c.Contact])
		}
	}
	loads, err := r.Cold().Loads(r.t.Context())
	r.must(err)
	for _, l := range loads {
		if l.Active != rows[l.Agent] {
			r.t.Errorf("agent %s: counter %d, rows %d", l.Agent, l.Active, rows[l.Agent])
		}
	}
	if n, err := r.Reconcile(r.t.Context()); n != 0 || err != nil {
		r.t.Errorf("%d counters differ from the rows, %v", n, err)
	}
	for _, id := range convs {
		r.verifyConv(id)
	}
	r.verifyFeed()
}

func (r *rig) verifyConv(id string) {
	r.t.Helper()
	c := r.head(id)
	var last store.Change
	var pseq uint64
	events := r.events(id, store.StaffSide)
	for i, e := range events {
		if e.PSeq != 0 {
			pseq++
		}
		if e.Seq != uint64(i+1) || (e.PSeq != 0 && e.PSeq != pseq) || (e.PSeq == 0) != (e.Kind == store.KindNote) {
			r.t.Errorf("%s: event %d is %s with seq %d, pseq %d", id, i+1, e.Kind, e.Seq, e.PSeq)
		}
		if e.Kind == store.KindEvent {
			if err := follows(last, *e.Change); err != nil {
				r.t.Errorf("%s: event %d: %v", id, e.Seq, err)
			}
			last = *e.Change
		}
	}
	if c.LastSeq != uint64(len(events)) || c.LastPSeq != pseq {
		r.t.Errorf("%s: head says %d and %d, there are %d and %d events", id, c.LastSeq, c.LastPSeq, len(events), pseq)
	}
	if c.State != last.State || c.Rev != last.Rev || c.Epoch != last.Epoch || !c.Owner.Is(last.Owner) {
		r.t.Errorf("%s: head %+v, last change %+v", id, c, last)
	}
	had, err := r.Cold().Assignments(r.t.Context(), id)
	r.must(err)
	owner := ""
	for i, a := range had {
		if a.To == 0 {
			owner += a.Agent
		}
		if a.To != 0 && a.To < a.From || i > 0 && a.Epoch <= had[i-1].Epoch {
			r.t.Errorf("%s: assignments %+v", id, had)
		}
	}
	if want := c.Owner.ID; (c.State == store.Assigned || owner != "") && owner != want {
		r.t.Errorf("%s: owner %q, assigned to %q", id, want, owner)
	}
}

// follows tells whether one change may come after another.
func follows(before, now store.Change) error {
	owned := map[store.State]store.ActorKind{store.InBot: store.Bot, store.Queued: "", store.Assigned: store.Agent, store.Deferred: "", store.Closed: ""}
	kind, known := owned[now.State]
	moved := !now.Owner.Is(before.Owner) || before.State == store.None
	switch {
	case !known || now.Owner.Kind != kind:
		return fmt.Errorf("state %q with owner %+v", now.State, now.Owner)
	case now.From != before.State || !now.Was.Is(before.Owner):
		return fmt.Errorf("from %q of %+v, but it was %q of %+v", now.From, now.Was, before.State, before.Owner)
	case now.Rev != before.Rev+1:
		return fmt.Errorf("revision %d after %d", now.Rev, before.Rev)
	case moved && now.Epoch != before.Epoch+1, !moved && now.Epoch != before.Epoch:
		return fmt.Errorf("epoch %d after %d, owner %+v after %+v", now.Epoch, before.Epoch, now.Owner, before.Owner)
	}
	return nil
}
