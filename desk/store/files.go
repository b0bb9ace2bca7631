package store

import "context"

// States of a file.
const (
	FileReady    = "ready"
	FileChecking = "checking" // a scanner has not decided yet
	FileRefused  = "refused"  // by the scanner: it is not handed out
)

// Attachment describes an uploaded file. Its bytes are kept elsewhere.
type Attachment struct {
	ID       string
	Conv     string
	Seq      uint64 // of its message, 0 = not sent yet
	Uploader Actor  // kind and id
	Name     string
	Type     string // media type, by content
	Size     int64
	Width    int // of an image, else 0
	Height   int
	SHA256   [32]byte
	Storage  string // name in the file store
	State    string
	Created  int64 // Unix milliseconds

	// Of its conversation and its message; only read.
	Contact string
	Site    string
	PSeq    uint64 // 0 = the customer does not see the message, or there is none
}

// Quota bounds the files of one uploader. A zero field is no limit.
type Quota struct {
	Since int64 // Unix milliseconds
	Bytes int64 // uploaded since then
	Count int   // files uploaded since then
	Loose int   // files that have not been sent
}

// Uploads counts the files of one uploader.
type Uploads struct {
	Bytes int64
	Count int
	Loose int
}

// Over reports whether one more file of a size is over the quota.
func (u Uploads) Over(q Quota, size int64) bool {
	return (q.Bytes > 0 && u.Bytes+size > q.Bytes) || (q.Count > 0 && u.Count >= q.Count) || (q.Loose > 0 && u.Loose >= q.Loose)
}

// Files are the writes about files. They go through the same writer, block until committed and honour ctx. After
// ErrUnavailable the change may still be made.
type Files interface {
	// AddAttachment adds a file whose bytes are stored for good, without a message, and gives it its id and its time.
	// The error is ErrNotFound if there is no such conversation, or a customer uploads to that of another. It is
	// ErrQuota if the quota is used up.
	AddAttachment(ctx context.Context, a Attachment, q Quota) (Attachment, error)
	// DecideAttachment ends FileChecking; a file in another state stays as it is. It returns the file.
	DecideAttachment(ctx context.Context, id string, ok bool) (Attachment, error)
	// DropLoose removes at most limit files that were added before a time in Unix milliseconds and never sent. It
	// returns them.
	DropLoose(ctx context.Context, before int64, limit int) ([]Attachment, error)
	// DropClosed removes conversations of a site that were closed before a time in Unix milliseconds, the oldest first,
	// with everything that belongs to them. One call removes at most limit rows, perhaps only a part of a conversation;
	// what is left goes with the next one. The numbers of the reports stay. The caller must know that nobody can reopen
	// them, and removes the bytes of the files.
	DropClosed(ctx context.Context, site string, before int64, limit int) (Dropped, error)
	// Secret returns a random key of 32 bytes that is kept with the data. The key is made when it is first asked for.
	Secret(ctx context.Context, name string) ([]byte, error)
	// FilesAt notes the id of the directory that has the bytes of the files, unless one is known, and returns the one that is.
	FilesAt(ctx context.Context, id string) (string, error)
}

// Dropped is what one call of DropClosed has removed.
type Dropped struct {
	Conversations int // that are gone altogether
	Files         []Attachment
	More          bool // there may be more to remove
}

// FileReader is the part of Reader about files.
type FileReader interface {
	// Attachments returns those of the files that exist, in no particular order.
	Attachments(ctx context.Context, ids []string) ([]Attachment, error)
	// Uploads counts an uploader's files since a time in Unix milliseconds, and its unsent files of any age.
	Uploads(ctx context.Context, by Actor, since int64) (Uploads, error)
	// SiteBytes returns the size of all files by site.
	SiteBytes(ctx context.Context) (map[string]int64, error)
	// Checking returns the oldest files in the state FileChecking.
	Checking(ctx context.Context, limit int) ([]Attachment, error)
	// Stored returns which of the names in the file store belong to a file that may be handed out.
	Stored(ctx context.Context, storage []string) (map[string]bool, error)
}
