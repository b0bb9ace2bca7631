// Package buf holds the byte memory of loops. docs/buffers.md says who owns what when.
//
//   - Pool hands out segments, the pooled memory of queues and leftovers.
//   - Bytes is a message that borrows memory until it is detached.
//   - Shared is a counted buffer that several goroutines can hold; it comes from a SharedPool.
//   - Composite joins runs of bytes without copying them.
//   - Leaks finds counted buffers and segments that were dropped without their release.
//
// A Pool with its segments, and a Composite, belong to one goroutine at a time; nothing in them locks. Any goroutine may
// use a SharedPool and its buffers.
//
// Built with the tag eddydebug, the package overwrites released memory and checks on reuse that nobody wrote to it in
// between. It then also knows whether an adopted slice was changed.
package buf
