package objects

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/minio/minio-go/v7"

	"github.com/go-eddy/eddy/desk/files"
)

const contentType = "application/octet-stream" // whoever reaches the bucket itself shows nothing

// arriving is a file that is sent in parts. What fits into one part is sent at once in the end.
type arriving struct {
	b    *Bucket
	ctx  context.Context
	key  string
	part []byte // what has not been sent
	size int64

	upload  string // its id, "" = nothing was sent yet
	parts   []minio.CompletePart
	settled bool // it may be there under its name
}

// Create implements files.Place.
func (b *Bucket) Create(ctx context.Context, name string, size int64) (files.Arriving, error) {
	a := &arriving{b: b, ctx: ctx, key: b.key(name)}
	if size >= 0 {
		a.part = make([]byte, 0, min(size, int64(b.partBytes)))
	}
	return a, nil
}

// Write implements files.Arriving.
func (a *arriving) Write(p []byte) (n int, err error) {
	for len(p) > 0 {
		if len(a.part) == a.b.partBytes {
			if err := a.send(); err != nil {
				return n, err
			}
		}
		k := min(len(p), a.b.partBytes-len(a.part))
		a.part = append(a.part, p[:k]...)
		p, n, a.size = p[k:], n+k, a.size+int64(k)
	}
	return n, nil
}

// ReadAt implements files.Arriving.
func (a *arriving) ReadAt(p []byte, off int64) (int, error) {
	if len(a.parts) > 0 {
		return 0, errors.New("files: the beginning of the file was sent already")
	}
	return bytes.NewReader(a.part).ReadAt(p, off)
}

// send sends the part.
func (a *arriving) send() error {
	b := a.b
	if a.upload == "" {
		err := b.do(a.ctx, storing, func(ctx context.Context) (err error) {
			a.upload, err = b.core.NewMultipartUpload(ctx, b.at.Bucket, a.key, minio.PutObjectOptions{ContentType: contentType})
			return err
		})
		if err != nil {
			return err
		}
	}
	number := len(a.parts) + 1
	err := b.do(a.ctx, storing, func(ctx context.Context) error {
		p, err := b.core.PutObjectPart(ctx, b.at.Bucket, a.key, a.upload, number, bytes.NewReader(a.part), int64(len(a.part)), minio.PutObjectPartOptions{Sha256Hex: sum(a.part), DisableContentSha256: true})
		if err == nil {
			a.parts = append(a.parts, minio.CompletePart{PartNumber: number, ETag: p.ETag})
		}
		return err
	})
	a.part = a.part[:0]
	return err
}

func sum(p []byte) string {
	s := sha256.Sum256(p)
	return hex.EncodeToString(s[:])
}

// Keep implements files.Arriving.
func (a *arriving) Keep() error {
	if a.upload == "" {
		a.settled = true
		return a.b.put(a.ctx, a.key, a.part, minio.PutObjectOptions{ContentType: contentType})
	}
	if len(a.part) > 0 {
		if err := a.send(); err != nil {
			return err
		}
	}
	a.settled = true
	return a.b.do(a.ctx, storing, func(ctx context.Context) error {
		_, err := a.b.core.CompleteMultipartUpload(ctx, a.b.at.Bucket, a.key, a.upload, a.parts, minio.PutObjectOptions{})
		// Only the object itself says how it ended: an answer may be lost, and a second call finds no upload.
		o, serr := a.b.core.StatObject(ctx, a.b.at.Bucket, a.key, minio.StatObjectOptions{})
		switch {
		case serr == nil && o.Size == a.size:
			return nil
		case serr == nil:
			return fmt.Errorf("the object has %d bytes, %d were sent", o.Size, a.size)
		case err == nil:
			return fmt.Errorf("the object cannot be seen: %s", reason(serr))
		}
		return err
	})
}

// Drop implements files.Arriving. What the store does not remove now, Sweep or a Keeper finds.
func (a *arriving) Drop() {
	ctx := context.WithoutCancel(a.ctx)
	if a.upload != "" {
		_ = a.b.abort(ctx, a.key, a.upload)
	}
	if a.settled {
		_ = a.b.removeKey(ctx, a.key[len(a.b.at.Prefix):])
	}
}

// put stores a whole object. Its hash is part of the signature, so that a store takes nothing else for it.
func (b *Bucket) put(ctx context.Context, key string, content []byte, o minio.PutObjectOptions) error {
	o.DisableContentSha256 = true // of pieces: the client would send them with signatures of their own between
	return b.do(ctx, storing, func(ctx context.Context) error {
		_, err := b.core.PutObject(ctx, b.at.Bucket, key, bytes.NewReader(content), int64(len(content)), "", sum(content), o)
		return err
	})
}
