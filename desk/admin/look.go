package admin

import (
	"net/url"
	"strconv"

	"github.com/go-eddy/eddy/desk/store"
)

// Sides returns the choices for the side of the chat button.
func (sitePage) Sides() []string { return []string{"", "left", "right"} }

// proactiveRows returns the numbers of the rows to show: those that are filled, and an empty one below.
func (q *request) proactiveRows(filled int) []int {
	rows := []int{0}
	for i := 1; i < store.MaxProactives && (i <= filled || q.line("call_text_"+strconv.Itoa(i)) != ""); i++ {
		rows = append(rows, i)
	}
	return rows
}

// lookEntered fills the look of the button with the values of the form. A row without a text is none.
func (q *request) lookEntered(l *store.SiteLook) {
	l.Side, l.Proactive = q.Value("side"), nil
	for i := range store.MaxProactives {
		n := strconv.Itoa(i)
		v := store.Proactive{Text: q.line("call_text_" + n), Page: q.line("call_page_" + n)}
		if v.Text == "" && v.Page == "" {
			continue
		}
		v.After, v.Scroll = int(q.numberOf("proactive", "call_after_"+n)), int(q.numberOf("proactive", "call_scroll_"+n))
		l.Proactive = append(l.Proactive, v)
	}
}

// lookShown sets the fields of the look of the button.
func lookShown(shown url.Values, l *store.SiteLook) {
	shown.Set("side", l.Side)
	for i, v := range l.Proactive {
		n := strconv.Itoa(i)
		shown.Set("call_text_"+n, v.Text)
		shown.Set("call_page_"+n, v.Page)
		shown.Set("call_after_"+n, unlessZero(int64(v.After)))
		shown.Set("call_scroll_"+n, unlessZero(int64(v.Scroll)))
	}
}
