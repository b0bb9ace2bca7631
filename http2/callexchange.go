package http2

import (
	"context"
	"io"
	"net/http"
	"net/netip"

	"golang.org/x/net/http2/hpack"
)

// Exchange is a request and its response as a Call sees them. One goroutine may read the body while another one writes the
// response. After Serve has returned nothing of it may be used.
type Exchange exchange

// serve runs the Call of a request, or refuses it when too many wait.
func (ex *exchange) serve() {
	x, out := (*Exchange)(ex), &ex.st.out
	if ex.place.Crowded() {
		ex.st.sc.f.stats.busy.Add(1)
		if out.take(handler) {
			head, body := ex.st.sc.f.busy(ex.st)
			out.head(head)
			out.end(body, nil, nil)
		}
		return
	}
	ex.call.Serve(x)
	out.finish()
}

// Context returns the context of the request. It ends with the request: when Serve returns, when the client resets the
// request, at its deadline, and with the connection.
func (x *Exchange) Context() context.Context { return &x.ctx }

// Peer returns the client's address.
func (x *Exchange) Peer() netip.AddrPort { return x.ctx.Conn.RemoteAddr() }

// Whole returns the body of a request with Route.Await.
func (x *Exchange) Whole() []byte {
	if x.body == nil {
		return nil
	}
	return x.body.whole
}

// Body returns the body of a request without Route.Await. While Read waits, others have the place in the pool.
func (x *Exchange) Body() io.Reader {
	if x.body == nil {
		return http.NoBody
	}
	return x.body
}

// Begin fixes the header section of the response: a status, Date and the fields, whose names are in lower case. It goes out
// with the first Flush or with End. Begin returns the error of a request that is over.
func (x *Exchange) Begin(status int, fields ...hpack.HeaderField) error {
	out := &x.st.out
	if !out.take(handler) {
		return out.failure()
	}
	f := x.st.sc.f
	f.countStatus(status)
	h := f.newFields()
	h.list = append(append(h.list[:0], hpack.HeaderField{Name: ":status", Value: statusText(status)}, hpack.HeaderField{Name: "date", Value: x.st.sc.dateText()}), fields...)
	out.head(h)
	return nil
}

// Give adds p, all or most of the body, to the response. p belongs to the Exchange from then on. It goes out with End. The
// error says why the request is over.
func (x *Exchange) Give(p []byte) error { return x.st.out.add(p) }

// Send adds a copy of p to the body of the response and sends what there is. The response is a stream from then on, so the
// Call gives up its place in the pool. Send waits while as much as Options.ResponseBuffer is on its way. The error says why
// the request is over.
func (x *Exchange) Send(p []byte) error {
	if !x.streams {
		x.streams = true
		x.place.Quit()
	}
	out := &x.st.out
	full, err := out.send(p)
	for full && err == nil {
		x.st.sc.post(x.st)
		if err = out.await(nil, &x.place); err == nil {
			full, err = out.send(p)
		}
	}
	x.st.sc.post(x.st)
	return err
}

// End ends the response, with a trailer if there are fields, whose names are in lower case. A response without End is reset.
func (x *Exchange) End(fields ...hpack.HeaderField) {
	if len(fields) == 0 {
		x.st.out.end(nil, nil, nil)
		return
	}
	trailer := x.st.sc.f.newFields()
	trailer.list = append(trailer.list[:0], fields...)
	x.st.out.end(nil, nil, trailer)
}
