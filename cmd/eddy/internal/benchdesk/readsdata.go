package benchdesk

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/desk/store/sqlstore"
)

// readsMade says what the data of reads are. They are a function of it.
type readsMade struct {
	Version int   `json:"version"`
	Chats   int   `json:"chats"`
	Texts   int   `json:"texts"` // of one chat
	Until   int64 `json:"until"` // Unix milliseconds; the chats are those of the year before
}

const (
	readsVersion  = 1
	readsSeed     = 4711
	readsDays     = 365
	readsSites    = 3
	readsGroups   = 5
	readsAgents   = 25
	readsTopics   = 60
	readsOthers   = 20
	readsWords    = 3000
	readsDeadline = time.Minute // of one command
)

// readsPlace is where the data of reads are: in a file of a directory, or in a database of PostgreSQL.
type readsPlace struct{ dir, url string }

func (p readsPlace) options() sqlstore.Options {
	if p.url != "" {
		return sqlstore.Options{URL: p.url}
	}
	return sqlstore.Options{Path: p.file()}
}

func (p readsPlace) file() string { return filepath.Join(p.dir, "desk.db") }

// begun returns the name of data that are there already, "" if there are none.
func (p readsPlace) begun(ctx context.Context) (string, error) {
	if p.url != "" {
		info, err := sqlstore.InspectPostgres(ctx, p.url)
		if info.Schema == 0 {
			return "", err
		}
		return sqlstore.Place(p.url), err
	}
	if _, err := os.Stat(p.file()); err == nil {
		return p.file(), nil
	}
	return "", nil
}

// openReads opens the data of reads, and makes them first if there are none. said is told how far that is.
func openReads(ctx context.Context, place readsPlace, chats, texts int, said func(string)) (made readsMade, db *sqlstore.DB, err error) {
	note := filepath.Join(place.dir, "reads.json")
	text, err := os.ReadFile(note)
	switch {
	case errors.Is(err, os.ErrNotExist):
		if made, err = makeReads(ctx, place, chats, texts, said); err != nil {
			return made, nil, err
		}
		if text, err = json.Marshal(made); err != nil {
			return made, nil, err
		}
		if err := os.WriteFile(note, text, 0o600); err != nil {
			return made, nil, err
		}
	case err != nil:
		return made, nil, err
	}
	if err := json.Unmarshal(text, &made); err != nil || made.Version != readsVersion || made.Chats != chats || made.Texts != texts {
		return made, nil, fmt.Errorf("%s is of other data: version %d, %d chats of %d texts, wanted are version %d, %d of %d: name another directory with --reads-data, or remove this one",
			note, made.Version, made.Chats, made.Texts, readsVersion, chats, texts)
	}
	until := time.UnixMilli(made.Until)
	o := place.options()
	o.InOrder, o.Now = true, func() time.Time { return until }
	db, err = sqlstore.Open(ctx, o)
	return made, db, err
}

// readsMaker makes the data of reads by the commands of a Desk, with a clock that it sets.
type readsMaker struct {
	db     *sqlstore.DB
	now    atomic.Int64
	rnd    *rand.Rand
	texts  int
	sites  []store.Site
	groups []store.Group
	agents []store.AgentAccount
	words  []string
}

func makeReads(ctx context.Context, place readsPlace, chats, texts int, said func(string)) (made readsMade, err error) {
	made = readsMade{Version: readsVersion, Chats: chats, Texts: texts, Until: time.Now().Truncate(24 * time.Hour).UnixMilli()}
	if err := os.MkdirAll(place.dir, 0o700); err != nil {
		return made, fmt.Errorf("%w; name a directory this user can write to with --reads-data", err)
	}
	if file, err := place.begun(ctx); err != nil || file != "" {
		if err != nil {
			return made, err
		}
		return made, fmt.Errorf("%s was not finished, or is none of this command: remove it, or name another directory with --reads-data", file)
	}
	m := &readsMaker{rnd: rand.New(rand.NewPCG(readsSeed, 1)), texts: texts, words: vocabulary()}
	year := int64(readsDays) * 24 * time.Hour.Milliseconds()
	m.now.Store(made.Until - year)
	o := place.options()
	o.Now = func() time.Time { return time.UnixMilli(m.now.Load()) }
	m.db, err = sqlstore.Open(ctx, o)
	if err != nil {
		return made, err
	}
	defer func() { err = errors.Join(err, m.db.Close()) }()
	if err := m.prepare(ctx); err != nil {
		return made, err
	}
	told := time.Now()
	for i := range chats {
		if err := ctx.Err(); err != nil {
			return made, err
		}
		if err := m.chat(ctx, i, made.Until-year+year*int64(i)/int64(chats)); err != nil {
			return made, fmt.Errorf("chat %d: %w", i, err)
		}
		if time.Since(told) > 10*time.Second {
			told = time.Now()
			said(fmt.Sprintf("making the data: %d of %d chats", i+1, chats))
		}
	}
	m.now.Store(made.Until)
	return made, m.db.PackDays(ctx)
}

// prepare makes sites, groups and agents.
func (m *readsMaker) prepare(ctx context.Context) error {
	for i := range readsGroups {
		g, err := m.db.CreateGroup(ctx, store.Group{Name: fmt.Sprint("Group ", i)})
		if err != nil {
			return err
		}
		m.groups = append(m.groups, g)
	}
	for i := range readsSites {
		s, err := m.db.CreateSite(ctx, store.Site{Key: fmt.Sprint("site", i), Name: fmt.Sprint("Site ", i), BotName: "Eddy", Group: m.groups[i%readsGroups].ID})
		if err != nil {
			return err
		}
		m.sites = append(m.sites, s)
	}
	for i := range readsAgents {
		a, err := m.db.CreateAgent(ctx, store.AgentAccount{Login: fmt.Sprint("agent", i), Name: fmt.Sprint("Agent ", i), Password: "-", Capacity: store.MaxCapacity})
		if err != nil {
			return err
		}
		if err := m.db.AddMember(ctx, m.groups[i%readsGroups].ID, a.ID); err != nil {
			return err
		}
		m.agents = append(m.agents, a)
	}
	return nil
}

// vocabulary returns the words of texts, the most frequent first.
func vocabulary() []string {
	const letters = "abcdefghijklmnoprstuvwy"
	rnd := rand.New(rand.NewPCG(readsSeed, 2))
	words := make([]string, readsWords)
	for i := range words {
		letter := make([]byte, 3+rnd.IntN(7))
		for k := range letter {
			letter[k] = letters[rnd.IntN(len(letters))]
		}
		words[i] = string(letter)
	}
	return words
}

// text returns a sentence. The words are as unequally frequent as in a language.
func (m *readsMaker) text() string {
	said := make([]string, 5+m.rnd.IntN(12))
	for i := range said {
		f := m.rnd.Float64()
		said[i] = m.words[int(f*f*f*float64(len(m.words)))]
	}
	if m.rnd.IntN(20) == 0 {
		said = append(said, "我的订单还没有到")
	}
	return strings.Join(said, " ") + "."
}

// chat makes one chat that begins at a time.
func (m *readsMaker) chat(ctx context.Context, i int, at int64) error {
	minutes := func(most int) { m.now.Add(int64(1+m.rnd.IntN(most)) * time.Minute.Milliseconds()) }
	m.now.Store(at)
	var token store.Token
	binary.BigEndian.PutUint64(token[:], uint64(i)+1)
	agent, site := m.agents[m.rnd.IntN(readsAgents)], m.sites[m.rnd.IntN(readsSites)]
	customer, err := m.db.CreateVisitor(ctx, site, token, time.UnixMilli(at).Add(time.Hour))
	if err != nil {
		return err
	}
	out, err := m.run(store.Open{Contact: customer, Human: true})
	if err != nil {
		return err
	}
	conv := out.Conv.ID
	say := func(from store.Actor, n int) store.Command {
		return store.Append{Conv: conv, From: from, ClientID: strconv.Itoa(n), Body: m.text()}
	}
	minutes(15)
	if _, err := m.run(store.Move{Conv: conv, Trigger: store.TransferGroup, By: agent.Actor(), Group: m.groups[m.rnd.IntN(readsGroups)].ID, Force: true},
		store.Move{Conv: conv, Trigger: store.TakeOver, By: agent.Actor(), Force: true}); err != nil {
		return err
	}
	minutes(10)
	texts := make([]store.Command, m.texts)
	for n := range texts {
		texts[n] = say([]store.Actor{agent.Actor(), customer.Actor()}[n%2], n)
	}
	if _, err := m.run(texts...); err != nil {
		return err
	}
	minutes(120)
	tags := []string{fmt.Sprint("topic ", m.rnd.IntN(readsTopics)), fmt.Sprint("other ", m.rnd.IntN(readsOthers))}
	end := []store.Command{store.Tag{Conv: conv, By: agent.Actor(), Add: tags}, store.Move{Conv: conv, Trigger: store.AgentClose, By: agent.Actor()}}
	if m.rnd.IntN(2) == 0 {
		end = append(end, store.Rate{Conv: conv, By: customer.Actor(), Score: 1 + m.rnd.IntN(store.MaxScore)})
	}
	_, err = m.run(end...)
	return err
}

// run runs commands in order and returns the outcome of the last one. One that the state of the chat does not allow is left
// out.
func (m *readsMaker) run(commands ...store.Command) (last store.Outcome, err error) {
	done := make(chan store.Outcome, 2*len(commands)) // a late outcome is a second one
	for _, cmd := range commands {
		m.db.Do(cmd, time.Now().Add(readsDeadline), func(out store.Outcome) { done <- out })
	}
	for range commands {
		last = <-done
		if last.Err != nil && !errors.Is(last.Err, store.ErrConflict) {
			err = errors.Join(err, last.Err)
		}
	}
	return last, err
}
