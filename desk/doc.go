// Package desk is a customer-service chat server on the eddy engine: one process, one data directory, pages, JSON
// API and WebSocket on one port. Open prepares the data, Start serves, Shutdown ends without losing anything.
package desk
