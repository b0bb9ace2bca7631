package http2

import (
	"golang.org/x/net/http2/hpack"
)

// headerReader collects and decodes the header section that is under way.
type headerReader struct {
	opts *Options
	dec  *hpack.Decoder

	open  bool // more of it must come
	frame      // the HEADERS frame that began it
	self  bool // its stream depends on itself
	block []byte

	fields []hpack.HeaderField
	size   int
	large  bool // over MaxHeaderBytes or MaxHeaderCount
}

func (h *headerReader) init(o *Options) {
	h.opts = o
	h.dec = hpack.NewDecoder(maxTable, h.add)
	// A longer string cannot come out of a section within the bound of onHeaders: the shortest code has 5 bits.
	h.dec.SetMaxStringLength(4 * o.MaxHeaderBytes)
}

// add takes a decoded field.
func (h *headerReader) add(f hpack.HeaderField) {
	h.size += int(f.Size())
	if h.size > h.opts.MaxHeaderBytes || len(h.fields) >= h.opts.MaxHeaderCount {
		h.large = true // the rest is decoded for the table alone
		return
	}
	h.fields = append(h.fields, f)
}

// A section over the limit is decoded to its end, so that it can be answered: later ones build on the table. One byte may stand
// for 4 KiB, so decoding ends where a section is bombFactor times the limit; pieces of sectionPiece bytes are looked at.
const (
	bombFactor   = 8
	sectionPiece = 1 << 10
)

// decode decodes a whole section.
func (h *headerReader) decode(block []byte) *ConnError {
	clear(h.fields)
	h.fields, h.size, h.large = h.fields[:0], 0, false
	for len(block) > 0 {
		piece := block[:min(len(block), sectionPiece)]
		block = block[len(piece):]
		if _, err := h.dec.Write(piece); err != nil {
			return connError(CodeCompression, "%v", err)
		}
		if most := h.opts.MaxHeaderBytes; h.size/bombFactor > most {
			return connError(CodeEnhanceYourCalm, "a decoded header section of more than %d times the limit of %d bytes", bombFactor, most)
		}
	}
	if err := h.dec.Close(); err != nil {
		return connError(CodeCompression, "%v", err)
	}
	return nil
}

// tinyFragment is the length below which a CONTINUATION frame counts as a flood.
const tinyFragment = 1 << 10

// onHeaders begins a header section (RFC 9113 section 6.2).
func (sc *serverConn) onHeaders(f frame, p []byte) *ConnError {
	if f.stream%2 == 0 {
		return connError(CodeProtocol, "HEADERS on stream %d", f.stream)
	}
	block, self, err := f.unpad(p)
	if err != nil {
		return err
	}
	h := &sc.headers
	h.frame, h.self = f, self
	if f.has(flagEndHeaders) {
		return sc.section(block)
	}
	h.open = true
	h.block = append(h.block[:0], block...)
	sc.watch.sectionFrom(sc)
	return nil
}

// onContinuation goes on with a header section (RFC 9113 section 6.10).
func (sc *serverConn) onContinuation(f frame, p []byte) *ConnError {
	h := &sc.headers
	if !h.open {
		return connError(CodeProtocol, "CONTINUATION outside a header section")
	}
	if len(p) < tinyFragment && !f.has(flagEndHeaders) {
		if err := sc.charge("small CONTINUATION frames"); err != nil {
			return err
		}
	}
	if most := 2 * sc.f.opts.MaxHeaderBytes; len(h.block)+len(p) > most {
		return connError(CodeEnhanceYourCalm, "a header section of more than %d bytes", most)
	}
	h.block = append(h.block, p...)
	if !f.has(flagEndHeaders) {
		return nil
	}
	h.open = false
	err := sc.section(h.block)
	if cap(h.block) > maxFrame {
		h.block = nil
	}
	return err
}

// section takes a whole header section: that of a request, or a trailer.
func (sc *serverConn) section(block []byte) *ConnError {
	h := &sc.headers
	if most := 2 * sc.f.opts.MaxHeaderBytes; len(block) > most {
		return connError(CodeEnhanceYourCalm, "a header section of %d bytes, limit %d", len(block), most)
	}
	if err := h.decode(block); err != nil {
		return err
	}
	id := h.stream
	if st := sc.streams[id]; st != nil {
		return sc.onTrailer(st)
	}
	if id <= sc.lastID {
		if sc.unheard(id) {
			return nil
		}
		return connError(CodeStreamClosed, "HEADERS on the closed stream %d", id)
	}
	sc.lastID = id
	if id > sc.finalID { // the client has been told that it is not taken
		sc.f.stats.refused.Add(1)
		return nil
	}
	return sc.onRequest(id, h.has(flagEndStream))
}

// onTrailer ends the body of a request by its trailer section (RFC 9113 section 8.1).
func (sc *serverConn) onTrailer(st *stream) *ConnError {
	h := &sc.headers
	switch {
	case st.recvEnd:
		return sc.reset(st, CodeStreamClosed, "a header section behind the end of the request")
	case !h.has(flagEndStream):
		return sc.reset(st, CodeProtocol, "a trailer section that does not end the request")
	case h.self:
		return sc.reset(st, CodeProtocol, "a stream that depends on itself")
	case h.large:
		return sc.reset(st, CodeEnhanceYourCalm, "the trailer section is too large")
	}
	if bad := checkTrailer(h.fields); bad != "" {
		return sc.reset(st, CodeProtocol, bad)
	}
	return sc.bodyEnd(st, headerOf(h.fields))
}
