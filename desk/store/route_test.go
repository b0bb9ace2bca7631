package store

import "testing"

func TestRoute(t *testing.T) {
	for name, c := range map[string]struct {
		rule RouteRule
		f    RouteFacts
		want bool
	}{
		"nothing asked":                   {RouteRule{}, RouteFacts{}, true},
		"contained":                       {RouteRule{Page: "Cart"}, RouteFacts{Page: "https://a.example/my/cart"}, true},
		"not contained":                   {RouteRule{Page: "cart"}, RouteFacts{Page: "https://a.example/"}, false},
		"path":                            {RouteRule{Page: "/prices", Begins: true}, RouteFacts{Page: "https://a.example/prices/gold"}, true},
		"path of another page":            {RouteRule{Page: "/prices", Begins: true}, RouteFacts{Page: "https://a.example/old/prices"}, false},
		"path of a bare host":             {RouteRule{Page: "/", Begins: true}, RouteFacts{Page: "https://a.example"}, true},
		"longer path of a bare host":      {RouteRule{Page: "/x", Begins: true}, RouteFacts{Page: "https://a.example"}, false},
		"path where there is no host":     {RouteRule{Page: "/x", Begins: true}, RouteFacts{Page: "/x/y"}, true},
		"host":                            {RouteRule{Page: "a.example/x", Begins: true}, RouteFacts{Page: "https://A.example/x"}, true},
		"whole address":                   {RouteRule{Page: "https://a.example/x", Begins: true}, RouteFacts{Page: "https://a.example/xy"}, true},
		"whole address of another scheme": {RouteRule{Page: "https://a.example/x", Begins: true}, RouteFacts{Page: "http://a.example/x"}, false},
		"no page":                         {RouteRule{Page: "/x", Begins: true}, RouteFacts{}, false},
		"language":                        {RouteRule{Language: "zh"}, RouteFacts{Locale: "zh-CN"}, true},
		"another language":                {RouteRule{Language: "zh"}, RouteFacts{Locale: "en"}, false},
		"no language":                     {RouteRule{Language: "zh"}, RouteFacts{}, false},
		"answer":                          {RouteRule{Answer: "refund"}, RouteFacts{Answers: []string{"hello", "Refund "}}, true},
		"part of an answer":               {RouteRule{Answer: "refund"}, RouteFacts{Answers: []string{"refund me"}}, false},
		"attribute":                       {RouteRule{Attribute: "plan", Value: "gold"}, RouteFacts{Attributes: map[string]string{"plan": "Gold"}}, true},
		"another value":                   {RouteRule{Attribute: "plan", Value: "gold"}, RouteFacts{Attributes: map[string]string{"plan": "free"}}, false},
		"any value":                       {RouteRule{Attribute: "plan"}, RouteFacts{Attributes: map[string]string{"plan": "free"}}, true},
		"no value":                        {RouteRule{Attribute: "plan"}, RouteFacts{Attributes: map[string]string{"plan": ""}}, false},
		"one of two conditions":           {RouteRule{Language: "en", Attribute: "plan"}, RouteFacts{Locale: "en"}, false},
	} {
		if _, at := Route([]RouteRule{c.rule}, &c.f); (at == 1) != c.want {
			t.Errorf("%s: rule %d", name, at)
		}
	}
	rules := []RouteRule{{Language: "zh"}, {Priority: "low"}, {Priority: "high"}}
	if r, at := Route(rules, &RouteFacts{Locale: "en"}); at != 2 || r.Priority != "low" {
		t.Errorf("rule %d: %+v", at, r)
	}
}

func TestPriorities(t *testing.T) {
	for _, name := range Priorities() {
		if p, ok := ParsePriority(name); !ok || p.Name() != name {
			t.Errorf("%s is %d, which is %s", name, p, p.Name())
		}
	}
	if p, ok := ParsePriority("soon"); ok || p != PriorityNormal {
		t.Errorf("%d %v", p, ok)
	}
}
