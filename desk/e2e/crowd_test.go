package e2e

import (
	"fmt"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"

	"github.com/google/uuid"

	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/internal/testkit"
)

// behindOneAddress is a proxy on this machine through which everybody comes from one address. It returns its own.
func behindOneAddress(t *testing.T, d *desk) string {
	t.Helper()
	to, err := url.Parse(d.url(""))
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.Out.Host = r.In.Host
		r.Out.Header.Set("X-Forwarded-For", "198.51.100.7")
	}})
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s.URL
}

// chat is a customer without a browser who opens a chat at an address and writes.
func chat(t *testing.T, base string) {
	t.Helper()
	web := desktest.NewWeb(func() string { return base })
	c := web.Customer("demo")
	defer web.CloseIdle()
	defer c.Close()
	ctx := testkit.Context(t)
	conv, err := c.Open(ctx, "bot")
	if err != nil {
		t.Fatal(err)
	}
	if f, err := c.Do(ctx, "msg.send", conv, proto.Send{ClientID: uuid.NewString(), Body: "hello"}); err != nil || f.T != "ok" {
		t.Fatalf("the message: %s %v", f.D, err)
	}
}

// TestTheHundredthVisitorOfOneAddressChats: a school, an office and a telephone network are one address.
func TestTheHundredthVisitorOfOneAddressChats(t *testing.T) {
	b := startBrowser(t, "en")
	d := newDesk(t, "--trusted-proxies", "127.0.0.1")
	base := behindOneAddress(t, d)
	for range 99 {
		chat(t, base)
	}
	p := b.open("hundredth", phone, 740, base+"/chat/demo")
	p.until("the bot greets", messagesOf+`.some((m) => m.From === 'bot')`)
	p.send("Is it open on Sunday?")
	p.until("the message is taken", accepted("Is it open on Sunday?"))
	p.clean()
}

// TestAnAddressWithTooManyChatsIsToldWhatToDo: the page says what and when, in both languages, and what was written stays,
// over a reload too.
func TestAnAddressWithTooManyChatsIsToldWhatToDo(t *testing.T) {
	requested(t)
	for lang, want := range map[string]string{
		"en":    "Many new chats have come from your network. What you wrote is kept. Try again in about 30 minutes.",
		"zh-CN": "您所在的网络新建的对话较多。 您填写的内容已保留，请在约 30 分钟后重试。",
	} {
		t.Run(lang, func(t *testing.T) {
			b := startBrowser(t, lang)
			d := newDesk(t, "--chats-per-ip", "2")
			base := behindOneAddress(t, d)
			chat(t, base)
			chat(t, base)
			p := b.open("third", phone, 740, base+"/chat/demo")
			p.until("the bot greets", messagesOf+`.some((m) => m.From === 'bot')`)
			p.send("My parcel is lost")
			told := fmt.Sprintf(`document.querySelector('#notice').checkVisibility() && document.querySelector('#notice-text').textContent === %q`, want)
			p.until("the page says what to do", told)
			waits := messagesOf + `.some((m) => m.Text === 'My parcel is lost' && m.Seq === 0)`
			p.until("the message waits", waits)
			p.shot("waits")
			p.reload()
			p.until("it is kept", waits+` && `+told)
			p.click("talk-to-person")
			p.until("asking for a person is answered, and can be tried again", told+` && !`+node("talk-to-person")+`.disabled`)
			p.clean()
			if n, _ := d.kept(); n != 2 {
				t.Errorf("%d conversations, want those in which somebody wrote", n)
			}
		})
	}
}

// TestFormOfAnAddressWithTooManyChats: the answers stay in the form, which says what to do.
func TestFormOfAnAddressWithTooManyChats(t *testing.T) {
	b := startBrowser(t, "en")
	d := newDesk(t, "--chats-per-ip", "1")
	d.settings(demanding)
	base := behindOneAddress(t, d)
	web := desktest.NewWeb(func() string { return base })
	first := web.Customer("demo")
	defer web.CloseIdle()
	defer first.Close()
	agreed := proto.Open{Fields: map[string]string{"email": "ann@example.com"}, Consent: true}
	if f, err := first.Do(testkit.Context(t), "conv.open", "", agreed); err != nil || f.T != "ok" {
		t.Fatalf("the first: %s %v", f.D, err)
	}
	p := b.open("second", phone, 740, base+"/chat/demo")
	p.fill("prechat-email", "ben@example.com")
	p.click("prechat-consent")
	p.click("prechat-start")
	p.until("the form says what to do, and keeps the answers", `[...document.querySelectorAll('.prechat [role="status"]')].some((n) => n.textContent.endsWith('Try again in about 60 minutes.')) && `+
		node("prechat-email")+`.value === 'ben@example.com' && `+node("prechat-consent")+`.checked && !`+node("prechat-start")+`.disabled`)
	p.clean()
}
