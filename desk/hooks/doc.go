// Package hooks tells programs what happens: it sends the rows of the outbox to webhooks, and keeps the outbox small.
package hooks
