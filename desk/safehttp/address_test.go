package safehttp

import (
	"errors"
	"net/netip"
	"testing"
)

func TestCheckAddr(t *testing.T) {
	const never, private, always = 0, 1, 2
	for addr, want := range map[string]int{
		"8.8.8.8": always, "1.1.1.1": always, "100.63.255.255": always, "100.128.0.0": always, "172.15.0.1": always, "172.32.0.1": always, "223.255.255.254": always,
		"2606:4700::1111": always, "2a00:1450:4001::1": always, "::ffff:8.8.8.8": always, "64:ff9b::808:808": always, "2002:808:808::1": always,

		"127.0.0.1": private, "127.255.255.254": private, "10.0.0.1": private, "172.16.0.1": private, "172.31.255.255": private, "192.168.1.1": private,
		"169.254.169.254": private, "100.64.0.1": private, "::1": private, "fe80::1": private, "fc00::1": private, "fd00:ec2::254": private,
		"::ffff:127.0.0.1": private, "::ffff:10.0.0.1": private, "::ffff:a9fe:a9fe": private,
		"64:ff9b::7f00:1": private, "64:ff9b:1::a00:1": private, "2002:7f00:1::": private, "2002:a9fe:a9fe::1": private,

		"0.0.0.0": never, "0.1.2.3": never, "::": never, "::ffff:0.0.0.0": never, "::127.0.0.1": never, "64:ff9b::": never,
		"224.0.0.1": never, "239.255.255.255": never, "255.255.255.255": never, "240.0.0.1": never, "ff02::1": never, "ff0e::1": never,
		"192.0.0.8": never, "192.0.2.1": never, "192.88.99.1": never, "198.18.0.1": never, "198.51.100.7": never, "203.0.113.9": never,
		"100::1": never, "2001:db8::1": never, "2001::1": never, "3fff::1": never, "5f00::1": never, "fe80::1%lo": never, "fec0::1": never, "4000::1": never,
	} {
		a := netip.MustParseAddr(addr)
		if err := CheckAddr(a, false); (err == nil) != (want == always) || (err != nil && !errors.Is(err, ErrForbidden)) {
			t.Errorf("%s: %v", addr, err)
		}
		if err := CheckAddr(a, true); (err == nil) != (want >= private) {
			t.Errorf("%s with private networks allowed: %v", addr, err)
		}
	}
	if CheckAddr(netip.Addr{}, true) == nil {
		t.Error("no address was let in")
	}
}

func TestCheckURL(t *testing.T) {
	for s, want := range map[string][2]bool{ // without and with private addresses
		"https://bot.example.com/turn?x=1": {true, true},
		"https://bot.example.com:8443":     {true, true},
		"https://8.8.8.8/":                 {true, true},
		"https://xn--bcher-kva.example/":   {true, true},
		"https://0x7f.example/":            {true, true},
		"https://bot.example./":            {true, true},
		"http://bot.example.com/":          {false, true},
		"https://127.0.0.1/":               {false, true},
		"https://10.1.2.3/":                {false, true},
		"https://[::1]/":                   {false, true},
		"https://[::ffff:7f00:1]/":         {false, true},
		"https://169.254.169.254/latest":   {false, true},
		"http://localhost:8080/":           {false, true},
		"https://0.0.0.0/":                 {false, false},
		"https://[::]/":                    {false, false},
		"https://[fe80::1%25eth0]/":        {false, false},
		"https://2130706433/":              {false, false}, // 127.0.0.1
		"https://0x7f000001/":              {false, false},
		"https://0x7f.0.0.1/":              {false, false},
		"https://0X7F.1/":                  {false, false},
		"https://0177.0.0.1/":              {false, false},
		"https://127.1/":                   {false, false},
		"https://127.0.0.1./":              {false, false},
		"https://256.1.1.1/":               {false, false},
		"https://1.2.3.4.5/":               {false, false},
		"https://example.com:/":            {false, false},
		"https://ann:secret@example.com/":  {false, false},
		"https://example.com/#x":           {false, false},
		"https:///x":                       {false, false},
		"https:example.com":                {false, false},
		"ftp://example.com/":               {false, false},
		"file:///etc/passwd":               {false, false},
		"gopher://example.com/":            {false, false},
		"//example.com/":                   {false, false},
		"example.com":                      {false, false},
		"":                                 {false, false},
		"https://exa mple.com/":            {false, false},
		"https://example.com:99999999/":    {false, false},
	} {
		for i, private := range []bool{false, true} {
			if u, err := CheckURL(s, private); (err == nil) != want[i] || (err == nil && u == nil) {
				t.Errorf("%q, private %v: %v", s, private, err)
			}
		}
	}
}
