package store

import (
	"errors"
	"math/rand/v2"
	"testing"
)

var (
	theBot   = Actor{Kind: Bot, ID: "rules"}
	ann      = Actor{Kind: Customer, ID: "ann"}
	lin, moe = Actor{Kind: Agent, ID: "lin"}, Actor{Kind: Agent, ID: "moe"}
	system   = Actor{Kind: System}
	states   = []State{None, InBot, Queued, Assigned, Deferred, Closed}
	triggers = []Trigger{
		OpenWithBot, OpenForHuman, Handoff, TakeOver, Assign, TransferAgent, TransferGroup, Return, OwnerGone, NoAnswer,
		CustomerClose, AgentClose, Idle, Abandon, Block, ReopenToQueue, ReopenToBot, Seize, LeaveMessage, "nonsense",
	}
)

// in returns a conversation of ann in a state; assigned, it is lin's.
func in(s State) Conversation {
	c := Conversation{ID: "c", Contact: ann.ID, State: s, Priority: PriorityNormal}
	if s != None {
		c.Rev, c.Epoch, c.OpenedAt = 1, 1, 10
	}
	switch s {
	case InBot:
		c.Owner = theBot
	case Queued:
		c.QueuedAt = 20
	case Assigned:
		c.Owner, c.QueuedAt, c.AssignedAt, c.LastAgent = lin, 20, 30, lin.ID
	case Deferred:
		c.ReplyTo = "ann@example.com"
	case Closed:
		c.ClosedAt = 40
	}
	return c
}

// Every pair of the table leads where it says, and every other pair is a conflict that changes nothing.
func TestMachineTable(t *testing.T) {
	want := map[State]map[Trigger]State{
		None:     {OpenWithBot: InBot, OpenForHuman: Queued, LeaveMessage: Deferred},
		InBot:    {LeaveMessage: Deferred, Handoff: Queued, TakeOver: Assigned, CustomerClose: Closed, Idle: Closed, Block: Closed},
		Queued:   {LeaveMessage: Deferred, Assign: Assigned, TakeOver: Assigned, CustomerClose: Closed, Abandon: Closed, Block: Closed},
		Deferred: {Handoff: Queued, Assign: Assigned, TakeOver: Assigned, CustomerClose: Closed, Block: Closed},
		Assigned: {
			Seize: Assigned, TransferAgent: Assigned, TransferGroup: Queued, Return: Queued, OwnerGone: Queued, NoAnswer: Queued,
			CustomerClose: Closed, AgentClose: Closed, Idle: Closed, Block: Closed,
		},
		Closed: {ReopenToQueue: Queued, ReopenToBot: InBot},
	}
	actors := []Actor{ann, lin, moe, theBot, system}
	for _, from := range states {
		for _, trigger := range triggers {
			to, listed := want[from][trigger]
			moved := 0
			for _, by := range actors {
				c := in(from)
				c.WaitingSince = 35
				x := Input{Trigger: trigger, By: by, To: moe, Now: 50, Member: true, Alone: true, Window: 1000}
				if x.Force = trigger == Seize; x.Force && by == lin {
					continue // it is lin's already
				}
				if to == InBot {
					x.To = theBot
				}
				if from == Deferred && trigger == Assign {
					x.Force = true
				}
				next, _, _, err := Step(c, x)
				switch {
				case err == nil && next.State != to:
					t.Errorf("%q + %s by %s → %q, want %q", from, trigger, by.Kind, next.State, to)
				case err == nil:
					moved++
				case next != c:
					t.Errorf("%q + %s by %s: refused and changed to %+v", from, trigger, by.Kind, next)
				case !listed && !errors.Is(err, ErrConflict):
					t.Errorf("%q + %s by %s: %v, want a conflict", from, trigger, by.Kind, err)
				case listed && !errors.Is(err, ErrForbidden):
					t.Errorf("%q + %s by %s: %v, want forbidden", from, trigger, by.Kind, err)
				}
			}
			if listed && (moved == 0 || moved == len(actors)) {
				t.Errorf("%q + %s: %d of %d actors may", from, trigger, moved, len(actors))
			}
		}
	}
}

func TestMachineGuards(t *testing.T) {
	for name, c := range map[string]struct {
		from State
		edit func(*Conversation)
		x    Input
		want error
	}{
		"owner returns":                {Assigned, nil, Input{Trigger: Return, By: lin}, nil},
		"another agent returns":        {Assigned, nil, Input{Trigger: Return, By: moe}, ErrForbidden},
		"supervisor returns":           {Assigned, nil, Input{Trigger: Return, By: moe, Force: true}, nil},
		"a customer cannot force":      {Assigned, nil, Input{Trigger: Return, By: ann, Force: true}, ErrForbidden},
		"agent closes the customer's":  {Assigned, nil, Input{Trigger: CustomerClose, By: lin, Force: true}, ErrForbidden},
		"another customer closes":      {Assigned, nil, Input{Trigger: CustomerClose, By: Actor{Kind: Customer, ID: "ben"}}, ErrForbidden},
		"transfer to oneself":          {Assigned, nil, Input{Trigger: TransferAgent, By: lin, To: lin}, ErrConflict},
		"transfer to nobody":           {Assigned, nil, Input{Trigger: TransferAgent, By: lin}, ErrForbidden},
		"transfer to a bot":            {Assigned, nil, Input{Trigger: TransferAgent, By: lin, To: theBot}, ErrForbidden},
		"supervisor takes over":        {Assigned, nil, Input{Trigger: TransferAgent, By: moe, To: moe, Force: true}, nil},
		"supervisor seizes":            {Assigned, nil, Input{Trigger: TakeOver.Forced(Assigned, true), By: moe, Force: true}, nil},
		"seizes its own":               {Assigned, nil, Input{Trigger: Seize, By: lin, Force: true}, ErrConflict},
		"agent seizes":                 {Assigned, nil, Input{Trigger: TakeOver.Forced(Assigned, false), By: moe}, ErrConflict},
		"supervisor assigns another's": {Assigned, nil, Input{Trigger: Assign.Forced(Assigned, true), By: moe, To: moe, Force: true}, nil},
		"agent takes an assigned one":  {Assigned, nil, Input{Trigger: TakeOver, By: moe}, ErrConflict},
		"not in the group":             {Queued, func(c *Conversation) { c.Group = "g" }, Input{Trigger: TakeOver, By: moe}, ErrForbidden},
		"in the group":                 {Queued, func(c *Conversation) { c.Group = "g" }, Input{Trigger: TakeOver, By: moe, Member: true}, nil},
		"supervisor needs no group":    {Queued, func(c *Conversation) { c.Group = "g" }, Input{Trigger: TakeOver, By: moe, Force: true}, nil},
		"agent assigns":                {Queued, nil, Input{Trigger: Assign, By: lin, To: moe}, ErrForbidden},
		"supervisor assigns":           {Queued, nil, Input{Trigger: Assign, By: lin, To: moe, Force: true}, nil},
		"owner gone, nobody waits":     {Assigned, nil, Input{Trigger: OwnerGone, By: system}, ErrConflict},
		"owner gone, customer waits":   {Assigned, func(c *Conversation) { c.WaitingSince = 1 }, Input{Trigger: OwnerGone, By: system}, nil},
		"no answer":                    {Assigned, nil, Input{Trigger: NoAnswer, By: system}, nil},
		"no answer, but there was one": {Assigned, func(c *Conversation) { c.RepliedAt = 31 }, Input{Trigger: NoAnswer, By: system}, ErrConflict},
		"reopen at the last moment":    {Closed, nil, Input{Trigger: ReopenToQueue, By: ann, Now: 139, Window: 100, Alone: true}, nil},
		"reopen too late":              {Closed, nil, Input{Trigger: ReopenToQueue, By: ann, Now: 140, Window: 100, Alone: true}, ErrClosed},
		"reopen beside an open one":    {Closed, nil, Input{Trigger: ReopenToQueue, By: ann, Now: 41, Window: 100}, ErrClosed},
		"reopen to a bot without one":  {Closed, nil, Input{Trigger: ReopenToBot, By: ann, Now: 41, Window: 100, Alone: true}, ErrForbidden},
		"reopen by an agent":           {Closed, nil, Input{Trigger: ReopenToQueue, By: lin, Now: 41, Window: 100, Alone: true}, nil},
		"bot hands off":                {InBot, nil, Input{Trigger: Handoff, By: theBot}, nil},
		"another bot hands off":        {InBot, nil, Input{Trigger: Handoff, By: Actor{Kind: Bot, ID: "other"}}, ErrForbidden},
	} {
		conv := in(c.from)
		if c.edit != nil {
			c.edit(&conv)
		}
		if _, _, _, err := Step(conv, c.x); !errors.Is(err, c.want) || (c.want == nil && err != nil) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

func TestMachineEffects(t *testing.T) {
	step := func(c Conversation, x Input) (Conversation, Seats) {
		t.Helper()
		next, change, seats, err := Step(c, x)
		if err != nil {
			t.Fatal(x.Trigger, err)
		}
		if change.From != c.State || change.State != next.State || change.Rev != next.Rev || !change.Was.Is(c.Owner) || !change.Owner.Is(next.Owner) {
			t.Errorf("%s: change %+v", x.Trigger, change)
		}
		return next, seats
	}
	c := in(Assigned)
	c.RepliedAt, c.WaitingSince = 33, 35
	if n, s := step(c, Input{Trigger: Return, By: lin, Now: 99}); n.QueuedAt != 20 || n.Excluded != "" || s != (Seats{Freed: "lin"}) {
		t.Errorf("return: %+v %+v", n, s)
	}
	n, _ := step(c, Input{Trigger: OwnerGone, By: system, Now: 99})
	if n.QueuedAt != 20 || n.Excluded != "lin" || n.WaitingSince != 35 || n.LastAgent != "lin" {
		t.Errorf("owner gone: %+v", n)
	}
	if n, s := step(n, Input{Trigger: Assign, By: system, To: moe, Now: 100}); n.Excluded != "" || n.RepliedAt != 0 || s != (Seats{Taken: "moe"}) {
		t.Errorf("assign: %+v %+v", n, s)
	}
	if n, s := step(c, Input{Trigger: TransferAgent, By: lin, To: moe, Now: 99}); n.RepliedAt != 0 || n.LastAgent != "moe" || s != (Seats{Freed: "lin", Taken: "moe"}) {
		t.Errorf("transfer: %+v %+v", n, s)
	}
	if _, s := step(c, Input{Trigger: TransferAgent, By: moe, To: moe, Force: true}); !s.Over {
		t.Errorf("a forced change minds the capacity: %+v", s)
	}
	if n, _ := step(c, Input{Trigger: TransferGroup, By: lin, Group: "g", Now: 99}); n.Group != "g" || n.QueuedAt != 20 {
		t.Errorf("transfer to a group: %+v", n)
	}
	taken := in(InBot)
	if taken, _ = step(taken, Input{Trigger: TakeOver, By: lin, Now: 60}); taken.Epoch != 2 {
		t.Errorf("taken: %+v", taken)
	}
	if n, _ := step(taken, Input{Trigger: Return, By: lin, Now: 70}); n.QueuedAt != 70 {
		t.Errorf("one that never waited goes to the end: %+v", n)
	}
	closed, _ := step(in(Queued), Input{Trigger: Abandon, By: system, Reason: "left", Now: 99})
	if !closed.Abandoned || closed.ClosedAt != 99 || closed.CloseReason != "left" {
		t.Errorf("abandoned: %+v", closed)
	}
	if n, _ := step(closed, Input{Trigger: ReopenToQueue, By: ann, Now: 120, Window: 100, Alone: true}); n.Abandoned || n.ClosedAt != 0 ||
		n.CloseReason != "" || n.QueuedAt != 120 || n.Priority != PriorityReopened {
		t.Errorf("reopened: %+v", n)
	}
	if n, _ := step(c, Input{Trigger: AgentClose, By: lin, Now: 99}); n.Abandoned || n.WaitingSince != 0 {
		t.Errorf("closed by the agent: %+v", n)
	}
}

// What a customer has left for later comes back to the left messages and not to the queue, whoever lets go of it, until
// the customer itself asks for the queue.
func TestMachineLeftMessages(t *testing.T) {
	left := func(s State) Conversation {
		c := in(s)
		c.ReplyTo, c.WaitingSince, c.QueuedAt = "ann@example.com", 35, 0
		return c
	}
	live := left(Assigned)
	live.QueuedAt = 20
	waits := left(Queued)
	waits.QueuedAt = 20
	group := Input{Trigger: TransferGroup, By: lin, Group: "g"}
	again := func(by Actor, later bool) Input {
		return Input{Trigger: ReopenToQueue, By: by, Now: 41, Window: 100, Alone: true, Later: later}
	}
	for name, c := range map[string]struct {
		before Conversation
		x      Input
		to     State
		event  string
	}{
		"left while waiting":                 {in(Queued), Input{Trigger: LeaveMessage, By: ann}, Deferred, "deferred"},
		"returned":                           {left(Assigned), Input{Trigger: Return, By: lin}, Deferred, "returned"},
		"passed on":                          {left(Assigned), group, Deferred, "transferred"},
		"its agent is gone":                  {left(Assigned), Input{Trigger: OwnerGone, By: system}, Deferred, "returned"},
		"not answered":                       {left(Assigned), Input{Trigger: NoAnswer, By: system}, Deferred, "returned"},
		"returned, but it was live":          {live, Input{Trigger: Return, By: lin}, Queued, "returned"},
		"the customer asks for a person":     {left(Deferred), Input{Trigger: Handoff, By: ann, Now: 60}, Queued, "handoff"},
		"and goes":                           {waits, Input{Trigger: Abandon, By: system}, Deferred, "deferred"},
		"and ends it":                        {waits, Input{Trigger: CustomerClose, By: ann}, Closed, "closed"},
		"reopened by an agent":               {left(Closed), again(lin, false), Deferred, "reopened"},
		"reopened by the customer":           {left(Closed), again(ann, false), Queued, "reopened"},
		"reopened while nobody is there":     {left(Closed), again(ann, true), Deferred, "reopened"},
		"reopened, but nothing was left":     {in(Closed), again(lin, false), Queued, "reopened"},
		"an answered one is closed as usual": {left(Assigned), Input{Trigger: AgentClose, By: lin}, Closed, "closed"},
	} {
		n, change, _, err := Step(c.before, c.x)
		if err != nil || n.State != c.to || change.State != c.to || change.Event != c.event || !n.Owner.IsZero() {
			t.Errorf("%s: %v, %+v, %+v", name, err, n, change)
		}
		if wants := c.to == Queued; (n.QueuedAt != 0) != wants && c.to != Closed {
			t.Errorf("%s: queued at %d", name, n.QueuedAt)
		}
		if n.Abandoned != (name == "and ends it") || n.ReplyTo != c.before.ReplyTo || c.to == Deferred && n.WaitingSince != c.before.WaitingSince {
			t.Errorf("%s: %+v", name, n)
		}
	}
	for by, want := range map[Actor]error{system: ErrForbidden, lin: ErrForbidden} {
		if _, _, _, err := Step(left(Deferred), Input{Trigger: Assign, By: by, To: moe}); !errors.Is(err, want) {
			t.Errorf("%s gives a left message away: %v", by.Kind, err)
		}
	}
	if _, _, _, err := Step(left(Deferred), Input{Trigger: Idle, By: system}); !errors.Is(err, ErrConflict) {
		t.Errorf("a left message ends by itself: %v", err)
	}
}

func TestSaid(t *testing.T) {
	c := in(Assigned)
	c.Said(Customer, 40)
	c.Said(Customer, 41)
	if c.WaitingSince != 40 || c.RepliedAt != 0 {
		t.Errorf("after two texts: %+v", c)
	}
	c.Said(Agent, 42)
	c.Said(Agent, 43)
	if c.WaitingSince != 0 || c.RepliedAt != 42 {
		t.Errorf("after the answers: %+v", c)
	}
}

// Random inputs on many conversations: never an invalid state, never two owners, the places of agents equal the rows,
// epoch grows with each change of owner and by nothing else, revision with each change.
func TestMachineRandomWalks(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	agents := []Actor{lin, moe, {Kind: Agent, ID: "kim"}}
	actors := append([]Actor{ann, theBot, system, {Kind: Customer, ID: "ben"}}, agents...)
	ownerOf := map[State]ActorKind{InBot: Bot, Queued: "", Assigned: Agent, Deferred: "", Closed: ""}
	changes := make(map[State]map[Trigger]bool)
	for _, s := range states {
		changes[s] = make(map[Trigger]bool)
	}
	unused := func() *Rule {
		for _, r := range rules() {
			if !changes[r.From][r.Trigger] {
				return &r
			}
		}
		return nil
	}
	for walk := 0; walk < 200 || unused() != nil && walk < 20_000; walk++ { // rare rules take more walks, now and then
		convs := make([]Conversation, 4)
		active := make(map[string]int)
		for i := range convs {
			convs[i] = in(None)
		}
		for now := range int64(300) {
			c := &convs[rng.IntN(len(convs))]
			if c.State != None && c.State != Closed && rng.IntN(4) == 0 {
				c.Said([]ActorKind{Customer, Agent}[rng.IntN(2)], now+1)
			}
			if c.State == InBot && rng.IntN(8) == 0 {
				c.ReplyTo = "ann@example.com"
			}
			before := *c
			x := Input{
				Trigger: triggers[rng.IntN(len(triggers))], By: actors[rng.IntN(len(actors))], To: actors[rng.IntN(len(actors))], Group: "g",
				Force: rng.IntN(4) == 0, Now: now + 1, Member: rng.IntN(2) == 0, Alone: rng.IntN(4) > 0, Window: 50,
			}
			next, _, seats, err := Step(*c, x)
			if err != nil {
				if next != before {
					t.Fatalf("%s from %q: %v, and changed", x.Trigger, before.State, err)
				}
				continue
			}
			*c = next
			changes[before.State][x.Trigger] = true
			if seats.Freed != "" {
				active[seats.Freed]--
			}
			if seats.Taken != "" {
				active[seats.Taken]++
			}
			if c.Rev != before.Rev+1 {
				t.Fatalf("%s from %q: revision %d after %d", x.Trigger, before.State, c.Rev, before.Rev)
			}
			if changed := !c.Owner.Is(before.Owner) || before.State == None; changed != (c.Epoch == before.Epoch+1) || c.Epoch < before.Epoch {
				t.Fatalf("%s from %q: owner %v → %v, epoch %d → %d", x.Trigger, before.State, before.Owner, c.Owner, before.Epoch, c.Epoch)
			}
			if kind, known := ownerOf[c.State]; !known || kind != c.Owner.Kind || (kind != "" && c.Owner.ID == "") {
				t.Fatalf("%s from %q: state %q with owner %v", x.Trigger, before.State, c.State, c.Owner)
			}
			if c.QueuedAt == 0 && c.State == Queued || (c.ClosedAt != 0) != (c.State == Closed) {
				t.Fatalf("%s from %q: times of %+v", x.Trigger, before.State, *c)
			}
		}
		rows := make(map[string]int)
		for _, c := range convs {
			if c.State == Assigned {
				rows[c.Owner.ID]++
			}
		}
		for _, a := range agents {
			if active[a.ID] != rows[a.ID] {
				t.Fatalf("%s: counter %d, rows %d", a.ID, active[a.ID], rows[a.ID])
			}
		}
	}
	if r := unused(); r != nil {
		t.Errorf("no walk used %q + %s", r.From, r.Trigger)
	}
}
