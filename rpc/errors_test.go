package rpc

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/go-eddy/eddy/codec/frame"
)

func TestErrorKinds(t *testing.T) {
	kinds := []error{ErrBadRequest, ErrNotFound, ErrApp, ErrInternal, ErrBusy, ErrDeadline, ErrCanceled, ErrUnavailable,
		ErrTooLarge, ErrUnauthenticated, ErrProtocol, ErrConnection, ErrClosed, context.DeadlineExceeded, context.Canceled, io.EOF}
	for _, c := range []struct {
		err *Error
		is  []error
	}{
		{&Error{Status: frame.StatusBadRequest}, []error{ErrBadRequest}},
		{&Error{Status: frame.StatusNotFound}, []error{ErrNotFound}},
		{&Error{Status: frame.StatusAppError}, []error{ErrApp}},
		{&Error{Status: frame.StatusInternal}, []error{ErrInternal}},
		{&Error{Status: frame.StatusBusy}, []error{ErrBusy}},
		{&Error{Status: frame.StatusDeadlineExceeded}, []error{ErrDeadline, context.DeadlineExceeded}},
		{&Error{Status: frame.StatusCanceled}, []error{ErrCanceled, context.Canceled}},
		{&Error{Status: frame.StatusUnavailable}, []error{ErrUnavailable}},
		{&Error{Status: frame.StatusTooLarge}, []error{ErrTooLarge}},
		{&Error{Status: frame.StatusUnauthenticated}, []error{ErrUnauthenticated}},
		{&Error{Status: frame.StatusProtocolError}, []error{ErrProtocol}},
		{&Error{Status: 200}, nil},
		{&Error{Err: ErrConnection}, []error{ErrConnection}},
		{&Error{Status: frame.StatusUnavailable, Err: io.EOF}, []error{ErrUnavailable, io.EOF}},
	} {
		for _, k := range kinds {
			want := false
			for _, is := range c.is {
				want = want || is == k
			}
			if got := errors.Is(c.err, k); got != want {
				t.Errorf("%v is %v: %v", c.err, k, got)
			}
		}
	}
}

func TestErrorText(t *testing.T) {
	busy := statusError(&frame.StatusError{Status: frame.StatusBusy, RetryAfter: time.Second, Message: "no worker is free"}, "/i:1", "m")
	for want, err := range map[string]error{
		"rpc: /i:1 m: BUSY: no worker is free (not executed) (retry after 1s)": busy,
		"rpc: /i:1 m: APP_ERROR":                statusError(&frame.StatusError{Status: frame.StatusAppError}, "/i:1", "m"),
		"rpc: /i:1 m: rpc: connection lost":     &Error{Service: "/i:1", Method: "m", Err: ErrConnection},
		"rpc: /i:1 m: no reason (not executed)": &Error{Service: "/i:1", Method: "m", Message: "no reason", Executed: ExecutedNo},
	} {
		if err.Error() != want {
			t.Errorf("%q, want %q", err, want)
		}
	}
	if e := statusError(&frame.StatusError{Status: frame.StatusAppError, Details: "\x00\xff"}, "", ""); e.Details != "\x00\xff" {
		t.Errorf("the details %q", e.Details)
	}
	if ExecutedNo.String() != "no" || ExecutedMaybe.String() != "maybe" || busy.Executed != ExecutedNo {
		t.Error("executed", busy.Executed)
	}
	for s := range frame.Status(70) {
		want := ExecutedMaybe
		if s == frame.StatusBusy || s == frame.StatusUnavailable {
			want = ExecutedNo
		}
		if got := statusError(&frame.StatusError{Status: s}, "", "").Executed; got != want {
			t.Errorf("%v: executed %v", s, got)
		}
	}
}

func TestMetadata(t *testing.T) {
	m := Metadata{{"a", "1"}, {"b", "2"}, {"a", "3"}}
	if v, ok := m.Get("a"); v != "1" || !ok {
		t.Error(v, ok)
	}
	if v, ok := m.Get("c"); v != "" || ok {
		t.Error(v, ok)
	}
	var all string
	for v := range m.Values("a") {
		all += v
	}
	for v := range m.Values("a") {
		all += v
		break
	}
	if all != "131" {
		t.Error(all)
	}
}
