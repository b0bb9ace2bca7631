package desk

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/go-eddy/eddy/desk/auth"
	"github.com/go-eddy/eddy/desk/datadir"
	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/desk/hub"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store/pgtest"
	"github.com/go-eddy/eddy/desk/store/sqlstore/sqlitetest"
	"github.com/go-eddy/eddy/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(pgtest.Closing{M: m}) }

// testOptions are those of a Desk whose time limits are far away.
func testOptions(t *testing.T) Options {
	t.Helper()
	plenty := hub.Rate{PerSecond: 1e6, Burst: 1e6}
	dir := filepath.Join(t.TempDir(), "data")
	sqlitetest.Prepare(t, datadir.Database(dir))
	return Options{
		DataDir: dir, Addr: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler),
		Passwords: auth.Params{MemoryKiB: 8, Passes: 1, Lanes: 1},
		Limits: hub.Limits{CustomerMessages: plenty, AgentMessages: plenty, CustomerCommands: plenty, AgentCommands: plenty,
			HelloTimeout: testkit.Patience, CommandAge: testkit.Patience, ReadTimeout: testkit.Patience, SearchTimeout: testkit.Patience, BotTimeout: testkit.Patience,
			QueueEvery: 10 * time.Millisecond, AgentSettle: -1},
		patience: testkit.Patience,
	}
}

func openDesk(t *testing.T, o Options) *Desk {
	t.Helper()
	d, err := Open(testkit.Context(t), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func TestFirstStartMakesAnAccountOnce(t *testing.T) {
	o := testOptions(t)
	d := openDesk(t, o)
	login, password, ok := d.FirstLogin()
	if !ok || login != "agent" || len(password) < 16 {
		t.Fatalf("%q %q %v", login, password, ok)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	again := openDesk(t, o)
	if login, _, ok := again.FirstLogin(); ok {
		t.Fatalf("second start made %q", login)
	}
	if code, _ := call(again, "POST", "/api/v1/agent/login", credentials(login, password)); code != http.StatusOK {
		t.Fatalf("the first password: %d", code)
	}
	content, err := os.ReadFile(filepath.Join(o.DataDir, "desk.db"))
	if err != nil || strings.Contains(string(content), password) {
		t.Fatalf("the password is in the database (%v)", err)
	}
	info, err := os.Stat(o.DataDir)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("data directory: %v %v", info.Mode(), err)
	}
}

func TestOpenErrorsNameThingAndRemedy(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	taken := testOptions(t)
	openDesk(t, taken)
	damaged := testOptions(t)
	if err := os.MkdirAll(damaged.DataDir, 0o700); err != nil {
		t.Fatal(err)
	}
	garbage := []byte(strings.Repeat("this is not a database ", 500))
	if err := os.WriteFile(filepath.Join(damaged.DataDir, "desk.db"), garbage, 0o600); err != nil {
		t.Fatal(err)
	}
	blocked, readonly := testOptions(t), testOptions(t)
	blocked.DataDir = filepath.Join(file, "data")
	if err := os.MkdirAll(readonly.DataDir, 0o500); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		o    Options
		want []string
	}{
		"directory cannot be made": {blocked, []string{blocked.DataDir, "cannot be written", "choose another"}},
		"directory read-only":      {readonly, []string{readonly.DataDir, "cannot be written", "write access"}},
		"used by another process":  {taken, []string{taken.DataDir, fmt.Sprint(os.Getpid()), "stop it"}},
		"damaged database":         {damaged, []string{"desk.db", "damaged", "backup"}},
	} {
		if name == "directory read-only" && os.Geteuid() == 0 {
			continue // root may write anywhere
		}
		d, err := Open(testkit.Context(t), c.o)
		if err == nil {
			_ = d.Close()
			t.Errorf("%s: opened", name)
			continue
		}
		for _, want := range append(c.want, "") {
			if text := err.Error(); !strings.Contains(text, want) || strings.Contains(text, "\n") {
				t.Errorf("%s: %q does not say %q in one line", name, text, want)
			}
		}
	}
	if after, err := os.ReadFile(filepath.Join(damaged.DataDir, "desk.db")); err != nil || string(after) != string(garbage) {
		t.Errorf("the damaged file was changed (%v)", err)
	}
}

// A failed start gives the directory back.
func TestBusyPortIsAnErrorAndLocksAreReleased(t *testing.T) {
	first := openDesk(t, testOptions(t))
	if err := first.Start(testkit.Context(t)); err != nil {
		t.Fatal(err)
	}
	o := testOptions(t)
	o.Addr = first.Addr().String()
	second := openDesk(t, o)
	if err := second.Start(testkit.Context(t)); err == nil || !strings.Contains(err.Error(), o.Addr) || strings.Contains(err.Error(), "\n") {
		t.Fatalf("busy port: %v", err)
	}
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
	openDesk(t, o)
}

func credentials(login, password string) string {
	b, _ := json.Marshal(map[string]string{"login": login, "password": password})
	return string(b)
}

// call makes one request to the handler. Extra are header names and values in turn.
func call(d *Desk, method, path, body string, extra ...string) (int, *http.Response) {
	return desktest.Ask(d.Handler(), method, path, body, extra...)
}

func TestWidgetSession(t *testing.T) {
	o := testOptions(t)
	o.NewVisitors = hub.Rate{PerSecond: 0.0001, Burst: 3}
	d := openDesk(t, o)
	const path = "/api/v1/widget/session"
	_, resp := call(d, "POST", path, `{"site":"demo"}`)
	first := desktest.Into[visitorInfo](t, resp)
	if !first.New || len(first.Token) != 43 || first.Contact == "" || first.Site.Key != "demo" || first.Site.Name != "Demo site" || first.Verified || first.Name == "" {
		t.Fatalf("%+v", first)
	}
	_, resp = call(d, "POST", path, fmt.Sprintf(`{"site":"demo","token":%q}`, first.Token))
	if again := desktest.Into[visitorInfo](t, resp); again.New || again.Token != first.Token || again.Contact != first.Contact {
		t.Fatalf("refresh: %+v", again)
	}
	_, resp = call(d, "POST", path, `{"site":"demo","token":"guess"}`)
	if other := desktest.Into[visitorInfo](t, resp); !other.New || other.Token == "guess" || other.Contact == first.Contact {
		t.Fatalf("unknown token: %+v", other)
	}
	for name, c := range map[string]struct {
		body  string
		extra []string
		want  int
	}{
		"unknown site": {`{"site":"nowhere"}`, nil, 404},
		"bad JSON":     {`{"site":`, nil, 400},
		"wrong shape":  {`{"site":7}`, nil, 400},
		"form":         {`site=demo`, []string{"Content-Type", "application/x-www-form-urlencoded"}, 415},
		"too large":    {`{"site":"` + strings.Repeat("x", 16<<10) + `"}`, nil, 413},
		"cross site":   {`{"site":"demo"}`, []string{"Sec-Fetch-Site", "cross-site"}, 403},
		"other origin": {`{"site":"demo"}`, []string{"Origin", "https://evil.example"}, 403},
	} {
		status, resp := call(d, "POST", path, c.body, c.extra...)
		if e := desktest.Into[proto.Error](t, resp); status != c.want || e.Code == "" || e.Text == "" {
			t.Errorf("%s: %d %+v, want %d", name, status, e, c.want)
		}
	}
	if n := d.Stats().CrossSite; n != 2 {
		t.Errorf("%d cross-site requests counted", n)
	}
	call(d, "POST", path, `{"site":"demo"}`)
	status, resp := call(d, "POST", path, `{"site":"demo"}`)
	if e := desktest.Into[proto.Error](t, resp); status != http.StatusTooManyRequests || e.RetryMS == 0 || resp.Header.Get("Retry-After") != "10000" {
		t.Errorf("over the rate: %d %+v", status, e)
	}
}

func TestLogin(t *testing.T) {
	for _, https := range []bool{false, true} {
		t.Run(fmt.Sprint("https ", https), func(t *testing.T) {
			o := testOptions(t)
			o.HTTPS = https
			d := openDesk(t, o)
			_, password, _ := d.FirstLogin()
			for name, body := range map[string]string{"wrong password": credentials("agent", "wrong"), "no such account": credentials("nobody", password), "nothing": `{}`} {
				status, resp := call(d, "POST", "/api/v1/agent/login", body)
				if e := desktest.Into[proto.Error](t, resp); status != 401 || e.Code != proto.CodeUnauthorized || len(resp.Cookies()) != 0 {
					t.Errorf("%s: %d %+v", name, status, e)
				}
			}
			if n := d.Stats().LoginsFailed; n != 3 {
				t.Errorf("%d failures counted", n)
			}
			status, resp := call(d, "POST", "/api/v1/agent/login", credentials(" Agent ", password))
			if status != 200 || len(resp.Cookies()) != 2 {
				t.Fatalf("login: %d", status)
			}
			c := resp.Cookies()[0]
			if known := resp.Cookies()[1]; !strings.HasPrefix(known.Name, "desk-device-") || known.Secure != https || !known.HttpOnly || known.SameSite != http.SameSiteLaxMode || known.Path != "/api/v1/agent" {
				t.Errorf("cookie of the device %+v", known)
			}
			name := map[bool]string{false: "desk", true: "__Host-desk"}[https]
			if c.Name != name || c.Secure != https || !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.Path != "/" || c.Domain != "" {
				t.Errorf("cookie %+v", c)
			}
			cookie := c.Name + "=" + c.Value
			if status, _ := call(d, "GET", "/api/v1/agent/me", "", "Cookie", cookie); status != 200 {
				t.Errorf("me: %d", status)
			}
			if status, _ := call(d, "GET", "/api/v1/agent/me", "", "Cookie", cookie+"x"); status != 401 {
				t.Errorf("me with another token: %d", status)
			}
			status, resp = call(d, "POST", "/api/v1/agent/ticket", "", "Cookie", cookie)
			if k := desktest.Into[struct{ Ticket string }](t, resp); status != 200 || k.Ticket == "" {
				t.Errorf("ticket: %d", status)
			}
			if status, _ := call(d, "POST", "/api/v1/agent/ticket", "", "Cookie", cookie, "Sec-Fetch-Site", "cross-site"); status != 403 {
				t.Errorf("ticket for another site: %d", status)
			}
			if status, resp := call(d, "POST", "/api/v1/agent/logout", "", "Cookie", cookie); status != 204 || resp.Cookies()[0].MaxAge >= 0 {
				t.Errorf("logout: %d", status)
			}
			for _, x := range [][2]string{{"GET", "me"}, {"POST", "ticket"}} {
				if status, _ := call(d, x[0], "/api/v1/agent/"+x[1], "", "Cookie", cookie); status != 401 {
					t.Errorf("%s after logout: %d", x[1], status)
				}
			}
		})
	}
}

func TestLoginIsThrottled(t *testing.T) {
	o, now := testOptions(t), time.Now()
	o.Now = func() time.Time { return now } // the delay does not go by
	d := openDesk(t, o)
	_, password, _ := d.FirstLogin()
	for range 5 {
		call(d, "POST", "/api/v1/agent/login", credentials("agent", "guess"))
	}
	status, resp := call(d, "POST", "/api/v1/agent/login", credentials("AGENT", password))
	if e := desktest.Into[proto.Error](t, resp); status != 429 || e.Code != proto.CodeRateLimited || e.RetryMS == 0 || d.Stats().LoginsThrottled != 1 {
		t.Errorf("%d %+v", status, e)
	}
}

// TestOptionsThatClientsAreTold: an address or a time that browsers could not use is refused by name.
func TestOptionsThatClientsAreTold(t *testing.T) {
	for want, change := range map[string]func(*Options){
		`PublicURL is "desk.example"`:                    func(o *Options) { o.PublicURL = "desk.example" },
		`PublicURL is "https://desk.example/"`:           func(o *Options) { o.PublicURL = "https://desk.example/" },
		`PublicURL is "http://desk.example", but browse`: func(o *Options) { o.PublicURL, o.HTTPS = "http://desk.example", true },
		"HSTS is 1ms":   func(o *Options) { o.HSTS = time.Millisecond },
		"HSTS is -1h0m": func(o *Options) { o.HSTS = -time.Hour },
	} {
		o := Options{DataDir: t.TempDir()}
		change(&o)
		if _, err := Open(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestRefusedComeBackLater: when a limit has only milliseconds left to wait, clients are asked for more.
func TestRefusedComeBackLater(t *testing.T) {
	o, clock := testOptions(t), desktest.NewClock()
	o.Now = clock.Now
	o.NewVisitors = hub.Rate{PerSecond: 50, Burst: 1} // the next one in 20 ms
	d := openDesk(t, o)
	refused := func(method, path, body string) {
		t.Helper()
		status, resp := call(d, method, path, body)
		if e := desktest.Into[proto.Error](t, resp); status != 429 || e.RetryMS != proto.MinRetry.Milliseconds() || resp.Header.Get("Retry-After") != "1" {
			t.Errorf("%s: %d %+v, Retry-After %q", path, status, e, resp.Header.Get("Retry-After"))
		}
	}
	const visit, login = "/api/v1/widget/session", "/api/v1/agent/login"
	call(d, "POST", visit, `{"site":"demo"}`)
	refused("POST", visit, `{"site":"demo"}`)
	for range 5 {
		call(d, "POST", login, credentials("agent", "guess"))
	}
	clock.Move(time.Second - time.Millisecond) // the sixth guess waits for a second
	refused("POST", login, credentials("agent", "guess"))
}

// TestVisitorsWithoutALimit: a burst below 0 lets in as many visitors of a site as come.
func TestVisitorsWithoutALimit(t *testing.T) {
	o := testOptions(t)
	o.NewVisitors, o.NewVisitorsPerIP = hub.Rate{Burst: -1}, hub.Rate{Burst: -1}
	d := openDesk(t, o)
	for i := range 600 {
		if status, _ := call(d, "POST", "/api/v1/widget/session", `{"site":"demo"}`); status != 200 {
			t.Fatalf("visitor %d: %d", i, status)
		}
	}
}

func TestLoginsExpire(t *testing.T) {
	clock := desktest.NewClock()
	o := testOptions(t)
	o.Now = clock.Now
	o.LoginLife, o.LoginIdle = 3*time.Hour, time.Hour
	d := openDesk(t, o)
	_, password, _ := d.FirstLogin()
	_, resp := call(d, "POST", "/api/v1/agent/login", credentials("agent", password))
	cookie := resp.Cookies()[0].Name + "=" + resp.Cookies()[0].Value
	for i, c := range []struct {
		later time.Duration
		want  int
	}{{50 * time.Minute, 200}, {50 * time.Minute, 200}, {50 * time.Minute, 200}, {40 * time.Minute, 401}} {
		clock.Move(c.later)
		if status, _ := call(d, "GET", "/api/v1/agent/me", "", "Cookie", cookie); status != c.want {
			t.Fatalf("step %d: %d, want %d", i, status, c.want)
		}
	}
	_, resp = call(d, "POST", "/api/v1/agent/login", credentials("agent", password))
	cookie = resp.Cookies()[0].Name + "=" + resp.Cookies()[0].Value
	clock.Move(61 * time.Minute)
	if status, _ := call(d, "GET", "/api/v1/agent/me", "", "Cookie", cookie); status != 401 {
		t.Errorf("idle login: %d", status)
	}
}

func TestReadiness(t *testing.T) {
	d := openDesk(t, testOptions(t))
	if err := d.Shutdown(testkit.Context(t)); err != nil {
		t.Fatal(err)
	}
	if status, _ := call(d, "GET", "/readyz", ""); status != http.StatusServiceUnavailable {
		t.Errorf("after shutdown: %d", status)
	}
	if status, _ := call(d, "GET", "/healthz", ""); status != http.StatusOK {
		t.Errorf("healthz: %d", status)
	}
}
