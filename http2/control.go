package http2

import (
	"encoding/binary"
)

// This file handles the frames that are about the connection, and those that steer a stream.

func appendWindowUpdate(b []byte, stream uint32, n int) []byte {
	return binary.BigEndian.AppendUint32(appendFrame(b, 4, frameWindowUpdate, 0, stream), uint32(n))
}

func appendReset(b []byte, stream uint32, code ErrCode) []byte {
	return binary.BigEndian.AppendUint32(appendFrame(b, 4, frameReset, 0, stream), uint32(code))
}

func appendGoAway(b []byte, last uint32, code ErrCode, text string) []byte {
	b = appendFrame(b, 8+len(text), frameGoAway, 0, 0)
	b = binary.BigEndian.AppendUint32(b, last)
	b = binary.BigEndian.AppendUint32(b, uint32(code))
	return append(b, text...)
}

// onSettings applies the client's settings and acknowledges them (RFC 9113 section 6.5).
func (sc *serverConn) onSettings(f frame, p []byte) *ConnError {
	switch {
	case f.stream != 0:
		return connError(CodeProtocol, "SETTINGS on stream %d", f.stream)
	case f.has(flagAck) && len(p) > 0, len(p)%6 != 0:
		return connError(CodeFrameSize, "SETTINGS of %d bytes", len(p))
	}
	if err := sc.charge("SETTINGS frames"); err != nil || f.has(flagAck) {
		return err
	}
	for ; len(p) > 0; p = p[6:] {
		if err := sc.setting(binary.BigEndian.Uint16(p), binary.BigEndian.Uint32(p[2:])); err != nil {
			return err
		}
	}
	sc.control(appendFrame(nil, 0, frameSettings, flagAck, 0))
	sc.pump()
	return nil
}

func (sc *serverConn) setting(id uint16, value uint32) *ConnError {
	switch id {
	case settingTableSize:
		sc.out.resizeTable(min(value, maxTable))
	case settingPush, settingConnectProtocol:
		if value > 1 {
			return connError(CodeProtocol, "setting %d is %d: want 0 or 1", id, value)
		}
	case settingMaxFrame:
		if value < maxFrame || value > 1<<24-1 {
			return connError(CodeProtocol, "SETTINGS_MAX_FRAME_SIZE is %d: want %d to %d", value, maxFrame, 1<<24-1)
		}
	case settingWindow:
		if value > maxWindow {
			return connError(CodeFlowControl, "SETTINGS_INITIAL_WINDOW_SIZE is %d, limit %d", value, maxWindow)
		}
		return sc.resizeWindows(int(value))
	}
	return nil
}

// resizeWindows moves the windows of all open streams by the change of the initial one (RFC 9113 section 6.9.2).
func (sc *serverConn) resizeWindows(initial int) *ConnError {
	change := initial - sc.out.initial
	sc.out.initial = initial
	for st := range sc.inOrder() {
		if st.window += change; st.window > maxWindow {
			return connError(CodeFlowControl, "SETTINGS make the window of stream %d larger than %d", st.id, maxWindow)
		}
		if change > 0 {
			sc.offer(st)
		}
	}
	return nil
}

// onPing answers a PING (RFC 9113 section 6.7).
func (sc *serverConn) onPing(f frame, p []byte) *ConnError {
	switch {
	case f.stream != 0:
		return connError(CodeProtocol, "PING on stream %d", f.stream)
	case len(p) != 8:
		return connError(CodeFrameSize, "PING of %d bytes", len(p))
	}
	if err := sc.charge("PING frames"); err != nil || f.has(flagAck) {
		return err
	}
	sc.control(append(appendFrame(make([]byte, 0, frameHeaderLen+8), 8, framePing, flagAck, 0), p...))
	return nil
}

// onGoAway notes that the client will open no more streams. Those that are open go on (RFC 9113 section 6.8).
func (sc *serverConn) onGoAway(f frame, p []byte) *ConnError {
	switch {
	case f.stream != 0:
		return connError(CodeProtocol, "GOAWAY on stream %d", f.stream)
	case len(p) < 8:
		return connError(CodeFrameSize, "GOAWAY of %d bytes", len(p))
	}
	sc.leaving = true
	sc.leave()
	return sc.charge("GOAWAY frames")
}

// onWindowUpdate opens a window for responses (RFC 9113 section 6.9).
func (sc *serverConn) onWindowUpdate(f frame, p []byte) *ConnError {
	if len(p) != 4 {
		return connError(CodeFrameSize, "WINDOW_UPDATE of %d bytes", len(p))
	}
	n := int(binary.BigEndian.Uint32(p) & (1<<31 - 1))
	if err := sc.charge("WINDOW_UPDATE frames"); err != nil {
		return err
	}
	if f.stream == 0 {
		switch sc.out.window += n; {
		case n == 0:
			return connError(CodeProtocol, "WINDOW_UPDATE of the connection by 0")
		case sc.out.window > maxWindow:
			return connError(CodeFlowControl, "the window of the connection grows to %d, limit %d", sc.out.window, maxWindow)
		}
		sc.unstarve()
		sc.pump()
		return nil
	}
	st := sc.streams[f.stream]
	if st == nil {
		if err := sc.onPast(f); err != nil || n > 0 {
			return err
		}
		return sc.resetID(f.stream, CodeProtocol, "WINDOW_UPDATE by 0")
	}
	switch st.window += n; {
	case n == 0:
		return sc.reset(st, CodeProtocol, "WINDOW_UPDATE by 0")
	case st.window > maxWindow:
		return sc.reset(st, CodeFlowControl, "the window of the stream is larger than 2^31-1")
	}
	sc.offer(st)
	sc.pump()
	return nil
}

// onPast handles a frame for a stream that is not open. One that was never opened is an error of the connection (RFC 9113
// section 5.1); for others, frames may have been on their way.
func (sc *serverConn) onPast(f frame) *ConnError {
	if f.stream > sc.lastID || f.stream%2 == 0 {
		return connError(CodeProtocol, "a frame of type %d on the idle stream %d", f.typ, f.stream)
	}
	return nil
}

// unheard reports whether frames of a stream that is not open are ignored. It is one that this side has reset, or that came
// behind the last one that is taken.
func (sc *serverConn) unheard(id uint32) bool { return id > sc.finalID || sc.past.has(id) }

// onReset handles the client's end of a stream (RFC 9113 section 6.4).
func (sc *serverConn) onReset(f frame, p []byte) *ConnError {
	switch {
	case f.stream == 0:
		return connError(CodeProtocol, "RST_STREAM without a stream")
	case len(p) != 4:
		return connError(CodeFrameSize, "RST_STREAM of %d bytes", len(p))
	}
	if err := sc.charge("RST_STREAM frames"); err != nil {
		return err
	}
	st := sc.streams[f.stream]
	if st == nil {
		sc.past.forget(f.stream) // the client knows that it is over
		return sc.onPast(f)
	}
	sc.f.stats.resets.Add(1)
	sc.close(st, &StreamError{Stream: st.id, Code: ErrCode(binary.BigEndian.Uint32(p)), Remote: true})
	return nil
}

// onPriority checks and ignores the priorities that RFC 9113 section 5.3.2 has dropped.
func (sc *serverConn) onPriority(f frame, p []byte) *ConnError {
	if f.stream == 0 {
		return connError(CodeProtocol, "PRIORITY without a stream")
	}
	if err := sc.charge("PRIORITY frames"); err != nil {
		return err
	}
	switch {
	case len(p) != 5:
		return sc.resetID(f.stream, CodeFrameSize, "PRIORITY that is not 5 bytes long")
	case binary.BigEndian.Uint32(p)&(1<<31-1) == f.stream:
		return sc.resetID(f.stream, CodeProtocol, "a stream that depends on itself")
	}
	return nil
}

// onPriorityUpdate changes the priority of an open stream (RFC 9218 section 7.1). One that comes before its request is not
// kept.
func (sc *serverConn) onPriorityUpdate(f frame, p []byte) *ConnError {
	switch {
	case f.stream != 0:
		return connError(CodeProtocol, "PRIORITY_UPDATE on stream %d", f.stream)
	case len(p) < 4:
		return connError(CodeFrameSize, "PRIORITY_UPDATE of %d bytes", len(p))
	}
	if err := sc.charge("PRIORITY_UPDATE frames"); err != nil {
		return err
	}
	id := binary.BigEndian.Uint32(p) & (1<<31 - 1)
	if id == 0 {
		return connError(CodeProtocol, "PRIORITY_UPDATE of stream 0")
	}
	if st := sc.streams[id]; st != nil {
		sc.out.remove(st)
		st.prioritize(string(p[4:]))
		sc.offer(st)
		sc.pump()
	}
	return nil
}
