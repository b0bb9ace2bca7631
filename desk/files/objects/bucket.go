package objects

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/go-eddy/eddy/desk/files"
)

// Options configure a Bucket. URL and Copies are required.
type Options struct {
	URL     string // see Parse
	MaxSize int64  // of a file, as the Store has it
	Copies  string // directory of its own for copies that a scanner reads; what is there is removed
	Logger  *slog.Logger

	part, call time.Duration // limits of a call that sends a part, default 30 s, and of any other, default 10 s
	pause      time.Duration // before the second attempt, default 100 ms; four times as long before the third
	now        func() time.Time
}

// Bucket is a Place in an object store. Each file is one object, which is there whole or not at all.
type Bucket struct {
	o         Options
	at        Address
	core      *minio.Core
	transport *http.Transport
	partBytes int

	mu     sync.Mutex
	faults map[deed]fault
	said   map[deed]time.Time // when the log has heard of it
}

const (
	mostParts  = 10_000 // of one object
	mostPart   = 256 << 20
	idBytes    = 64
	pageOfKeys = 256
	removers   = 8 // files that are removed at once
	idle       = 64
	roleWait   = 5 * time.Second // for a machine's own keys
)

// Open checks that the bucket can be written to. Errors are one line that names what was tried and the remedy.
func Open(ctx context.Context, o Options) (*Bucket, error) {
	at, err := Parse(o.URL)
	if err != nil {
		return nil, fmt.Errorf("files: the place of the files %w", err)
	}
	o.fill()
	b := &Bucket{o: o, at: at, faults: make(map[deed]fault), said: make(map[deed]time.Time)}
	part := max(files.HeaderBytes, (o.MaxSize+mostParts-1)/mostParts)
	if part > mostPart {
		return nil, fmt.Errorf("files: files may have %d bytes: an object store takes at most %d", o.MaxSize, int64(mostParts*mostPart))
	}
	b.partBytes = int(part)
	if err := os.RemoveAll(o.Copies); err != nil {
		return nil, fmt.Errorf("files: %w", err)
	}
	if err := b.connect(ctx); err != nil {
		b.Close()
		return nil, err
	}
	return b, nil
}

func (o *Options) fill() {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	o.part = cmp.Or(o.part, 30*time.Second)
	o.call = cmp.Or(o.call, 10*time.Second)
	o.pause = cmp.Or(o.pause, 100*time.Millisecond)
	o.MaxSize = cmp.Or(o.MaxSize, files.DefaultMaxSize)
	if o.now == nil {
		o.now = time.Now
	}
}

// connect makes the client, and writes and removes one object.
func (b *Bucket) connect(ctx context.Context) error {
	b.transport = &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: min(5*time.Second, b.o.call)}).DialContext, TLSHandshakeTimeout: min(5*time.Second, b.o.call),
		MaxIdleConns: idle, MaxIdleConnsPerHost: idle, IdleConnTimeout: 30 * time.Second, DisableCompression: true,
	}
	keys := credentials.NewChainCredentials(providers())
	if v, err := keys.GetWithContext(&credentials.CredContext{Client: &http.Client{Transport: b.transport, Timeout: roleWait}}); err != nil || v.AccessKeyID == "" {
		return fmt.Errorf("files: there is no key for %s: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or write them into ~/.aws/credentials", b.at)
	}
	var err error
	b.core, err = minio.NewCore(b.at.Endpoint.Host, &minio.Options{
		Creds: keys, Secure: b.at.Endpoint.Scheme == "https", Region: b.at.Region, BucketLookup: b.at.PathStyle, Transport: b.transport,
		MaxRetries: 1, // do tries again itself, because a body that is sent again must not be the one that is still being sent
	})
	if err != nil {
		return fmt.Errorf("files: %s: %w", b.at, err)
	}
	const check = "write-check"
	if err := b.put(ctx, b.at.Prefix+check, []byte("may be removed\n"), minio.PutObjectOptions{}); err != nil {
		return err
	}
	return b.removeKey(ctx, check)
}

// providers are where keys are looked for, in this order: the environment, the files of Amazon's own tools, and the role
// of the machine, container or account that this runs as.
func providers() []credentials.Provider {
	all := []credentials.Provider{&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}}
	role := os.Getenv("AWS_WEB_IDENTITY_TOKEN_FILE") + os.Getenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI") + os.Getenv("AWS_CONTAINER_CREDENTIALS_FULL_URI")
	if role != "" || !strings.EqualFold(os.Getenv("AWS_EC2_METADATA_DISABLED"), "true") {
		all = append(all, &credentials.IAM{})
	}
	return all
}

// String implements files.Place.
func (b *Bucket) String() string { return "bucket " + b.at.String() }

// Free implements files.Place. Object stores do not say.
func (b *Bucket) Free() (bytes uint64, known bool) { return 0, false }

// Close implements files.Place.
func (b *Bucket) Close() {
	if b.transport != nil {
		b.transport.CloseIdleConnections()
	}
}

func (b *Bucket) key(name string) string { return b.at.Prefix + files.Key(name) }

// ID implements files.Place. Stores that cannot create an object only if there is none let two first servers at once
// overwrite each other's id; one of them is then refused.
func (b *Bucket) ID(ctx context.Context) (string, error) {
	key, fresh := b.at.Prefix+files.IDName, []byte(uuid.NewString()+"\n")
	var once minio.PutObjectOptions
	once.SetMatchETagExcept("*")
	for i := 1; ; i++ {
		id, err := b.readID(ctx, key)
		if !errors.Is(err, fs.ErrNotExist) || i > attempts {
			return id, err
		}
		err = b.put(ctx, key, fresh, once)
		r, _ := errors.AsType[*refusal](err)
		switch {
		case err == nil:
		case r != nil && (r.code == minio.PreconditionFailed || r.code == "ConditionalRequestConflict"): // another server is just making it
			wait(ctx, time.Duration(i*i)*b.o.pause)
		case r != nil && r.code == minio.NotImplemented:
			once = minio.PutObjectOptions{}
		default:
			return "", err
		}
	}
}

func (b *Bucket) readID(ctx context.Context, key string) (string, error) {
	o, err := b.open(ctx, key)
	if err != nil {
		return "", err
	}
	defer func() { _ = o.Close() }()
	text, err := io.ReadAll(io.LimitReader(o, idBytes))
	return strings.TrimSpace(string(text)), err
}

// Remove implements files.Place.
func (b *Bucket) Remove(ctx context.Context, names ...string) error {
	var wg sync.WaitGroup
	errs := make([]error, min(removers, len(names)))
	for i := range errs {
		wg.Go(func() {
			for j := i; j < len(names) && errs[i] == nil; j += len(errs) {
				errs[i] = b.removeKey(ctx, files.Key(names[j]))
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err // the others are the same
		}
	}
	return nil
}

// removeKey removes an object by its key behind the prefix. One that does not exist is no error.
func (b *Bucket) removeKey(ctx context.Context, key string) error {
	return b.do(ctx, removing, func(ctx context.Context) error {
		return missing(b.core.RemoveObject(ctx, b.at.Bucket, b.at.Prefix+key, minio.RemoveObjectOptions{}), minio.NoSuchKey)
	})
}

// Each implements files.Place.
func (b *Bucket) Each(ctx context.Context, shard string, before time.Time, f func(names []string) error) error {
	after, more := "", true
	for more {
		var names []string
		last := ""
		err := b.do(ctx, listing, func(ctx context.Context) error {
			names, last, more = nil, "", false
			n, noOwner := 0, false
			for o := range b.core.ListObjectsIter(ctx, b.at.Bucket, minio.ListObjectsOptions{
				Prefix: b.at.Prefix + shard + "/", Recursive: true, StartAfter: after, MaxKeys: pageOfKeys, FetchOwner: &noOwner,
			}) {
				if o.Err != nil {
					return o.Err
				}
				last = o.Key
				if name, ok := files.NameOf(strings.TrimPrefix(o.Key, b.at.Prefix)); ok && o.LastModified.Before(before) {
					names = append(names, name)
				}
				if n++; n == pageOfKeys {
					more = true
					break
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		after, more = last, more && last > after // a store that knows no start would begin again
		if len(names) > 0 {
			if err := f(names); err != nil {
				return err
			}
		}
	}
	return nil
}

// Sweep implements files.Place. It ends uploads in parts that were begun before a time; other uploads leave nothing.
func (b *Bucket) Sweep(ctx context.Context, before time.Time) error {
	key, upload := "", ""
	for {
		var page minio.ListMultipartUploadsResult
		err := b.do(ctx, listing, func(ctx context.Context) (err error) {
			page, err = b.core.ListMultipartUploads(ctx, b.at.Bucket, b.at.Prefix, key, upload, "", pageOfKeys)
			return missing(err, minio.NotImplemented)
		})
		if err != nil {
			return err
		}
		for _, u := range page.Uploads {
			if _, ok := files.NameOf(strings.TrimPrefix(u.Key, b.at.Prefix)); !ok || !u.Initiated.Before(before) {
				continue
			}
			if err := b.abort(ctx, u.Key, u.UploadID); err != nil {
				return err
			}
		}
		if !page.IsTruncated || (page.NextKeyMarker == key && page.NextUploadIDMarker == upload) {
			return nil
		}
		key, upload = page.NextKeyMarker, page.NextUploadIDMarker
	}
}

func (b *Bucket) abort(ctx context.Context, key, upload string) error {
	return b.do(ctx, removing, func(ctx context.Context) error {
		return missing(b.core.AbortMultipartUpload(ctx, b.at.Bucket, key, upload), minio.NoSuchUpload)
	})
}
