// Command plain is shout without Eddy: package net, a goroutine for each connection, and bounds. docs/when-not.md says when this is enough. Try it
// with: nc 127.0.0.1 7000
package main

import (
	"bufio"
	"bytes"
	"log"
	"net"
	"time"
)

// serve answers the lines of each connection until the listener is closed. It serves at most most connections at once.
func serve(ln net.Listener, most int, idle time.Duration) error {
	room := make(chan struct{}, most)
	for {
		room <- struct{}{} // wait for room before accepting; other connections wait in the kernel's queue
		c, err := ln.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer func() {
				_ = c.Close()
				<-room
			}()
			_ = shout(c, idle) // the error of one connection does not matter here
		}()
	}
}

func shout(c net.Conn, idle time.Duration) error {
	lines := bufio.NewScanner(c)
	lines.Buffer(nil, 1024) // the longest line
	for {
		if err := c.SetDeadline(time.Now().Add(idle)); err != nil { // for reading the line and writing the answer
			return err
		}
		if !lines.Scan() {
			return lines.Err()
		}
		if _, err := c.Write(append(bytes.ToUpper(lines.Bytes()), '\n')); err != nil {
			return err
		}
	}
}

func main() {
	ln, err := net.Listen("tcp", "127.0.0.1:7000")
	if err == nil {
		err = serve(ln, 1000, time.Minute)
	}
	log.Fatal(err)
}
