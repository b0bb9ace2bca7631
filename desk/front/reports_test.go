package front

import "testing"

// A text that a spreadsheet may take for a formula gets a quote in front; others stay as they are.
func TestCell(t *testing.T) {
	for _, s := range []string{"=1+1", "+1", "-1", "@x", "\t=1", "\r=1", "\n=1", " =1", "\u3000=1", "＝1", "＋1", "－1", "＠x", " \t=1"} {
		if got := cell(s); got != "'"+s {
			t.Errorf("%q is %q", s, got)
		}
	}
	for _, s := range []string{"", " ", "a", "a=1", "1-2", "退款", "\xff=", "'=1"} {
		if got := cell(s); got != s {
			t.Errorf("%q is %q", s, got)
		}
	}
}
