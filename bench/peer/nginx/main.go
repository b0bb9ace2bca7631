// Command nginx runs nginx with one worker, which serves the files of a directory, until the driver ends the standard input.
package main

import (
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

const configuration = `
daemon off;
user root;
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
	if err := run(*files, *work); err != nil {
		log.Fatalf("nginx: %v", err)
	}
}

func run(files, work string) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	addr := l.Addr().String() // a port that is free, and will be for the moment until nginx has it
	if err := l.Close(); err != nil {
		return err
	}
	conf := filepath.Join(work, "nginx.conf")
	if err := os.WriteFile(conf, fmt.Appendf(nil, configuration, work, addr, files), 0o666); err != nil {
		return err
	}
	cmd := exec.Command("nginx", "-p", work, "-c", conf)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return err
	}
	left := make(chan error, 1)
	go func() { left <- cmd.Wait() }()
	worker, err := ready(cmd.Process.Pid, addr, left)
	if err == nil {
		fmt.Println("process", worker)
		fmt.Println("listening", addr)
		io.Copy(io.Discard, os.Stdin)
	}
	cmd.Process.Signal(syscall.SIGTERM)
	if err != nil {
		return err
	}
	return <-left
}

// ready waits until nginx takes connections, and returns its worker.
func ready(master int, addr string, left chan error) (worker int, err error) {
	for range 1000 {
		select {
		case err := <-left:
			return 0, fmt.Errorf("it left before it listened: %w", err)
		case <-time.After(10 * time.Millisecond):
		}
		c, err := net.Dial("tcp", addr)
		if err != nil {
			continue
		}
		c.Close()
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", master, master))
		if err != nil {
			return 0, err
		}
		if _, err := fmt.Sscan(string(text), &worker); err == nil {
			return worker, nil
		}
	}
	return 0, fmt.Errorf("nothing listens on %s", addr)
}
