package eddy

import (
	"errors"
	"fmt"
	"math"

	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/internal/meter"
	"github.com/go-eddy/eddy/internal/sys"
)

var (
	errIncomplete = errors.New("eddy: the peer closed inside a request")
	errPhase      = errors.New("eddy: impossible phase transition")
)

// readReady reads what the kernel has, within the budgets, and decodes it.
func (c *Conn) readReady(ready sys.Ready) {
	failed := ready&(sys.Hangup|sys.Failed) != 0 && !c.hungUp(ready)
	switch {
	case c.has(lingering):
		c.discardInput()
		return
	case failed && c.phase < PhaseClosing && (c.has(inputEnded) || c.readPaused()): // no read would notice the failure
		c.ioFailed("poll", errPeerGone)
		return
	case c.phase >= PhaseClosing || c.has(inputEnded) || c.readPaused():
		c.raise(heldBack)
		c.setInterest(c.interest &^ sys.Read)
		return
	case c.framesInHand(): // frames in hand precede the kernel's bytes and the peer's end
		c.markReady()
		return
	case c.has(ample) && c.spliced():
		return
	}
	c.beginTurn()
	c.readLoop(readCallBudget, 0)
}

// beginTurn gives a connection its share of an iteration: frameBudget frames and turnTime.
func (c *Conn) beginTurn() {
	c.frames = frameBudget
	c.loop.inHand.turn = 0
}

// Frames after which turnTime is looked at: every eighth one, and those of turnBytes and more. An event with one short frame
// does not read the clock.
const (
	turnFrames = 8
	turnBytes  = 1 << 10
)

// lookAtTurn follows a frame of n bytes, and ends a turn that has lasted for turnTime.
func (c *Conn) lookAtTurn(n int) {
	if n < turnBytes && c.frames%turnFrames != 0 {
		return
	}
	l := c.loop
	switch now := l.Clock.Now(); {
	case l.inHand.turn == 0:
		l.inHand.turn = now
	case now-l.inHand.turn >= int64(turnTime) && c.phase < PhaseClosing: // a connection that lingers counts something else
		c.frames = 0
	}
}

// readLoop reads and decodes, at most calls times and up to readByteBudget bytes, of which total were read before.
func (c *Conn) readLoop(calls, total int) {
	l := c.loop
	for range calls {
		held := c.in.Stage(l.mem.segments, l.mem.scratch)
		space := l.mem.scratch[held:]
		if c.in.Held() {
			space = c.in.Free()
		}
		space = space[:min(len(space), readByteBudget-total)]
		n, err := l.sock.Read(c.fd, space)
		if n <= 0 || err != nil {
			if held > 0 {
				c.in.Keep(l.mem.segments, l.mem.scratch[:held])
			}
			c.readEnded(err)
			return
		}
		c.received(n)
		if c.in.Held() {
			c.in.Commit(n)
			c.decodeStored()
		} else {
			c.decodeScratch(l.mem.scratch[:held+n])
		}
		total += n
		if n < len(space) || total >= readByteBudget || !c.mayReadOn() {
			c.noteBulk(total)
			return
		}
	}
}

// readMore goes on reading after a batched read that filled its room.
func (c *Conn) readMore(total int) {
	c.raise(bulk)
	if c.mayReadOn() {
		c.readLoop(readCallBudget-1, total)
	}
}

// noteBulk remembers whether one event brought more than a batch has room for, and whether it was ample.
func (c *Conn) noteBulk(total int) {
	c.clear(bulk | ample)
	if total >= batchRead {
		c.raise(bulk)
	}
	if total >= spliceFrom {
		c.raise(ample)
	}
}

// mayReadOn reports whether the connection takes more bytes in this iteration.
func (c *Conn) mayReadOn() bool {
	return c.phase < PhaseClosing && !c.framesInHand() && !c.readPaused()
}

// received counts a read.
func (c *Conn) received(n int) {
	c.lastActive = c.loop.Now
	c.loop.Counters[meter.BytesIn] += uint64(n)
}

// framesInHand reports whether bytes wait undecoded because of a pause or a budget.
func (c *Conn) framesInHand() bool {
	return c.in.Held() && !c.has(partial) || c.paused&pauseInner != 0
}

// readEnded handles a read that brought no bytes.
func (c *Conn) readEnded(err error) {
	switch {
	case err == nil:
		c.inputClosed()
	case err != sys.ErrAgain: //nolint:errorlint // pre-allocated sentinel of the hot path
		c.ioFailed("read", err)
	}
}

// inputClosed handles the peer's end of stream, which ends the connection unless the server allows half-close. Bytes
// queued already belong to earlier requests and are sent, even if the end came inside a frame. With half-close all are
// sent, otherwise those that the kernel takes at once.
func (c *Conn) inputClosed() {
	c.raise(inputEnded)
	c.stopClock()
	if c.has(partial) || c.innerShort() {
		c.raise(cutShort)
	}
	if c.endDecoders() {
		c.inputDone()
	}
}

// inputOver is inputClosed for an end of stream that a handler's own protocol declares.
func (c *Conn) inputOver() {
	c.raise(inputEnded)
	c.stopClock()
	if c.innerShort() {
		c.raise(cutShort)
	}
	c.inputDone()
}

func (c *Conn) inputDone() {
	if !c.set.halfClose {
		c.flush()
		c.peerEnded()
		return
	}
	if c.has(cutShort) {
		c.dropInput()
	}
	c.mark(watchIdle)
	c.fireEventFromHead(InputClosedEvent{})
	if c.has(outputEnded) && c.phase < PhaseClosing {
		c.peerEnded()
	}
	c.checkHalfClosed()
	c.setInterest(c.interest &^ sys.Read) // last, for most have ended now
}

// peerEnded closes a connection whose peer has ended its side and is sent nothing more.
func (c *Conn) peerEnded() {
	reason, err := ClosePeerClosed, error(nil)
	if c.has(cutShort) {
		reason, err = CloseIncompleteRequest, errIncomplete
	}
	if c.sayFarewell(reason) && c.phase < PhaseClosing {
		c.flush()
	}
	c.beginClose(reason, err)
}

// checkHalfClosed ends a half-closed connection when nothing is left to answer and no close was requested.
func (c *Conn) checkHalfClosed() {
	if c.has(inputEnded) && c.phase < PhaseClosing && c.idle() && c.closeRequested() == nil {
		c.peerEnded()
	}
}

// dropInput gives back bytes that will not be decoded.
func (c *Conn) dropInput() {
	c.dropInner()
	c.in.Drop(c.loop.mem.segments)
}

// decodeScratch decodes bytes in the loop's shared memory and keeps what is left over.
func (c *Conn) decodeScratch(view []byte) {
	rest := c.decode(view)
	if len(rest) > 0 && c.phase < PhaseClosing {
		c.in.Keep(c.loop.mem.segments, rest)
	}
	buf.Poison(view)
}

// decodeStored decodes the leftover.
func (c *Conn) decodeStored() {
	view := c.in.Bytes()
	rest := c.decode(view)
	if c.phase < PhaseClosing { // otherwise the close drops it
		c.in.Consume(c.loop.mem.segments, len(view)-len(rest))
	}
}

// decode hands view to the decoder frame by frame. Decoding stops when the decoder asks for more, the frame budget is
// used up, reads are paused or the connection ends. The result is what was not consumed.
func (c *Conn) decode(view []byte) []byte {
	c.clear(partial)
	for len(view) > 0 {
		c.countAnswers()
		switch {
		case c.phase >= PhaseClosing:
			return nil
		case c.paused != 0 || c.shows(appPaused):
			if c.readPaused() {
				c.raise(heldBack)
			}
			return view
		case c.frames <= 0:
			c.markReady()
			return view
		}
		c.frames--
		n, again := c.decodeFirst(view)
		c.loop.traceOver()
		if n == 0 && !again {
			if c.awaitsRest() {
				c.raise(partial)
			}
			return view
		}
		buf.Poison(view[:n])
		c.lookAtTurn(n)
		if c.clock != 0 {
			c.frameComplete()
		}
		view = view[n:]
	}
	return nil
}

// decodeFirst gives the first handler one message's bytes. All bytes go to a handler that is no decoder, or to a decoder
// with bytes left from when it was further down the pipeline.
func (c *Conn) decodeFirst(view []byte) (n int, again bool) {
	ctx := c.head
	if ctx != nil && ctx.node.decoder != nil && !(c.shows(rewired) && c.holdsInner(ctx)) {
		return c.decodeOne(ctx, view)
	}
	c.loop.out.borrowed.Reset(view)
	c.beginDispatch()
	c.fireReadFromHead(&c.loop.out.borrowed)
	c.settle()
	return len(view), false
}

// decodeOne consumes one message. again tells the caller to go on although nothing was consumed, because the decoder was
// replaced.
func (c *Conn) decodeOne(ctx *Context, view []byte) (n int, again bool) {
	l := c.loop
	if c.phase == PhaseWaitingForResponse && c.counts.inflight.Load() == 0 {
		c.setPhase(PhaseReadingHeader)
	}
	prev, fired := l.inHand.ctx, l.Counters[meter.Messages]
	l.inHand.ctx = ctx
	n, err := ctx.node.decoder.Decode(ctx, view)
	l.inHand.ctx = prev
	if n < 0 || n > len(view) {
		err = fmt.Errorf("eddy: decoder %q consumed %d of %d bytes", ctx.node.name, n, len(view))
	}
	if err != nil {
		ctx.fireErrorFrom(ctx, err, true)
		return 0, false
	}
	if n > 0 {
		c.settle()
	}
	if n == 0 && l.Counters[meter.Messages] != fired && c.phase < PhaseClosing && !ctx.removed() {
		ctx.logStill()
	}
	return n, n == 0 && ctx.removed()
}

// beginDispatch notes that a message is on its way to its handler.
func (c *Conn) beginDispatch() {
	c.loop.Counters[meter.Messages]++
	if c.phase <= PhaseReadingBody {
		c.setPhase(PhaseDispatching)
	}
}

// settle moves on from PhaseDispatching once the handlers on the loop have returned.
func (c *Conn) settle() {
	if c.has(timed | asked) {
		c.messageDone()
	}
	if c.phase != PhaseDispatching {
		return
	}
	if c.counts.inflight.Load() > 0 {
		c.setPhase(PhaseWaitingForResponse)
	} else {
		c.setPhase(PhaseReadingHeader)
	}
}

// resumeDecode continues with frames in hand and then with reading.
func (c *Conn) resumeDecode() {
	if c.phase >= PhaseClosing || c.readPaused() {
		return
	}
	if c.has(heldBack) {
		c.readsResumed()
	}
	if c.paused&pauseInner != 0 && !c.resumeInner() {
		return
	}
	if c.in.Held() {
		c.decodeStored()
	}
	if c.phase < PhaseClosing && !c.has(inputEnded|listedReady) && !c.readPaused() {
		c.setInterest(c.interest | sys.Read)
	}
}

// What a connection that lingers drops is counted in pieces of lingerPiece bytes, each read to the nearest. At most lingerPieces
// are dropped, which is 2 MiB. Short reads, as of a peer far away, do not count.
const (
	lingerPiece  = 16 << 10
	lingerPieces = math.MaxInt8
)

// discardInput reads and drops what the peer still sends while the connection lingers. A peer that sends more does not read:
// there is no use in waiting for it.
func (c *Conn) discardInput() {
	l := c.loop
	for range readCallBudget {
		n, err := l.sock.Read(c.fd, l.mem.scratch)
		if err == sys.ErrAgain { //nolint:errorlint // pre-allocated sentinel of the hot path
			return
		}
		if n > 0 {
			c.frames -= int8((n + lingerPiece/2) / lingerPiece)
		}
		if n <= 0 || err != nil || c.frames < 0 {
			c.kill()
			return
		}
		if n < len(l.mem.scratch) {
			return
		}
	}
}
