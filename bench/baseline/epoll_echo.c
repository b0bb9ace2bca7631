// A plain epoll echo loop: the floor that the Go servers are compared with. One thread, level-triggered, one read and one write per event,
// 64 KiB shared read buffer, a private buffer only for a connection that could not write everything.
//
// Prints "listening 127.0.0.1:PORT" and serves until its standard input ends.

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { READ_SIZE = 64 * 1024, MAX_EVENTS = 256, MAX_FDS = 65536 };

struct pending {
	char *data;
	size_t off, len;
};

static struct pending unsent[MAX_FDS];
static char scratch[READ_SIZE];

static void die(const char *what) {
	fprintf(stderr, "epoll_echo: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void watch(int ep, int op, int fd, uint32_t events) {
	struct epoll_event ev = {.events = events, .data.fd = fd};
	if (epoll_ctl(ep, op, fd, &ev) < 0)
		die("epoll_ctl");
}

static void drop(int fd) {
	free(unsent[fd].data);
	memset(&unsent[fd], 0, sizeof unsent[fd]);
	close(fd);
}

static void accept_all(int ep, int listener) {
	for (;;) {
		int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd < 0)
			return;
		if (fd >= MAX_FDS) {
			close(fd);
			continue;
		}
		int one = 1;
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
		watch(ep, EPOLL_CTL_ADD, fd, EPOLLIN);
	}
}

// Keeps what the socket did not take and waits for it to become writable; reading stops meanwhile.
static void keep(int ep, int fd, const char *rest, size_t len) {
	struct pending *p = &unsent[fd];
	p->data = malloc(len);
	if (!p->data)
		die("malloc");
	memcpy(p->data, rest, len);
	p->off = 0;
	p->len = len;
	watch(ep, EPOLL_CTL_MOD, fd, EPOLLOUT);
}

static void on_writable(int ep, int fd) {
	struct pending *p = &unsent[fd];
	ssize_t n = write(fd, p->data + p->off, p->len - p->off);
	if (n < 0) {
		if (errno != EAGAIN && errno != EINTR)
			drop(fd);
		return;
	}
	p->off += (size_t)n;
	if (p->off < p->len)
		return;
	free(p->data);
	memset(p, 0, sizeof *p);
	watch(ep, EPOLL_CTL_MOD, fd, EPOLLIN);
}

static void on_readable(int ep, int fd) {
	ssize_t n = read(fd, scratch, sizeof scratch);
	if (n <= 0) {
		if (n == 0 || (errno != EAGAIN && errno != EINTR))
			drop(fd);
		return;
	}
	ssize_t w = write(fd, scratch, (size_t)n);
	if (w < 0) {
		if (errno != EAGAIN && errno != EINTR) {
			drop(fd);
			return;
		}
		w = 0;
	}
	if (w < n)
		keep(ep, fd, scratch + w, (size_t)(n - w));
}

static int listen_loopback(void) {
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		die("socket");
	struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	if (bind(fd, (struct sockaddr *)&addr, sizeof addr) < 0)
		die("bind");
	if (listen(fd, 4096) < 0)
		die("listen");
	socklen_t len = sizeof addr;
	if (getsockname(fd, (struct sockaddr *)&addr, &len) < 0)
		die("getsockname");
	printf("listening 127.0.0.1:%d\n", ntohs(addr.sin_port));
	fflush(stdout);
	return fd;
}

int main(void) {
	signal(SIGPIPE, SIG_IGN);
	int ep = epoll_create1(EPOLL_CLOEXEC);
	if (ep < 0)
		die("epoll_create1");
	int listener = listen_loopback();
	watch(ep, EPOLL_CTL_ADD, listener, EPOLLIN);
	watch(ep, EPOLL_CTL_ADD, STDIN_FILENO, EPOLLIN);
	struct epoll_event events[MAX_EVENTS];
	for (;;) {
		int n = epoll_wait(ep, events, MAX_EVENTS, -1);
		if (n < 0 && errno != EINTR)
			die("epoll_wait");
		for (int i = 0; i < n; i++) {
			int fd = events[i].data.fd;
			if (fd == listener)
				accept_all(ep, listener);
			else if (fd == STDIN_FILENO)
				return 0;
			else if (unsent[fd].data)
				on_writable(ep, fd);
			else
				on_readable(ep, fd);
		}
	}
}
