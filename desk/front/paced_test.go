package front

import (
	"io"
	"testing"
	"testing/synctest"
	"time"
)

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// TestStoringIsNotTheClientsTime: while a file store takes its time with what has come, an upload is not too slow. A client
// that takes its time is.
func TestStoringIsNotTheClientsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const pace, whole, storing = 10 * time.Second, time.Minute, 40 * time.Second
		var by time.Time // until when bytes have to come
		slow := time.Duration(0)
		p := &paced{pace: pace, end: time.Now().Add(whole), read: time.Now(), until: func(t time.Time) error { by = t; return nil }}
		p.body = readerFunc(func(b []byte) (int, error) {
			time.Sleep(slow)
			if time.Now().After(by) {
				return 0, io.ErrNoProgress
			}
			return 1, nil
		})
		p.stretch()
		var b [1]byte
		for range 3 {
			if _, err := p.Read(b[:]); err != nil {
				t.Fatal(err)
			}
			time.Sleep(storing)
		}
		if _, err := p.Read(b[:]); err != nil || !by.Equal(time.Now().Add(pace)) {
			t.Errorf("%v, until %v", err, by)
		}
		if left := time.Until(p.end); left != whole {
			t.Errorf("%v are left for the whole file, want %v", left, whole)
		}
		slow = pace + time.Second
		if _, err := p.Read(b[:]); err == nil {
			t.Error("a slow client is not held to its pace")
		}
	})
}
