package objects

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/minio/minio-go/v7"

	"github.com/go-eddy/eddy/desk/files"
)

// deed is what a call does, in words for messages.
type deed string

const (
	storing  deed = "storing"
	reading  deed = "reading"
	removing deed = "removing"
	listing  deed = "listing"
)

// fault is the last call of a kind, if it failed.
type fault struct {
	err  error
	at   time.Time
	away bool // nothing works, and not only this
}

const (
	faultLasts = 15 * time.Minute // what nobody has tried again since then says nothing about now
	sayEvery   = time.Minute
	mostReason = 240
	attempts   = 3
)

// do makes a call with a limit of time, and again if it failed in a way that may pass. call must be harmless when it is
// made twice.
func (b *Bucket) do(ctx context.Context, what deed, call func(context.Context) error) error {
	limit := b.o.call
	if what == storing {
		limit = b.o.part
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := call(limited)
	for i := 1; i < attempts && passes(err) && wait(limited, time.Duration(i*i)*b.o.pause); i++ {
		err = call(limited)
	}
	return b.judge(ctx, what, err)
}

func wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// passes reports whether the same call may succeed in a moment.
func passes(err error) bool {
	r, answered := errors.AsType[minio.ErrorResponse](err)
	switch {
	case err == nil:
		return false
	case !answered:
		return true
	}
	return r.StatusCode >= 500 && r.StatusCode != http.StatusNotImplemented && r.StatusCode != http.StatusInsufficientStorage ||
		r.StatusCode == http.StatusTooManyRequests || r.StatusCode == http.StatusRequestTimeout
}

// missing takes an error with a code for none.
func missing(err error, code string) error {
	if r, ok := errors.AsType[minio.ErrorResponse](err); ok && r.Code == code {
		return nil
	}
	return err
}

// refusal is an error of an object store that was asked and has answered.
type refusal struct {
	code string
	err  error
}

func (r *refusal) Error() string { return r.err.Error() }

func (r *refusal) Unwrap() error { return r.err }

// judge makes an error of a Place out of one of the client, and notes whether calls of this kind work. ctx is the caller's
// own.
func (b *Bucket) judge(ctx context.Context, what deed, err error) error {
	r, answered := errors.AsType[minio.ErrorResponse](err)
	switch {
	case err == nil:
		b.works(what)
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case r.Code == minio.NoSuchKey:
		b.works(what)
		return fmt.Errorf("files: %s: %w", b, fs.ErrNotExist)
	case answered && isFull(r):
		return fmt.Errorf("%w: %s: %s", files.ErrFull, b, reason(err))
	}
	err = fmt.Errorf("%w: %s: %s: %s", files.ErrUnavailable, b, what, reason(err))
	switch r.StatusCode {
	case http.StatusPreconditionFailed, http.StatusConflict, http.StatusNotImplemented: // ID knows what to do
	default:
		b.fails(what, fault{err, b.o.now(), !answered})
	}
	if answered {
		return &refusal{r.Code, err}
	}
	return err
}

// isFull reports whether a store has no room, by the codes that stores of several makers have for it.
func isFull(r minio.ErrorResponse) bool {
	return r.StatusCode == http.StatusInsufficientStorage || slices.Contains([]string{"QuotaExceeded", "XMinioStorageFull", "XMinioAdminBucketQuotaExceeded"}, r.Code)
}

// reason says in at most one short line why a call failed, and what helps.
func reason(err error) string {
	r, answered := errors.AsType[minio.ErrorResponse](err)
	text := ""
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		text = "no answer in time"
	case !answered:
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err // without the address, which has been said
		}
		if text = err.Error(); strings.HasPrefix(text, "Connection closed by foreign host") { // and the address again
			text = "connection closed"
		}
	case r.Code == minio.NoSuchBucket:
		text = "there is no such bucket: create it, or name another one"
	case r.Code == minio.InvalidAccessKeyID, r.Code == minio.SignatureDoesNotMatch:
		text = r.Code + ": the key is wrong: look at AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or at ~/.aws/credentials"
	case r.Code == minio.AccessDenied:
		text = r.Code + ": the key needs the rights GetObject, PutObject, DeleteObject, AbortMultipartUpload, ListBucket and ListBucketMultipartUploads"
	case r.Region != "" && (r.Code == minio.AuthorizationHeaderMalformed || r.Code == minio.InvalidRegion || r.StatusCode == http.StatusMovedPermanently):
		text = r.Code + ": the bucket is elsewhere: write region=" + r.Region
	default:
		text = fmt.Sprintf("%s (%d): %s", r.Code, r.StatusCode, r.Message)
	}
	text = strings.Map(func(c rune) rune {
		if unicode.IsControl(c) {
			return ' '
		}
		return c
	}, strings.ToValidUTF8(text, "?"))
	if len(text) > mostReason {
		text = strings.ToValidUTF8(text[:mostReason], "") + " …"
	}
	return text
}

// works notes that calls of a kind work, and that the store is there.
func (b *Bucket) works(what deed) {
	b.mu.Lock()
	defer b.mu.Unlock()
	maps.DeleteFunc(b.faults, func(d deed, f fault) bool { return d == what || f.away })
}

// fails notes that they do not, and tells the log once in a while.
func (b *Bucket) fails(what deed, f fault) {
	b.mu.Lock()
	b.faults[what] = f
	last, ever := b.said[what]
	say := !ever || f.at.Sub(last) >= sayEvery
	if say {
		b.said[what] = f.at
	}
	b.mu.Unlock()
	if say {
		b.o.Logger.Error("desk: the object store fails", "err", f.err)
	}
}

// Fault implements files.Place.
func (b *Bucket) Fault() error {
	now := b.o.now()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, what := range []deed{storing, reading, removing, listing} {
		if f, ok := b.faults[what]; ok && now.Sub(f.at) < faultLasts {
			return f.err
		}
	}
	return nil
}
