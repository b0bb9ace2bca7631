package frame

import (
	"bytes"
	"testing"
)

// FuzzDecoder cuts any bytes, in pieces of any size, and compares with a decoder that is as plain as the specification:
// the same frames, the same violation, whatever the pieces.
func FuzzDecoder(f *testing.F) {
	for _, kind := range []string{"requests", "responses", "violations"} {
		for _, v := range vectors(f, kind) {
			f.Add(v.frame, uint8(3), uint16(100), kind == "responses")
			f.Add(append(AppendRequest(nil, 1, Echo, []byte("x")), v.frame...), uint8(0), uint16(2000), false)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, piece uint8, max uint16, responses bool) {
		r := request
		if responses {
			r = response
		}
		d := newDecoder(r, []Option{MaxPayload(int(max))})
		want, violation := plain(data, r, d.max)
		var got [][]byte
		var refused *ViolationError
		for from, to := 0, 0; refused == nil; {
			total, v := d.measure(data[from:to])
			switch {
			case v != nil:
				refused = v
			case total > 0 && total <= to-from:
				frame := d.frame(data[from : from+total])
				again := append(AppendHeader(nil, frame.ID, frame.Code, len(frame.Payload)), frame.Payload...)
				if !bytes.Equal(again, data[from:from+total]) {
					t.Fatalf("frame %X is encoded as %X", data[from:from+total], again)
				}
				got = append(got, again)
				if frame.Err() != nil && frame.Status() == StatusOK {
					t.Fatal("an error that is none")
				}
				from += total
				frame.Release()
			case to == len(data):
				to = -1
			default:
				to = min(len(data), to+1+int(piece))
			}
			if to < 0 {
				break
			}
		}
		if len(got) != len(want) {
			t.Fatalf("%d frames, want %d", len(got), len(want))
		}
		for i := range got {
			if !bytes.Equal(got[i], want[i]) {
				t.Errorf("frame %d is %X, want %X", i, got[i], want[i])
			}
		}
		if (refused != nil) != violation {
			t.Errorf("refused: %v, want %v", refused, violation)
		}
	})
}

// plain is the simplest decoder, for bytes that are all there.
func plain(data []byte, r role, max int) (frames [][]byte, violation bool) {
	for {
		head := []byte{0xED, 0xD1, 1}
		if n := min(len(data), 3); !bytes.Equal(data[:n], head[:n]) {
			return frames, true
		}
		if r == request && len(data) >= 11 && bytes.Equal(data[3:11], make([]byte, 8)) {
			return frames, true
		}
		if r == request && len(data) >= 12 && data[11] >= 5 && data[11] <= 15 {
			return frames, true
		}
		if len(data) < 16 {
			return frames, false
		}
		n := 0
		for _, b := range data[12:16] {
			n = n<<8 | int(b)
		}
		if n > max {
			return frames, true
		}
		if len(data) < 16+n {
			return frames, false
		}
		frames = append(frames, data[:16+n])
		data = data[16+n:]
	}
}
