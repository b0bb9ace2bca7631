package store

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Priority places a conversation in the queue together with the time. Each point counts as PriorityPoint of waiting, and
// a lower priority comes first. So a conversation is passed only by those of a higher priority that come within a bounded
// time after it, and two conversations never change their order while they wait.
type Priority int

// Priorities. Urgent counts as an hour of waiting more than normal, high as a quarter of an hour more, and low as a quarter
// of an hour less.
const (
	PriorityUrgent Priority = -20
	PriorityHigh   Priority = 10
	PriorityNormal Priority = 20
	PriorityLow    Priority = 30

	PriorityReopened = PriorityHigh // of a conversation that goes on after its close
)

// PriorityPoint is how much waiting one point of priority counts as.
const PriorityPoint = 90 * time.Second

// Priorities returns the names of the priorities, the first to be served first.
func Priorities() []string { return []string{"urgent", "high", "normal", "low"} }

// ParsePriority returns the priority with a name; false means that there is none.
func ParsePriority(name string) (Priority, bool) {
	i := slices.Index(Priorities(), name)
	if i < 0 {
		return PriorityNormal, false
	}
	return [...]Priority{PriorityUrgent, PriorityHigh, PriorityNormal, PriorityLow}[i], true
}

// Name returns the name of a priority.
func (p Priority) Name() string {
	switch {
	case p < PriorityHigh:
		return "urgent"
	case p < PriorityNormal:
		return "high"
	case p < PriorityLow:
		return "normal"
	}
	return "low"
}

// turn returns the time in Unix milliseconds by which the queue is ordered.
func (c *Conversation) turn() int64 {
	return c.QueuedAt + int64(c.Priority)*PriorityPoint.Milliseconds()
}

// CompareQueue orders the queue: by the time of entry with the priority's part added, then by priority, then by id.
func (c *Conversation) CompareQueue(other *Conversation) int {
	return cmp.Or(cmp.Compare(c.turn(), other.turn()), cmp.Compare(c.Priority, other.Priority), cmp.Compare(c.ID, other.ID))
}

// Arrange sets the priority of an open conversation and says so in a note of the actor. Without a change there is no note.
// The error is ErrClosed for a closed conversation, ErrForbidden unless the actor is an agent.
type Arrange struct {
	Conv     string
	By       Actor
	Priority Priority
}

// Relax lets any agent of the group have a waiting conversation, whatever its skills and its language, and says so in a
// note of the server. The error is ErrConflict unless the conversation waits with this revision and has not been relaxed.
type Relax struct {
	Conv   string
	Rev    int64
	Missed []string // skills and languages that are not waited for any more
	Nobody bool     // nobody of the group has them; else nobody was free in time
}

func (Arrange) command() {}
func (Relax) command()   {}

// Beginnings of the payloads of notes about routing. The name of the priority follows, or what was given up.
const (
	PayloadPriority = "priority:"
	PayloadRelaxed  = "relaxed:"
	PayloadNobody   = "relaxed_nobody:"
)

// List returns the entries of a list that is kept as one text.
func List(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, ",")
}

// Skills returns the skills that a text names between commas as one text: in lower case, in order, each once.
func Skills(text string) string {
	var all []string
	for s := range strings.SplitSeq(text, ",") {
		if s = strings.ToLower(strings.Join(strings.Fields(s), " ")); s != "" {
			all = append(all, s)
		}
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), ",")
}

// Languages returns the languages that a text names between commas like Skills does, without regions: zh for zh-CN.
func Languages(text string) string {
	var all []string
	for s := range strings.SplitSeq(text, ",") {
		all = append(all, Language(s))
	}
	return Skills(strings.Join(all, ","))
}

// Language returns the language of a locale without its region, in lower case.
func Language(locale string) string {
	lang, _, _ := strings.Cut(strings.ReplaceAll(strings.TrimSpace(locale), "_", "-"), "-")
	return strings.ToLower(lang)
}
