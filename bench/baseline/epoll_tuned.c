// The epoll echo loop, tuned: recv and send in place of read and write, and connections in batches of sixteen, of which all are read before
// all are answered. It is what a C server can do with epoll on one thread.
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

enum { PIECE = 16 * 1024, BATCH = 16, MAX_EVENTS = 256, MAX_FDS = 65536 };

struct pending {
	char *data;
	size_t off, len;
};

struct taken {
	int fd;
	ssize_t n;
};

static struct pending unsent[MAX_FDS];
static char input[BATCH][PIECE];

static void die(const char *what) {
	fprintf(stderr, "epoll_tuned: %s: %s\n", what, strerror(errno));
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

// Sends and returns what was taken, 0 for "not now", -1 for a connection that has ended.
static ssize_t offer(int fd, const char *data, size_t len) {
	ssize_t n = send(fd, data, len, MSG_NOSIGNAL);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -1;
	return n;
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
	ssize_t n = offer(fd, p->data + p->off, p->len - p->off);
	if (n < 0) {
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

static void answer(int ep, struct taken *batch, int count) {
	for (int i = 0; i < count; i++) {
		ssize_t w = offer(batch[i].fd, input[i], (size_t)batch[i].n);
		if (w < 0)
			drop(batch[i].fd);
		else if (w < batch[i].n)
			keep(ep, batch[i].fd, input[i] + w, (size_t)(batch[i].n - w));
	}
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
	struct taken batch[BATCH];
	for (;;) {
		int n = epoll_wait(ep, events, MAX_EVENTS, -1);
		if (n < 0 && errno != EINTR)
			die("epoll_wait");
		int count = 0;
		for (int i = 0; i < n; i++) {
			int fd = events[i].data.fd;
			if (fd == listener) {
				accept_all(ep, listener);
				continue;
			}
			if (fd == STDIN_FILENO)
				return 0;
			if (unsent[fd].data) {
				on_writable(ep, fd);
				continue;
			}
			ssize_t got = recv(fd, input[count], PIECE, 0);
			if (got > 0) {
				batch[count++] = (struct taken){fd, got};
				if (count == BATCH) {
					answer(ep, batch, count);
					count = 0;
				}
			} else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
				drop(fd);
			}
		}
		answer(ep, batch, count);
	}
}
