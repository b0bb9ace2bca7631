// Package hub is the heart of Desk. It knows who is connected, runs commands on one lane per conversation, and tells
// everybody concerned what has been committed, in order.
//
// # What runs where
//
// Session.Receive runs on the connection's loop: it decodes, checks shape, size and rate, and never blocks. A change goes
// to the lane of its conversation, a serial executor that hands it to the store and holds no worker until the commit.
// Reads of customers and of staff run on two separate pools. Fan-out runs on the goroutine on which the store tells its
// feed, in commit order.
//
// # The feed
//
// What the hub knows of conversations and of the names of contacts, and what it tells of them, comes from the store's feed
// (store.Feed), whoever has committed it. The outcome of a command only answers that command, when the hub's memory has the
// change and before others are told. Parts that are missing are read again (store.FeedReader). If their rows are gone, the open
// conversations are read, and the sessions end and resume by the numbers that they have. Heads that were read may be newer
// than the part that they came with: an older one never replaces a newer one.
//
// The accounts, groups and sites, who is there, and the ends of erased and merged contacts do not come from the feed.
//
// # Locks
//
// Hub.mu guards two parts, sessions and queue, and is held in their methods. It is taken before Session.mu. Nothing is
// sent to a connection while Hub.mu is held.
package hub
