// Package buf holds the byte memory of a loop: pooled segments for queues and leftovers, messages that borrow memory
// until they are detached, counted buffers for what several goroutines hold, and composites that join runs of bytes
// without copying them. docs/buffers.md says who owns what when.
//
// A Pool with its segments, and a Composite, belong to one goroutine at a time; nothing in them locks. A SharedPool and
// its buffers may be used by any. Leaks finds counted buffers and segments that were dropped without their release.
//
// Built with the tag eddydebug the package overwrites released memory, checks on reuse that nobody wrote to it in between,
// and knows whether an adopted slice was changed.
package buf
