package objects

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/minio/minio-go/v7"
)

// object is an object that is read. It is asked for from where reading begins, when it begins.
type object struct {
	b        *Bucket
	ctx      context.Context
	key      string
	size, at int64

	body  io.ReadCloser // nil: not asked for
	end   context.CancelFunc
	watch *time.Timer // ends the request when nothing comes
}

// Open implements files.Place.
func (b *Bucket) Open(ctx context.Context, name string) (io.ReadSeekCloser, error) {
	return b.open(ctx, b.key(name))
}

func (b *Bucket) open(ctx context.Context, key string) (io.ReadSeekCloser, error) {
	var info minio.ObjectInfo
	err := b.do(ctx, reading, func(ctx context.Context) (err error) {
		info, err = b.core.StatObject(ctx, b.at.Bucket, key, minio.StatObjectOptions{})
		return err
	})
	if err != nil {
		return nil, err
	}
	return &object{b: b, ctx: ctx, key: key, size: info.Size}, nil
}

// Seek implements io.Seeker.
func (o *object) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += o.at
	case io.SeekEnd:
		offset += o.size
	}
	if offset < 0 {
		return o.at, errors.New("files: negative position")
	}
	if offset != o.at {
		_ = o.Close()
		o.at = offset
	}
	return offset, nil
}

// Read implements io.Reader. It waits for the store at most as long as any call does.
func (o *object) Read(p []byte) (n int, err error) {
	if o.at >= o.size {
		return 0, io.EOF
	}
	if o.body == nil {
		if err := o.ask(); err != nil {
			_ = o.Close()
			return 0, o.b.judge(o.ctx, reading, err)
		}
	}
	o.watch.Reset(o.b.o.call)
	n, err = o.body.Read(p[:min(int64(len(p)), o.size-o.at)])
	o.watch.Stop()
	o.at += int64(n)
	if err == nil || o.at == o.size {
		o.b.works(reading)
		return n, nil
	}
	_ = o.Close()
	if err == io.EOF { //nolint:errorlint // bodies return it unwrapped
		err = io.ErrUnexpectedEOF
	}
	return n, o.b.judge(o.ctx, reading, err)
}

// ask sends the request.
func (o *object) ask() error {
	ctx, end := context.WithCancel(o.ctx)
	o.end, o.watch = end, time.AfterFunc(o.b.o.call, end)
	var opts minio.GetObjectOptions
	if o.at > 0 {
		if err := opts.SetRange(o.at, 0); err != nil {
			return err
		}
	}
	body, info, _, err := o.b.core.GetObject(ctx, o.b.at.Bucket, o.key, opts)
	if err != nil {
		return err
	}
	o.body = body
	if left := o.size - o.at; info.Size != left {
		return fmt.Errorf("%d bytes are to come, want %d", info.Size, left)
	}
	return nil
}

// Close implements io.Closer.
func (o *object) Close() error {
	if o.end != nil {
		o.watch.Stop()
		o.end()
		o.end = nil
	}
	if o.body == nil {
		return nil
	}
	err := o.body.Close()
	o.body = nil
	return err
}

// Local implements files.Place. It copies the object.
func (b *Bucket) Local(ctx context.Context, name string) (path string, done func(), err error) {
	in, err := b.Open(ctx, name)
	if err != nil {
		return "", nil, err
	}
	defer func() { _ = in.Close() }()
	if err := os.MkdirAll(b.o.Copies, 0o700); err != nil {
		return "", nil, fmt.Errorf("files: %w", err)
	}
	out, err := os.CreateTemp(b.o.Copies, "")
	if err != nil {
		return "", nil, fmt.Errorf("files: %w", err)
	}
	done = func() { _ = os.Remove(out.Name()) }
	_, err = io.Copy(out, in)
	if err = errors.Join(err, out.Close()); err != nil {
		done()
		return "", nil, err
	}
	return out.Name(), done, nil
}
