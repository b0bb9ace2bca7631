package metrics

import (
	"strconv"

	"github.com/go-eddy/eddy/metrics/internal/expo"
	"github.com/go-eddy/eddy/websocket"
)

type (
	hubStats         = websocket.HubStats
	compressionStats = websocket.CompressionStats
)

//nolint:gochecknoglobals // tables, never written
var (
	socketTable = expo.Table[websocketStats]{
		expo.Count("eddy_websocket_opened_total", "Handshakes that succeeded.", func(s *websocketStats) uint64 { return s.Opened() }),
		expo.Count("eddy_websocket_refused_total", "Handshakes that were refused.", func(s *websocketStats) uint64 { return s.Refused() }),
		expo.Count("eddy_websocket_messages_total", "Messages handed to handlers.", func(s *websocketStats) uint64 { return s.Messages() }),
		expo.Count("eddy_websocket_dropped_pongs_total", "Pings that went unanswered because the peer did not read.", func(s *websocketStats) uint64 { return s.DroppedPongs() }),
	}.With("websocket")
	socketClosed = expo.Counter("eddy_websocket_closed_total", "Connections that ended, by close code; 3xxx and 4xxx count together, what is none of them is other.", "websocket", "code")

	hubTable = expo.Table[hubStats]{
		expo.Level("eddy_websocket_hub_members", "Connections in the hub.", func(s *hubStats) int64 { return s.Members }),
		expo.Level("eddy_websocket_hub_pending", "Broadcasts that were not handed to all members yet.", func(s *hubStats) int64 { return s.Pending }),
		expo.Count("eddy_websocket_hub_broadcasts_total", "Broadcasts taken.", func(s *hubStats) uint64 { return s.Broadcasts }),
		expo.Count("eddy_websocket_hub_refused_total", "Broadcasts refused, because too many were pending.", func(s *hubStats) uint64 { return s.Refused }),
		expo.Count("eddy_websocket_hub_sent_total", "Messages given to a connection.", func(s *hubStats) uint64 { return s.Sent }),
		expo.Count("eddy_websocket_hub_failed_total", "Messages that a connection did not take.", func(s *hubStats) uint64 { return s.Failed }),
	}.With("hub")

	compressionTable = expo.Table[compressionStats]{
		expo.Count("eddy_websocket_deflate_skipped_total", "Messages sent as they are because all compressors were busy.", func(s *compressionStats) uint64 { return s.Skipped }),
		expo.Count("eddy_websocket_deflate_without_window_total", "Connections without context takeover for want of memory.", func(s *compressionStats) uint64 { return s.WithoutWindow }),
		expo.Level("eddy_websocket_deflate_window_bytes", "Bytes reserved for windows.", func(s *compressionStats) int64 { return s.Windows }),
		expo.Level("eddy_websocket_deflate_waiting", "Messages that wait to be inflated.", func(s *compressionStats) int { return s.Waiting }),
	}.With("compression")
	deflateMessages = expo.Counter("eddy_websocket_deflate_messages_total", "Compressed messages, by direction: sent or received.", "compression", "direction")
	deflatePlain    = expo.Counter("eddy_websocket_deflate_plain_bytes_total", "Their bytes uncompressed.", "compression", "direction")
	deflateWire     = expo.Counter("eddy_websocket_deflate_wire_bytes_total", "Their bytes compressed.", "compression", "direction")
)

func websocketFamilies() []*expo.Family {
	all := append(socketTable.Families(), socketClosed)
	all = append(all, hubTable.Families()...)
	return append(append(all, compressionTable.Families()...), deflateMessages, deflatePlain, deflateWire)
}

// websocketStats is the snapshot of a websocket.Stats, which has a method for each number and serves as its own snapshot.
type websocketStats struct{ *websocket.Stats }

// counted gives a websocket.Stats a Stats method.
type counted struct{ of *websocket.Stats }

func (c counted) Stats() websocketStats { return websocketStats{c.of} }

// WebSocket returns a Source of the numbers of a websocket.Stats.
func WebSocket(name string, s *websocket.Stats) Source {
	return source("WebSocket", name, counted{s}, func(_ *memory, scrape *expo.Scrape, st *websocketStats) {
		socketTable.Put(scrape, st, name)
		for code := 1000; code <= 1015; code++ {
			scrape.Put(socketClosed, float64(st.Closed(code)), name, strconv.Itoa(code))
		}
		scrape.Put(socketClosed, float64(st.Closed(3000)), name, "3xxx")
		scrape.Put(socketClosed, float64(st.Closed(4000)), name, "4xxx")
		scrape.Put(socketClosed, float64(st.Closed(0)), name, "other")
	})
}

// Hub returns a Source of the numbers of a broadcast hub.
func Hub(name string, h *websocket.Hub) Source { return table("hub", name, h, hubTable) }

// Compression returns a Source of the numbers of permessage-deflate.
func Compression(name string, z *websocket.Compression) Source {
	return source("compression", name, z, func(_ *memory, scrape *expo.Scrape, st *compressionStats) { putCompression(scrape, name, st) })
}

func putCompression(scrape *expo.Scrape, name string, st *compressionStats) {
	compressionTable.Put(scrape, st, name)
	for direction, n := range map[string][3]uint64{
		"sent":     {st.Sent, st.SentBytes, st.SentWire},
		"received": {st.Received, st.ReceivedBytes, st.ReceivedWire},
	} {
		scrape.Put(deflateMessages, float64(n[0]), name, direction)
		scrape.Put(deflatePlain, float64(n[1]), name, direction)
		scrape.Put(deflateWire, float64(n[2]), name, direction)
	}
}
