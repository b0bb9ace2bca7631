package e2e

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"

	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/internal/testkit"
)

const (
	firstDay  = "../../docs/desk-first-day.md"
	usualBase = "http://127.0.0.1:8080" // as the document has it; a test chooses its own port
)

// A step is one numbered step of a document.
type step struct {
	name     string // its section and its number
	text     string // on one line, without the commands
	commands string // the block in it
}

var stepBegins = regexp.MustCompile(`^(\d+)\. `)

// stepsOf returns the numbered steps of a document.
func stepsOf(t *testing.T, text string) (all []step) {
	t.Helper()
	section, n, inside, fenced := "", 0, false, false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		m := stepBegins.FindStringSubmatch(line)
		content, indented := strings.CutPrefix(line, "   ")
		switch {
		case strings.HasPrefix(line, "#"):
			section, n, inside = strings.TrimLeft(line, "# "), 0, false
		case m != nil:
			if n++; m[1] != strconv.Itoa(n) {
				t.Errorf("%s: step %s stands in the place of step %d", section, m[1], n)
			}
			all = append(all, step{name: section + ", step " + m[1], text: line[len(m[0]):]})
			inside, fenced = true, false
		case inside && indented && strings.HasPrefix(content, "```"):
			fenced = !fenced
		case inside && indented && fenced:
			all[len(all)-1].commands += content + "\n"
		case inside && indented:
			all[len(all)-1].text += " " + content
		case line != "":
			inside = false
		}
	}
	return all
}

// deeds finds what a step tells to do, and what is seen then. Each mark of a step belongs to one of them.
var deeds = regexp.MustCompile(strings.Join([]string{
	`\*(?P<who>You|Lin|The visitor)\*`,
	"[Oo]pens? `(?P<open>[^`]+)`",
	"[Cc]opy `(?P<copy>[A-Z]+)`",
	"mail comes to `(?P<to>[^`]+)`: “(?P<mail>[^”]+)”",
	"`(?P<value>[^`]+)` in \\*\\*(?P<field>[^*]+)\\*\\*",
	`\*\*(?P<press>[^*]+)\*\*`,
	`“(?P<see>[^”]+)”`,
	`(?P<close>closes the page)`,
}, "|"))

// marks are the signs with which a step marks what somebody does or sees.
const marks = "*`“”"

// deedsOf returns the deeds of a step, each with its parts by name, and what is left of the text.
func (s step) deedsOf() (all []map[string]string, rest string) {
	for _, m := range deeds.FindAllStringSubmatch(s.text, -1) {
		deed := map[string]string{}
		for i, name := range deeds.SubexpNames() {
			if name != "" && m[i] != "" {
				deed[name] = m[i]
			}
		}
		all = append(all, deed)
	}
	return all, deeds.ReplaceAllString(s.text, "")
}

// newcomer does what the document says, and nothing else.
type newcomer struct {
	t       *testing.T
	b       *profile
	d       *desk
	post    *desktest.MailServer
	who     string            // acts now
	tabs    map[string]*tab   // by person
	capital map[string]string // what words in capitals stand for
}

// TestFirstDay follows docs/desk-first-day.md from an empty directory on: it reads the steps, and does and sees what each
// of them says, by the words that it names.
func TestFirstDay(t *testing.T) {
	b := startBrowser(t, "en")
	text, err := os.ReadFile(firstDay)
	if err != nil {
		t.Fatal(err)
	}
	days := time.Now()
	n := &newcomer{
		t: t, b: b, post: desktest.NewMailServer(t, "none"), tabs: map[string]*tab{},
		d:       &desk{t: t, addr: "127.0.0.1:0", data: filepath.Join(t.TempDir(), "desk-data")},
		capital: map[string]string{"TODAY": days.AddDate(0, 0, -1).Format(time.DateOnly) + "\n" + days.Format(time.DateOnly) + "\n" + days.AddDate(0, 0, 1).Format(time.DateOnly)}, // wherever it is today
	}
	t.Cleanup(func() {
		if n.d.cmd != nil {
			n.d.stop()
		}
	})
	steps := stepsOf(t, string(text))
	if len(steps) < 20 {
		t.Fatalf("%s has only %d steps", firstDay, len(steps))
	}
	for _, s := range steps {
		n.do(s)
	}
	for _, p := range n.tabs {
		p.clean()
	}
}

// do does one step.
func (n *newcomer) do(s step) {
	n.t.Helper()
	n.t.Log(s.name)
	all, rest := s.deedsOf()
	if strings.ContainsAny(rest, marks) {
		n.t.Errorf("%s: something is marked that nobody does or sees: %s", s.name, rest)
	}
	if len(all) == 0 && s.commands == "" {
		n.t.Errorf("%s: there is nothing to do: %s", s.name, s.text)
	}
	if s.commands != "" {
		n.start(s.commands)
	}
	for _, deed := range all {
		switch {
		case deed["who"] != "":
			n.who = deed["who"]
		case deed["mail"] != "":
			n.gets(deed["to"], deed["mail"])
		case deed["open"] != "":
			n.open(n.meant(deed["open"]))
		case s.commands != "":
			n.d.eventually("says "+deed["see"], func() bool { return strings.Contains(n.d.out.String(), deed["see"]) })
		default:
			n.tabs[n.who].does(n, deed)
		}
	}
}

// does does one deed on the page of the person who acts.
func (p *tab) does(n *newcomer, deed map[string]string) {
	p.t.Helper()
	switch {
	case deed["field"] != "":
		p.enters(n.meant(deed["value"]), deed["field"])
	case deed["press"] == "Enter":
		p.enter()
	case deed["press"] != "":
		p.presses(deed["press"])
	case deed["see"] != "":
		p.until("it shows "+deed["see"], sees(deed["see"]))
	case deed["copy"] != "":
		n.capital[deed["copy"]] = p.text("once-text")
	case deed["close"] != "":
		p.navigate("about:blank") // a tab that is closed could not be asked any more
	}
}

// meant is what the test types for what the document has: the address of its own desk, and what its own screen has shown.
func (n *newcomer) meant(text string) string {
	if mine, ok := n.capital[text]; ok {
		return mine
	}
	return strings.Replace(text, usualBase, n.d.url(""), 1)
}

func (n *newcomer) open(url string) {
	n.t.Helper()
	if p := n.tabs[n.who]; p != nil {
		p.navigate(url)
		return
	}
	width := int64(desktop)
	if n.who == "The visitor" {
		width = phone
	}
	n.tabs[n.who] = n.b.stranger(n.who, width, 800, url)
}

var shellWord = regexp.MustCompile(`"[^"]*"|'[^']*'|\S+`)

// start runs "eddy desk" with the flags that a block of the document gives it; one that runs is stopped before. Only what
// a test cannot know or have is another: the address, and the mail server with its login and its TLS.
func (n *newcomer) start(commands string) {
	n.t.Helper()
	_, flags, found := strings.Cut(commands, "eddy desk")
	if !found {
		n.t.Fatalf("no Desk is started by\n%s", commands)
	}
	again := n.d.cmd != nil
	if again {
		n.d.stop()
	}
	n.d.flags = nil
	for _, word := range shellWord.FindAllString(flags, -1) {
		n.d.flags = append(n.d.flags, n.meant(strings.Trim(word, `"'`)))
	}
	if slices.Contains(n.d.flags, "--mail-server") {
		n.d.flags = append(n.d.flags, "--mail-server", n.post.Addr, "--mail-tls", "none", "--mail-login", "")
	}
	n.d.start()
	if !again {
		n.d.credentials()
		n.capital["LOGIN"], n.capital["PASSWORD"] = n.d.login, n.d.password
	}
}

// gets waits for a mail. The minute in which an answer collects what else is written is taken off.
func (n *newcomer) gets(to, text string) {
	n.t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(n.d.data, "desk.db")+"?_pragma=busy_timeout(60000)")
	if err != nil {
		n.t.Fatal(err)
	}
	defer db.Close()
	testkit.Eventually(n.t, "a mail to "+to+": "+text, func() bool {
		var early int
		err := db.QueryRowContext(n.t.Context(), `SELECT count(*) FROM mail WHERE state = 'queued' AND due > created`).Scan(&early)
		if err == nil && early > 0 {
			_, err = db.ExecContext(n.t.Context(), `UPDATE mail SET due = created WHERE state = 'queued'`)
		}
		if err != nil {
			n.t.Fatal(err)
		}
		return slices.ContainsFunc(n.post.Mails(), func(m desktest.Received) bool { return m.To == to && strings.Contains(m.Subject+"\n"+m.Body, text) })
	})
}

// named finds what a person finds by a name: a field, or the innermost thing that can be pressed and says it.
const named = `((name, fields) => {
	const said = (n) => n.nodeType === 3 ? n.data : n.nodeType !== 1 || n.ariaHidden === 'true' || n.matches('select, textarea') ? '' : [...n.childNodes].map(said).join('');
	const names = (n) => [said(n), n.ariaLabel, n.placeholder, ...[...n.labels ?? []].map(said)].map((s) => (s ?? '').replace(/\s+/g, ' ').trim());
	const within = document.querySelector('dialog[open]') ?? document;
	const pressed = (n) => n.closest('a, button, label, summary');
	const all = [...within.querySelectorAll(fields ? 'input, select, textarea' : '*')].filter((n) => n.checkVisibility() && names(n).includes(name) && (fields || pressed(n)));
	return fields ? all[0] : all.filter((n) => !all.some((m) => m !== n && n.contains(m))).map(pressed)[0];
})`

func called(name string, fields bool) string {
	quoted, _ := json.Marshal(name)
	return fmt.Sprintf("%s(%s, %v)", named, quoted, fields)
}

// presses presses what has a name.
func (p *tab) presses(name string) {
	p.t.Helper()
	p.pressed(name, called(name, false))
	if name == "Log in" {
		loginAnswered(p)
	}
}

// enters types into the field that has a name, or chooses there.
func (p *tab) enters(text, name string) {
	p.t.Helper()
	field := called(name, true)
	p.until("there is a field "+name, `((n) => n && !n.disabled)(`+field+`)`)
	quoted, _ := json.Marshal(text)
	if value[bool](p, field+`.matches('select')`) {
		p.until(text+" can be chosen", fmt.Sprintf(`((n) => { const o = [...n.options].find((o) => o.text === %s); if (!o) return false; n.value = o.value; return n.dispatchEvent(new Event('change', {bubbles: true})); })(%s)`, quoted, field))
		return
	}
	value[bool](p, `((n) => { n.focus(); n.select(); return true; })(`+field+`)`)
	call(p, input.InsertText, input.InsertTextParams{Text: text})
	p.until(name+" has what was entered", fmt.Sprintf(`%s.value.trim() === %s`, field, quoted))
}

// sees is the expression for "this text is on the screen", in whatever case the style shows it.
func sees(text string) string {
	quoted, _ := json.Marshal(strings.ToLower(text))
	return fmt.Sprintf(`[document.body.innerText, ...[...document.querySelectorAll('input, textarea')].map((n) => n.value)].some((s) => s.replace(/\s+/g, ' ').toLowerCase().includes(%s))`, quoted)
}
