package poll

func backends() []backend {
	return []backend{{"epoll", newEpoll}, {"poll", newPoll}, {"select", newSelect}}
}
