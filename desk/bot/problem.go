package bot

import (
	"errors"
	"fmt"
	"strings"
)

// Problem is one thing that is wrong with the settings of a bot.
type Problem struct {
	format string // the place, a colon and what is wrong there
	args   []any
}

// Error implements error.
func (p *Problem) Error() string { return "bot: " + fmt.Sprintf(p.format, p.args...) }

// Place returns the setting that is wrong, such as "rules[2].buttons[0]", and what is wrong there: a format, which pages
// may translate, with its values. The place is "" for a problem of the whole.
func (p *Problem) Place() (place, format string, args []any) {
	head, tail, found := strings.Cut(p.format, ": ")
	if !found {
		return "", p.format, p.args
	}
	n := strings.Count(head, "%")
	return fmt.Sprintf(head, p.args[:n]...), tail, p.args[n:]
}

// Problems returns what Check has found, one by one. ok is false for an error of another kind, such as settings that are
// not JSON.
func Problems(err error) (all []*Problem, ok bool) {
	if p, is := errors.AsType[*Problem](err); is && error(p) == err { //nolint:errorlint // one problem alone
		return []*Problem{p}, true
	}
	joined, is := err.(interface{ Unwrap() []error }) //nolint:errorlint // made here, never wrapped
	if !is {
		return nil, false
	}
	for _, e := range joined.Unwrap() {
		p, is := errors.AsType[*Problem](e)
		if !is {
			return nil, false
		}
		all = append(all, p)
	}
	return all, true
}

// problems collects what is wrong, up to maxProblems.
type problems struct {
	list []error
	more int
}

func (p *problems) add(format string, args ...any) {
	if len(p.list) == maxProblems {
		p.more++
		return
	}
	p.list = append(p.list, &Problem{format, args})
}

func (p *problems) err() error {
	if p.more > 0 {
		return errors.Join(append(p.list, &Problem{"and %d more problems", []any{p.more}})...)
	}
	return errors.Join(p.list...)
}
