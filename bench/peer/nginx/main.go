// Command nginx becomes nginx, as one process that serves the files of a directory. The process listens before it becomes
// nginx, and nginx takes over the socket, so that the driver knows the address at once.
package main

import (
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/sys/unix"
)

const configuration = `
daemon off;
master_process off;
worker_processes 1;
pid %[1]s/nginx.pid;
error_log stderr crit;
events { worker_connections 4096; }
http {
	access_log off;
	sendfile on;
	tcp_nopush on;
	keepalive_requests 1000000000;
	keepalive_timeout 1h;
	client_body_temp_path %[1]s/body;
	proxy_temp_path %[1]s/proxy;
	fastcgi_temp_path %[1]s/fastcgi;
	uwsgi_temp_path %[1]s/uwsgi;
	scgi_temp_path %[1]s/scgi;
	server { listen %[2]s; root %[3]s; }
}
`

func main() {
	files := flag.String("files", "", "the directory whose files are served")
	work := flag.String("work", "", "a directory for nginx's own files")
	flag.Parse()
	log.Fatalf("nginx: %v", become(*files, *work)) // it returns only if it fails
}

func become(files, work string) error {
	program, err := exec.LookPath("nginx")
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	socket, err := l.(*net.TCPListener).File() // a descriptor that blocks and closes on exec
	if err != nil {
		return err
	}
	fd, err := unix.Dup(int(socket.Fd())) // one that stays open
	if err != nil {
		return err
	}
	conf := filepath.Join(work, "nginx.conf")
	if err := os.WriteFile(conf, fmt.Appendf(nil, configuration, work, l.Addr(), files), 0o666); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGTERM), 0, 0, 0); err != nil { // a killed driver leaves nothing behind
		return err
	}
	fmt.Println("listening", l.Addr())
	return unix.Exec(program, []string{"nginx", "-p", work, "-c", conf}, append(os.Environ(), fmt.Sprintf("NGINX=%d;", fd)))
}
