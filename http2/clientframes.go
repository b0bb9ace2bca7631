package http2

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
)

// This file handles the frames that are about a client's connection, and those that steer a stream.

// onSettings applies the server's settings and acknowledges them (RFC 9113 section 6.5). The first ones make the connection
// ready for requests.
func (cc *clientConn) onSettings(f frame, p []byte) *ConnError {
	switch {
	case f.stream != 0:
		return connError(CodeProtocol, "SETTINGS on stream %d", f.stream)
	case f.has(flagAck) && len(p) > 0, len(p)%6 != 0:
		return connError(CodeFrameSize, "SETTINGS of %d bytes", len(p))
	case f.has(flagAck) && !cc.peer.acked:
		cc.peer.acked = true
		return nil
	}
	if err := cc.charge("SETTINGS frames"); err != nil || f.has(flagAck) {
		return err
	}
	before := cc.peer.streams
	for ; len(p) > 0; p = p[6:] {
		if err := cc.setting(binary.BigEndian.Uint16(p), binary.BigEndian.Uint32(p[2:])); err != nil {
			return err
		}
	}
	cc.control(appendFrame(nil, 0, frameSettings, flagAck, 0))
	if a := cc.attempt; a != nil {
		cc.state, cc.attempt, cc.joined = stateFrames, nil, true
		cc.stopTimer()
		cc.t.made(a, cc, cc.peer.streams)
	} else if cc.peer.streams != before {
		cc.t.resized(cc, cc.peer.streams)
	}
	cc.pump()
	return nil
}

func (cc *clientConn) setting(id uint16, value uint32) *ConnError {
	switch id {
	case settingTableSize:
		cc.out.resizeTable(min(value, maxTable))
	case settingPush:
		if value != 0 {
			return connError(CodeProtocol, "SETTINGS_ENABLE_PUSH of a server is %d: want 0", value)
		}
	case settingMaxStreams:
		cc.peer.streams = int(min(value, mostStreams))
	case settingMaxHeaderList:
		cc.peer.header = int(min(value, math.MaxInt32))
	case settingConnectProtocol:
		if value > 1 || cc.peer.protocol && value == 0 {
			return connError(CodeProtocol, "SETTINGS_ENABLE_CONNECT_PROTOCOL is %d", value)
		}
		cc.peer.protocol = value == 1
	case settingMaxFrame:
		if value < maxFrame || value > 1<<24-1 {
			return connError(CodeProtocol, "SETTINGS_MAX_FRAME_SIZE is %d: want %d to %d", value, maxFrame, 1<<24-1)
		}
	case settingWindow:
		if value > maxWindow {
			return connError(CodeFlowControl, "SETTINGS_INITIAL_WINDOW_SIZE is %d, limit %d", value, maxWindow)
		}
		return cc.resizeWindows(int(value))
	}
	return nil
}

// resizeWindows moves the windows of all open streams by the change of the initial one (RFC 9113 section 6.9.2).
func (cc *clientConn) resizeWindows(initial int) *ConnError {
	change := initial - cc.out.initial
	cc.out.initial = initial
	for _, st := range cc.streams {
		if st.window += change; st.window > maxWindow {
			return connError(CodeFlowControl, "SETTINGS make the window of stream %d larger than %d", st.id, maxWindow)
		}
		if change > 0 {
			cc.offer(st)
		}
	}
	return nil
}

// onPing answers a PING, and takes the answer to ours (RFC 9113 section 6.7).
func (cc *clientConn) onPing(f frame, p []byte) *ConnError {
	switch {
	case f.stream != 0:
		return connError(CodeProtocol, "PING on stream %d", f.stream)
	case len(p) != 8:
		return connError(CodeFrameSize, "PING of %d bytes", len(p))
	case f.has(flagAck) && cc.watch.asked != 0 && string(p) == pingData:
		cc.watch.asked = 0
		return nil
	}
	if err := cc.charge("PING frames"); err != nil || f.has(flagAck) {
		return err
	}
	cc.control(append(appendFrame(make([]byte, 0, frameHeaderLen+8), 8, framePing, flagAck, 0), p...))
	return nil
}

// maxDebug bounds the text of a GOAWAY that an error shows.
const maxDebug = 128

// onGoAway lets the connection take no more requests. Those that the server has not processed are sent on another (RFC 9113
// section 6.8).
func (cc *clientConn) onGoAway(f frame, p []byte) *ConnError {
	switch {
	case f.stream != 0:
		return connError(CodeProtocol, "GOAWAY on stream %d", f.stream)
	case len(p) < 8:
		return connError(CodeFrameSize, "GOAWAY of %d bytes", len(p))
	}
	if err := cc.charge("GOAWAY frames"); err != nil {
		return err
	}
	cc.lastID = min(cc.lastID, binary.BigEndian.Uint32(p)&(1<<31-1))
	cc.away = fmt.Errorf("http2: the server goes away: %v %q", ErrCode(binary.BigEndian.Uint32(p[4:])), p[8:min(len(p), 8+maxDebug)])
	cc.t.retire(cc)
	for _, id := range slices.Sorted(maps.Keys(cc.streams)) {
		if st := cc.streams[id]; st != nil && (id > cc.lastID || !st.begun) {
			cc.end(st, cc.away, surely)
		}
	}
	cc.leave()
	return nil
}

// onWindowUpdate opens a window for requests (RFC 9113 section 6.9).
func (cc *clientConn) onWindowUpdate(f frame, p []byte) *ConnError {
	if len(p) != 4 {
		return connError(CodeFrameSize, "WINDOW_UPDATE of %d bytes", len(p))
	}
	n := int(binary.BigEndian.Uint32(p) & (1<<31 - 1))
	if err := cc.charge("WINDOW_UPDATE frames"); err != nil {
		return err
	}
	if f.stream == 0 {
		switch cc.out.window += n; {
		case n == 0:
			return connError(CodeProtocol, "WINDOW_UPDATE of the connection by 0")
		case cc.out.window > maxWindow:
			return connError(CodeFlowControl, "the window of the connection grows to %d, limit %d", cc.out.window, maxWindow)
		}
		cc.unstarve()
		cc.pump()
		return nil
	}
	st := cc.streams[f.stream]
	if st == nil || !st.begun {
		return cc.onPast(f)
	}
	switch st.window += n; {
	case n == 0:
		return cc.malformed(st, CodeProtocol, "WINDOW_UPDATE by 0")
	case st.window > maxWindow:
		return cc.malformed(st, CodeFlowControl, "the window of the stream is larger than 2^31-1")
	}
	cc.offer(st)
	cc.pump()
	return nil
}

// onPast handles a frame for a stream that is not open. One that was never opened is an error of the connection (RFC 9113
// section 5.1); for others, frames may have been on their way.
func (cc *clientConn) onPast(f frame) *ConnError {
	if f.stream >= cc.nextID || f.stream%2 == 0 || cc.streams[f.stream] != nil {
		return connError(CodeProtocol, "a frame of type %d on the idle stream %d", f.typ, f.stream)
	}
	return nil
}

// onReset handles the server's end of a stream (RFC 9113 section 6.4).
func (cc *clientConn) onReset(f frame, p []byte) *ConnError {
	switch {
	case f.stream == 0:
		return connError(CodeProtocol, "RST_STREAM without a stream")
	case len(p) != 4:
		return connError(CodeFrameSize, "RST_STREAM of %d bytes", len(p))
	}
	st := cc.streams[f.stream]
	if st == nil || !st.begun {
		if err := cc.onPast(f); err != nil {
			return err
		}
		return cc.charge("RST_STREAM frames")
	}
	again, code := never, ErrCode(binary.BigEndian.Uint32(p))
	if code == CodeRefusedStream && st.informal == 0 {
		again = refused
	}
	cc.end(st, &StreamError{Stream: st.id, Code: code, Remote: true}, again)
	return nil
}
