// Package reactor runs an event loop: one goroutine with one poller that waits for readiness, runs tasks that other
// goroutines submit, and fires timers. A Loop knows neither sockets nor connections. What lives on it is a Resident, which
// the loop calls once per phase of an iteration and once per task.
//
// loop.go has the iteration from top to bottom. Each part stands in a file of its own: queue.go the tasks that wait and
// tasks.go how many of them run, wait.go the poll and the sleep, descriptor.go what is registered with the poller, timer.go
// the timers, repair.go a poller that fails, lag.go and watchdog.go how late the loop is and whether it is stuck.
package reactor
