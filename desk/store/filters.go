package store

import "context"

// Limits of saved filters. Lengths are in characters.
const (
	MaxFilters      = 20 // of an agent
	MaxFilterName   = 40
	MaxFilterFields = 12
	MaxFilterValue  = 200
)

// SavedFilter is what an agent has entered to list chats, kept under a name. The console gives the fields their meaning.
type SavedFilter struct {
	Name   string            `json:"name"`
	Fields map[string]string `json:"fields"`
}

// Check returns what is wrong with a filter as an Invalid.
func (f *SavedFilter) Check() error {
	var i Invalid
	i.text("name", f.Name, MaxFilterName, true, true)
	i.count("fields", len(f.Fields), MaxFilterFields)
	for name, value := range f.Fields {
		i.need(nameForm.MatchString(name), "fields", ReasonFormat)
		i.text("fields", value, MaxFilterValue, false, true)
	}
	return i.err()
}

// FilterReader are the reads of saved filters. Methods block and honour ctx.
type FilterReader interface {
	// SavedFilters returns the filters of an agent by name.
	SavedFilters(ctx context.Context, agent string) ([]SavedFilter, error)
}

// FilterWrites are the changes of saved filters. They block until committed and honour ctx.
type FilterWrites interface {
	// SaveFilter adds a filter to those of an agent, or replaces the one of its name. The error is an Invalid for wrong
	// fields. So it is, about the field "filters", for one more than MaxFilters.
	SaveFilter(ctx context.Context, agent string, f SavedFilter) error
	// DropFilter removes a filter. The error is ErrNotFound if the agent has none of that name.
	DropFilter(ctx context.Context, agent, name string) error
}
