// Package lease runs work that only one of several servers may do, on the server that holds its name in the store.
//
//	hold := lease.Options{Store: db}.Hold("mail")
//	hold(ctx, func(ctx context.Context) { ... })
//
// What a server writes with the context of its work is refused once another server has the name (store.Lease).
package lease
