package admin

import (
	"net/url"
	"strconv"

	"github.com/go-eddy/eddy/desk/store"
)

// Sides returns the choices for the side of the chat button.
func (sitePage) Sides() []string { return []string{"", "left", "right"} }

// invitationRows returns the numbers of the rows to show: those that are filled, and an empty one below.
func (q *request) invitationRows(filled int) []int {
	rows := []int{0}
	for i := 1; i < store.MaxInvitations && (i <= filled || q.line("call_text_"+strconv.Itoa(i)) != ""); i++ {
		rows = append(rows, i)
	}
	return rows
}

// lookEntered fills the look of the button with the values of the form. A row without a text is none.
func (q *request) lookEntered(l *store.SiteLook) {
	l.Side, l.Invitations = q.Value("side"), nil
	for i := range store.MaxInvitations {
		n := strconv.Itoa(i)
		v := store.Invitation{Text: q.line("call_text_" + n), Page: q.line("call_page_" + n)}
		if v.Text == "" && v.Page == "" {
			continue
		}
		v.After, v.Scroll = int(q.numberOf("invitations", "call_after_"+n)), int(q.numberOf("invitations", "call_scroll_"+n))
		l.Invitations = append(l.Invitations, v)
	}
}

// lookShown sets the fields of the look of the button.
func lookShown(shown url.Values, l *store.SiteLook) {
	shown.Set("side", l.Side)
	for i, v := range l.Invitations {
		n := strconv.Itoa(i)
		shown.Set("call_text_"+n, v.Text)
		shown.Set("call_page_"+n, v.Page)
		shown.Set("call_after_"+n, unlessZero(int64(v.After)))
		shown.Set("call_scroll_"+n, unlessZero(int64(v.Scroll)))
	}
}
