package proto

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits of the reads of staff and of the data about contacts.
const (
	MaxQueryChars  = 200  // characters of a search
	MaxSearchHits  = 50   // in one page
	defaultHits    = 20   //
	MaxTags        = 20   // of one conversation
	MaxTagChars    = 40   // of one tag
	MaxAttributes  = 32   // of one contact
	MaxOwnFields   = 30   // of one contact
	MaxNameChars   = 80   // of a contact
	MaxValueChars  = 500  // of an attribute
	maxScore       = 5    // the best rating
	MaxComment     = 1000 // characters of the comment on a score
	maxKeyBytes    = 40   // of an attribute's name
	maxCursorBytes = 100
	maxCannedChars = 100
)

// Receipt tells how far the sender has got, in the numbers of its own stream.
type Receipt struct {
	Delivered uint64 `json:"delivered"`
	Read      uint64 `json:"read"`
}

// Filter selects conversations. What is zero selects all.
type Filter struct {
	State string `json:"state"` // one state, "open" for all but closed, or "snoozed"
	Tag   string `json:"tag"`
	Agent string `json:"agent"` // has the conversation, or had it last
	Group string `json:"group"`
	Site  string `json:"site"` // its key
	From  int64  `json:"from"` // opened then or later, Unix milliseconds
	To    int64  `json:"to"`   // opened before

	ScoreFrom int `json:"score_from"` // rated with this or more
	ScoreTo   int `json:"score_to"`   // rated with this or less
}

// History asks for conversations, those opened last first.
type History struct {
	Contact string `json:"contact"` // "" = of all contacts
	In      Filter `json:"in"`
	Cursor  string `json:"cursor"`
}

// Search asks for messages, the newest first.
type Search struct {
	Q      string `json:"q"`
	In     Filter `json:"in"`
	Cursor string `json:"cursor"`
	Limit  int    `json:"limit"` // 1 to MaxSearchHits after decoding
}

// CannedList asks for canned replies.
type CannedList struct {
	Q      string `json:"q"` // beginning of the short name, or a part of title or text
	Locale string `json:"locale"`
}

// ContactGet asks for a contact and its conversations.
type ContactGet struct {
	Contact string `json:"contact"`
}

// ContactPatch changes what is stored about a contact.
type ContactPatch struct {
	Contact    string            `json:"contact"`
	Name       string            `json:"name"`       // "" = as it is
	Attributes map[string]string `json:"attributes"` // those named are set; "" removes
	Fields     map[string]string `json:"fields"`     // values of own fields by key; "" removes
}

// ContactBlock blocks or unblocks a contact.
type ContactBlock struct {
	Contact string `json:"contact"`
	Blocked bool   `json:"blocked"`
	Reason  string `json:"reason"` // for staff
}

// ContactErase erases everything that is stored about a contact.
type ContactErase struct {
	Contact string `json:"contact"`
}

// Erased is the payload of ev.erased.
type Erased struct {
	Contact string `json:"contact"`
}

// Tag changes the tags of a conversation.
type Tag struct {
	Add    []string `json:"add"`
	Remove []string `json:"remove"`
}

// Rate is what a customer thinks of a closed conversation.
type Rate struct {
	Score   int    `json:"score"` // 1 to 5
	Comment string `json:"comment"`
}

// Seen is how far a side has got, in the numbers of the reader's stream.
type Seen struct {
	Delivered uint64 `json:"delivered"`
	Read      uint64 `json:"read"`
}

// ReceiptNow is the payload of ev.receipt.
type ReceiptNow struct {
	From      Party  `json:"from"`
	Delivered uint64 `json:"delivered"`
	Read      uint64 `json:"read"`
}

// PastRow is one line of a list of conversations.
type PastRow struct {
	Row
	Page   string `json:"page,omitempty"` // where the customer was when it was opened
	Closed int64  `json:"closed,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// Past answers history. The cursor is "" at the end.
type Past struct {
	Convs  []PastRow `json:"convs"`
	Cursor string    `json:"cursor"`
}

// HitContact is the customer of a hit.
type HitContact struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// Hit is one message found.
type Hit struct {
	Conv    string     `json:"c"`
	S       uint64     `json:"s"`
	Time    int64      `json:"time"`
	Kind    string     `json:"kind"`
	From    Party      `json:"from"`
	Snippet string     `json:"snippet"`
	Contact HitContact `json:"contact"`
	State   string     `json:"state"`
}

// Found answers search. The cursor is "" at the end; a page with a cursor may be short, even empty.
type Found struct {
	Hits   []Hit  `json:"hits"`
	Cursor string `json:"cursor"`
}

// CannedItem is one canned reply.
type CannedItem struct {
	ID     string `json:"id"`
	Short  string `json:"short"`
	Title  string `json:"title"`
	Body   string `json:"body"`
	Locale string `json:"locale"`
}

// CannedItems answers canned.list.
type CannedItems struct {
	Items []CannedItem `json:"items"`
}

// ContactCard is what staff see of a contact.
type ContactCard struct {
	ID         string            `json:"id"`
	Name       string            `json:"name"`
	Locale     string            `json:"locale"`
	Verified   bool              `json:"verified"`
	Blocked    bool              `json:"blocked"`
	External   string            `json:"external"`
	Attributes map[string]string `json:"attributes"`
	Fields     map[string]string `json:"fields"` // values of own fields that the reader may see, by key
	Created    int64             `json:"created"`
}

// OwnField is a field of contacts that an administrator has defined, for a reader who may see it.
type OwnField struct {
	Key     string   `json:"key"`
	Label   string   `json:"label"`
	Kind    string   `json:"kind"` // text, number, date, choice or yes_no
	Choices []string `json:"choices,omitempty"`
	Edit    bool     `json:"edit,omitempty"` // the reader may change its values
}

// ContactGot answers contact.get.
type ContactGot struct {
	Contact ContactCard `json:"contact"`
	Visit   Facts       `json:"visit"` // the present one, or the last
	Own     []OwnField  `json:"own"`   // in order
	Chats   int         `json:"chats"` // conversations in which anybody but a bot has done something
	Past
}

// ContactChanged answers contact.patch and contact.block.
type ContactChanged struct {
	Contact ContactCard `json:"contact"`
}

// Tagged answers tag.
type Tagged struct {
	Tags []string `json:"tags"`
}

// readKind returns what the commands of this file need.
func readKind(t string) (kind, bool) {
	switch t {
	case "receipt":
		return kind{payload: func() any { return new(Receipt) }, conv: true, noID: true}, true
	case "history":
		return kind{payload: func() any { return new(History) }, check: checkHistory}, true
	case "search":
		return kind{payload: func() any { return new(Search) }, check: checkSearch}, true
	case "canned.list":
		return kind{payload: func() any { return new(CannedList) }, check: checkCanned}, true
	case "contact.get":
		return kind{payload: func() any { return new(ContactGet) }, check: func(p any) *Error { return checkContact(p.(*ContactGet).Contact) }}, true
	case "contact.patch":
		return kind{payload: func() any { return new(ContactPatch) }, check: checkPatch}, true
	case "contact.block":
		return kind{payload: func() any { return new(ContactBlock) }, check: checkBlock}, true
	case "contact.erase":
		return kind{payload: func() any { return new(ContactErase) }, check: func(p any) *Error { return checkContact(p.(*ContactErase).Contact) }}, true
	case "visit":
		return kind{payload: func() any { return new(Visit) }, check: checkVisit, noID: true}, true
	case "tag":
		return kind{payload: func() any { return new(Tag) }, check: checkTag, conv: true}, true
	case "conv.rate":
		return kind{payload: func() any { return new(Rate) }, check: checkRate, conv: true}, true
	}
	return kind{}, false
}

func checkContact(id string) *Error {
	if id == "" || len(id) > maxIDBytes {
		return fail(CodeBadRequest, fmt.Sprintf("contact must have 1 to %d bytes", maxIDBytes))
	}
	return nil
}

func checkCursor(c string) *Error {
	if len(c) > maxCursorBytes {
		return fail(CodeBadRequest, fmt.Sprintf("cursor is over %d bytes", maxCursorBytes))
	}
	return nil
}

func (f *Filter) check() *Error {
	switch f.State {
	case "", "open", "bot", "queued", "assigned", "snoozed", "deferred", "closed":
	default:
		return fail(CodeBadRequest, fmt.Sprintf("in.state is %.40q: it is open, bot, queued, assigned, snoozed, deferred or closed", f.State))
	}
	if err := checkLine("in.tag", &f.Tag, MaxTagChars); err != nil {
		return err
	}
	for field, id := range map[string]string{"in.agent": f.Agent, "in.group": f.Group, "in.site": f.Site} {
		if len(id) > maxIDBytes {
			return fail(CodeBadRequest, fmt.Sprintf("%s has %d bytes, the limit is %d", field, len(id), maxIDBytes))
		}
	}
	if f.From < 0 || f.To < 0 || f.To != 0 && f.To <= f.From {
		return fail(CodeBadRequest, fmt.Sprintf("in.from is %d and in.to %d: these are milliseconds since 1970, and in.to is later", f.From, f.To))
	}
	if from, to := f.ScoreFrom, f.ScoreTo; min(from, to) < 0 || max(from, to) > maxScore || to != 0 && to < from {
		return fail(CodeBadRequest, fmt.Sprintf("in.score_from is %d and in.score_to %d: ratings are 1 to %d, and in.score_to is not less", from, to, maxScore))
	}
	return nil
}

func checkHistory(p any) *Error {
	h := p.(*History)
	if h.Contact != "" {
		if err := checkContact(h.Contact); err != nil {
			return err
		}
	}
	if err := h.In.check(); err != nil {
		return err
	}
	return checkCursor(h.Cursor)
}

func checkSearch(p any) *Error {
	s := p.(*Search)
	if s.Limit == 0 {
		s.Limit = defaultHits
	}
	if s.Limit < 0 || s.Limit > MaxSearchHits {
		return fail(CodeBadRequest, fmt.Sprintf("limit must be 1 to %d", MaxSearchHits))
	}
	if n := utf8.RuneCountInString(s.Q); n > MaxQueryChars {
		return fail(CodeTooLarge, fmt.Sprintf("the search has %d characters, the limit is %d", n, MaxQueryChars))
	}
	if err := s.In.check(); err != nil {
		return err
	}
	return checkCursor(s.Cursor)
}

func checkCanned(p any) *Error {
	c := p.(*CannedList)
	if utf8.RuneCountInString(c.Q) > maxCannedChars || len(c.Locale) > maxIDBytes {
		return fail(CodeBadRequest, fmt.Sprintf("q is over %d characters or locale over %d bytes", maxCannedChars, maxIDBytes))
	}
	return nil
}

// checkLine puts a short text into its canonical form: no blanks around it, no control characters in it.
func checkLine(field string, s *string, limit int) *Error {
	*s = strings.TrimSpace(*s)
	if utf8.RuneCountInString(*s) > limit {
		return fail(CodeBadRequest, fmt.Sprintf("%s is over %d characters", field, limit))
	}
	if strings.ContainsFunc(*s, unicode.IsControl) {
		return fail(CodeBadRequest, field+" contains control characters")
	}
	return nil
}

func checkPatch(p any) *Error { return p.(*ContactPatch).Check() }

// Check checks the fields and takes blanks around them away.
func (c *ContactPatch) Check() *Error {
	if err := checkContact(c.Contact); err != nil {
		return err
	}
	if err := checkLine("name", &c.Name, MaxNameChars); err != nil {
		return err
	}
	if len(c.Attributes) > MaxAttributes {
		return fail(CodeBadRequest, fmt.Sprintf("%d attributes, the limit is %d", len(c.Attributes), MaxAttributes))
	}
	for k, v := range c.Attributes {
		if !validKey(k) {
			return fail(CodeBadRequest, fmt.Sprintf("an attribute's name must have 1 to %d of a-z, 0-9, _, - and .", maxKeyBytes))
		}
		if err := checkLine("attribute "+k, &v, MaxValueChars); err != nil {
			return err
		}
		c.Attributes[k] = v
	}
	if len(c.Fields) > MaxOwnFields {
		return fail(CodeBadRequest, fmt.Sprintf("%d fields, the limit is %d", len(c.Fields), MaxOwnFields))
	}
	for k := range c.Fields { // the store knows what their values may be
		if !validKey(k) {
			return fail(CodeBadRequest, fmt.Sprintf("a field's key must have 1 to %d of a-z, 0-9, _, - and .", maxKeyBytes))
		}
	}
	return nil
}

func validKey(k string) bool {
	return k != "" && len(k) <= maxKeyBytes && strings.Trim(k, "abcdefghijklmnopqrstuvwxyz0123456789_-.") == ""
}

func checkBlock(p any) *Error {
	b := p.(*ContactBlock)
	if err := checkContact(b.Contact); err != nil {
		return err
	}
	return checkLine("reason", &b.Reason, maxReasonChars)
}

func checkTag(p any) *Error { return p.(*Tag).Check() }

// Check checks the tags and puts them into their canonical form.
func (t *Tag) Check() *Error {
	if len(t.Add)+len(t.Remove) == 0 {
		return fail(CodeBadRequest, "tag needs add or remove")
	}
	for _, list := range []*[]string{&t.Add, &t.Remove} {
		if len(*list) > MaxTags {
			return fail(CodeBadRequest, fmt.Sprintf("%d tags, the limit is %d", len(*list), MaxTags))
		}
		for i := range *list {
			tag := &(*list)[i]
			if err := checkLine("a tag", tag, MaxTagChars); err != nil {
				return err
			}
			if *tag == "" || strings.Contains(*tag, ",") {
				return fail(CodeBadRequest, "a tag is empty or contains a comma")
			}
		}
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	return nil
}

func checkRate(p any) *Error {
	r := p.(*Rate)
	if r.Score < 1 || r.Score > maxScore {
		return fail(CodeBadRequest, fmt.Sprintf("score is %d: it must be 1 to %d", r.Score, maxScore))
	}
	if n := utf8.RuneCountInString(r.Comment); n > MaxComment {
		return fail(CodeTooLarge, fmt.Sprintf("the comment has %d characters, the limit is %d", n, MaxComment))
	}
	return nil
}
