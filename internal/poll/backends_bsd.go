//go:build darwin || freebsd || netbsd || openbsd || dragonfly

package poll

func backends() []backend {
	return []backend{{"kqueue", newKqueue}, {"poll", newPoll}, {"select", newSelect}}
}
