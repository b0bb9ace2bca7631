// Package sdnotify tells the service manager that started the program about its state. It is sd_notify(3) of systemd,
// without its library.
package sdnotify

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Ready and Stopping are states for Manager.Tell (sd_notify(3)).
const (
	Ready    = "READY=1"
	Stopping = "STOPPING=1"
	alive    = "WATCHDOG=1"
)

// tellWithin is how long a message may wait because the manager has not read earlier ones. A server does not wait
// longer, least of all to stop.
const tellWithin = 2 * time.Second

// Manager is the service manager. A nil Manager, where there is no service manager, is told nothing. Any goroutine.
type Manager struct {
	addr     *net.UnixAddr
	watchdog time.Duration // how long the manager waits for a sign of life, 0 = it waits for none
}

// FromEnv finds the manager in the environment of the process pid, nil if there is none.
func FromEnv(getenv func(string) string, pid int) *Manager {
	path := getenv("NOTIFY_SOCKET")
	if !strings.HasPrefix(path, "/") && !strings.HasPrefix(path, "@") { // "@" is the abstract namespace, which package net writes the same way
		return nil
	}
	m := &Manager{addr: &net.UnixAddr{Name: path, Net: "unixgram"}}
	usec, err := strconv.ParseUint(getenv("WATCHDOG_USEC"), 10, 53)
	if owner := getenv("WATCHDOG_PID"); err == nil && (owner == "" || owner == strconv.Itoa(pid)) {
		m.watchdog = time.Duration(usec) * time.Microsecond
	}
	return m
}

// Tell sends one state, and a line for "systemctl status" if status is not empty.
func (m *Manager) Tell(state, status string) error {
	if m == nil {
		return nil
	}
	c, err := net.DialUnix("unixgram", nil, m.addr)
	if err != nil {
		return fmt.Errorf("sdnotify: %w", err)
	}
	defer c.Close()
	if err := c.SetWriteDeadline(time.Now().Add(tellWithin)); err != nil {
		return fmt.Errorf("sdnotify: %w", err)
	}
	text := state
	if status != "" {
		text = strings.TrimPrefix(text+"\nSTATUS="+strings.ReplaceAll(status, "\n", " "), "\n")
	}
	if _, err := c.Write([]byte(text)); err != nil {
		return fmt.Errorf("sdnotify: %w", err)
	}
	return nil
}

// Watch gives a sign of life twice in the time that the manager waits for one, as long as check returns nil. Otherwise
// it tells the manager why not. Watch does nothing if the manager waits for none. stop ends the signs and returns when
// they have ended.
func (m *Manager) Watch(check func(context.Context) error, report func(error)) (stop func()) {
	if m == nil || m.watchdog <= 0 {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() {
		every := time.NewTicker(m.watchdog / 2)
		defer every.Stop()
		for {
			m.look(ctx, check, report)
			select {
			case <-ctx.Done():
				return
			case <-every.C:
			}
		}
	})
	return func() {
		cancel()
		done.Wait()
	}
}

// look checks once and tells the manager the result.
func (m *Manager) look(ctx context.Context, check func(context.Context) error, report func(error)) {
	once, cancel := context.WithTimeout(ctx, m.watchdog/2)
	defer cancel()
	err := check(once)
	switch {
	case ctx.Err() != nil: // stopped meanwhile
		return
	case err == nil:
		err = m.Tell(alive, "")
	default:
		report(err)
		err = m.Tell("", "no sign of life: "+err.Error())
	}
	if err != nil {
		report(err)
	}
}
