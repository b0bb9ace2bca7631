package store

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-eddy/eddy/desk/perm"
)

// OwnField is a field of contacts that an administrator has defined. Its values are apart from attributes, so neither a
// customer, a signed identity nor a bot can change them.
type OwnField struct {
	Key      string     // names it for programs, never changes
	Label    string     // names it for people
	Kind     FieldKind  //
	Choices  []string   // of FieldChoice
	See      FieldLevel // which staff see its values
	Edit     FieldLevel // which staff change them, nobody who may not see them
	Position int        // of its place among the others, the least first
}

// FieldKind says what the values of an OwnField are.
type FieldKind string

// Kinds of values, which are all texts: a line, a decimal number, a day such as 2026-12-31, one of the choices, "yes" or
// "no".
const (
	FieldText   FieldKind = "text"
	FieldNumber FieldKind = "number"
	FieldDate   FieldKind = "date"
	FieldChoice FieldKind = "choice"
	FieldYesNo  FieldKind = "yes_no"
)

// FieldKinds returns every kind, in the order of the pages.
func FieldKinds() []FieldKind {
	return []FieldKind{FieldText, FieldNumber, FieldDate, FieldChoice, FieldYesNo}
}

// FieldLevel says for whom an OwnField is. Programs with an API key see and change every field.
type FieldLevel string

// Levels, from the widest to the narrowest. Nobody but a program changes a field of FieldPrograms.
const (
	FieldStaff       FieldLevel = "staff"
	FieldSupervisors FieldLevel = "supervisors" // and administrators; auditors see, too
	FieldAdmins      FieldLevel = "admins"
	FieldPrograms    FieldLevel = "programs"
)

// FieldLevels returns every level, the widest first.
func FieldLevels() []FieldLevel {
	return []FieldLevel{FieldStaff, FieldSupervisors, FieldAdmins, FieldPrograms}
}

// Limits of own fields. Lengths are in characters.
const (
	MaxOwnFields      = 30
	MaxFieldKey       = 40
	MaxFieldLabel     = 60
	MaxFieldChoices   = 50
	MaxFieldChoice    = 80
	MaxFieldPosition  = 1000
	MaxFieldValue     = MaxAttributeChars
	maxNumberDigits   = 15
	maxNumberDecimals = 6
)

var (
	ownKeyForm = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)
	numberForm = regexp.MustCompile(fmt.Sprintf(`^(-?)0*([0-9]{1,%d})(?:\.([0-9]{1,%d}))?$`, maxNumberDigits, maxNumberDecimals))
)

// Check returns what is wrong with a definition as an Invalid.
func (f *OwnField) Check() error {
	var i Invalid
	i.text("key", f.Key, MaxFieldKey, true, true)
	i.need(f.Key == "" || ownKeyForm.MatchString(f.Key), "key", ReasonFormat)
	i.text("label", f.Label, MaxFieldLabel, true, true)
	i.need(slices.Contains(FieldKinds(), f.Kind), "kind", ReasonUnknown)
	i.count("choices", len(f.Choices), MaxFieldChoices)
	i.need(f.Kind != FieldChoice || len(f.Choices) > 0, "choices", ReasonRequired)
	i.need(f.Kind == FieldChoice || len(f.Choices) == 0, "choices", ReasonUnknown)
	for n, c := range f.Choices {
		i.text("choices", c, MaxFieldChoice, true, true)
		i.need(c == strings.TrimSpace(c), "choices", ReasonFormat)
		if slices.Contains(f.Choices[:n], c) {
			i = append(i, Problem{Field: "choices", Reason: ReasonTwice, Value: c})
		}
	}
	see, edit := slices.Index(FieldLevels(), f.See), slices.Index(FieldLevels(), f.Edit)
	i.need(see >= 0 && f.See != FieldPrograms, "see", ReasonUnknown)
	i.need(edit >= 0, "edit", ReasonUnknown)
	if edit >= 0 && edit < see {
		i.add("edit", ReasonWider, 0)
	}
	i.between("position", int64(f.Position), MaxFieldPosition)
	return i.err()
}

// ShownTo reports whether a role sees the values of the field.
func (f *OwnField) ShownTo(r perm.Role) bool {
	switch f.See {
	case FieldStaff:
		return r.Valid()
	case FieldSupervisors:
		return r.Can(perm.ReadOthers)
	case FieldAdmins:
		return r.Can(perm.Manage)
	}
	return false
}

// ChangedBy reports whether a role changes the values of the field.
func (f *OwnField) ChangedBy(r perm.Role) bool {
	switch f.Edit {
	case FieldStaff:
		return f.ShownTo(r) && r.Can(perm.Serve)
	case FieldSupervisors:
		return f.ShownTo(r) && r.Can(perm.Override)
	case FieldAdmins:
		return f.ShownTo(r) && r.Can(perm.Manage)
	}
	return false
}

// Value returns a text as a value of the field in its one form. "" is no value. ok is false for what is none.
func (f *OwnField) Value(s string) (value string, ok bool) {
	s = strings.TrimSpace(s)
	if s == "" {
		return "", true
	}
	switch f.Kind {
	case FieldText:
		ok = utf8.RuneCountInString(s) <= MaxFieldValue && utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
	case FieldNumber:
		return decimal(s)
	case FieldDate:
		_, err := time.Parse(time.DateOnly, s)
		ok = err == nil
	case FieldChoice:
		ok = slices.Contains(f.Choices, s)
	case FieldYesNo:
		ok = s == "yes" || s == "no"
	}
	return s, ok
}

// decimal returns a number without zeros that say nothing.
func decimal(s string) (string, bool) {
	if len(s) > MaxFieldValue {
		return "", false
	}
	parts := numberForm.FindStringSubmatch(s)
	if parts == nil {
		return "", false
	}
	sign, whole, rest := parts[1], strings.TrimLeft(parts[2], "0"), strings.TrimRight(parts[3], "0")
	if whole == "" {
		whole = "0"
	}
	if rest != "" {
		return sign + whole + "." + rest, true
	}
	if whole == "0" {
		sign = ""
	}
	return sign + whole, true
}

// wants says what a value of the field must be.
func (f *OwnField) wants() string {
	switch f.Kind {
	case FieldNumber:
		return fmt.Sprintf("must be a number such as -12.5, of at most %d digits and %d behind the point", maxNumberDigits, maxNumberDecimals)
	case FieldDate:
		return "must be a day such as 2026-12-31"
	case FieldChoice:
		return fmt.Sprintf("must be one of its %d choices", len(f.Choices))
	case FieldYesNo:
		return "must be yes or no"
	}
	return fmt.Sprintf("must be one line of at most %d characters", MaxFieldValue)
}

// Take checks a change of a value by a role, "" for a program, and returns the value in its one form. The error is a
// *FieldError. A field that the role does not see is as unknown to it as one that does not exist.
func (f *OwnField) Take(r perm.Role, s string) (string, error) {
	if r != "" && !f.ShownTo(r) {
		return "", UnknownField(f.Key)
	}
	if r != "" && !f.ChangedBy(r) {
		return "", &FieldError{Field: f.Key, Why: "is not yours to change", Barred: true}
	}
	value, ok := f.Value(s)
	if !ok {
		if r := []rune(s); len(r) > MaxFieldChoice {
			s = string(r[:MaxFieldChoice]) + "…"
		}
		return "", &FieldError{Field: f.Key, Why: fmt.Sprintf("%s, not %q", f.wants(), s)}
	}
	return value, nil
}

// UnknownField is the error for a key that names no field.
func UnknownField(key string) error { return &FieldError{Field: key, Why: "is unknown"} }

// FieldsNamed returns the keys of values for a line of the audit log, "" for none.
func FieldsNamed(values map[string]string) string {
	if len(values) == 0 {
		return ""
	}
	return "fields " + strings.Join(slices.Sorted(maps.Keys(values)), ", ")
}

// OwnFieldReader are the reads of own fields. Methods block and honour ctx.
type OwnFieldReader interface {
	// OwnFields returns every definition in the order of the pages.
	OwnFields(ctx context.Context) ([]OwnField, error)
	// FieldValues returns the values of a contact by key.
	FieldValues(ctx context.Context, contact string) (map[string]string, error)
	// FieldUse returns how many contacts have a value of a field.
	FieldUse(ctx context.Context, key string) (int, error)
}

// OwnFieldWrites are the changes of definitions. They block until committed and honour ctx. The error is an Invalid for
// what is wrong.
type OwnFieldWrites interface {
	// CreateOwnField adds a field. The error is ErrExists if its key is taken, and an Invalid about "fields" if there are
	// MaxOwnFields.
	CreateOwnField(ctx context.Context, f OwnField) error
	// UpdateOwnField replaces the definition with this key, or returns ErrNotFound. No value is lost: the error is an
	// Invalid with ReasonInUse about "kind" if there are values, and about "choices" if there are values of a choice that
	// is missing now. Its Limit is how many contacts have them.
	UpdateOwnField(ctx context.Context, f OwnField) error
	// DropOwnField removes at most limit values of a field, and with the last ones the definition. more means that
	// something is left. The error is ErrInUse if more contacts than most have a value, and ErrNotFound.
	DropOwnField(ctx context.Context, key string, most, limit int) (more bool, err error)
}
