// Package geo says in which country and city an address is, by a database file in the MaxMind format that the operator
// gives. It asks nobody, and writes nothing down.
package geo

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/oschwald/maxminddb-golang/v2"
)

// maxFile is the size of a file that is read, because all of it is in memory.
const maxFile = 1 << 30

// Place is where an address is. What is not known is "".
type Place struct {
	Country string // two capital letters of ISO 3166
	City    string // in English
}

// File is a database of places. Any goroutine may call its methods.
type File struct {
	path string
	db   atomic.Pointer[maxminddb.Reader]

	reloading sync.Mutex
}

// Open reads a file and checks all of it. The file is in memory then, so it may be replaced or removed at any time.
func Open(path string) (*File, error) {
	f := &File{path: path}
	db, err := read(path, maxFile)
	f.db.Store(db)
	return f, err
}

// Reload reads the file anew. new is false if it is the one in use. After an error the one in use stays.
func (f *File) Reload() (changed bool, err error) {
	f.reloading.Lock()
	defer f.reloading.Unlock()
	db, err := read(f.path, maxFile)
	if err != nil {
		return false, err
	}
	before := f.db.Swap(db).Metadata
	return before.BuildEpoch != db.Metadata.BuildEpoch || before.DatabaseType != db.Metadata.DatabaseType || before.NodeCount != db.Metadata.NodeCount, nil
}

// String names the database and when it was built.
func (f *File) String() string {
	m := f.db.Load().Metadata
	return fmt.Sprintf("%s, built %s", m.DatabaseType, m.BuildTime().UTC().Format("2006-01-02"))
}

// Of returns where an address is. Only public addresses of IPv4 are looked up; of all others nothing is known.
func (f *File) Of(a netip.Addr) Place {
	a = a.Unmap()
	if !a.Is4() || !a.IsGlobalUnicast() || a.IsPrivate() {
		return Place{}
	}
	r := f.db.Load().Lookup(a)
	var p Place
	if r.DecodePath(&p.Country, "country", "iso_code") != nil || !isCountry(p.Country) {
		return Place{}
	}
	if r.DecodePath(&p.City, "city", "names", "en") != nil {
		p.City = ""
	}
	return p
}

func isCountry(s string) bool {
	return len(s) == 2 && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}

// read reads and checks a file of at most limit bytes.
func read(path string, limit int64) (*maxminddb.Reader, error) {
	content, err := load(path, limit)
	if err != nil {
		return nil, err
	}
	db, err := maxminddb.OpenBytes(content)
	if err == nil {
		err = db.Verify()
	}
	if err != nil {
		return nil, fmt.Errorf("geo: %s is no whole database in the MaxMind format: %w; get it again", path, err)
	}
	if kind := db.Metadata.DatabaseType; !strings.Contains(kind, "Country") && !strings.Contains(kind, "City") && !strings.Contains(kind, "Enterprise") {
		return nil, fmt.Errorf("geo: %s is a database of the kind %.60q: give one of countries or cities, such as GeoLite2-City", path, kind)
	}
	return db, nil
}

func load(path string, limit int64) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		if pe, ok := errors.AsType[*fs.PathError](err); ok {
			err = pe.Err
		}
		return nil, fmt.Errorf("geo: cannot read %s: %w", path, err)
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	switch {
	case err != nil:
		return nil, fmt.Errorf("geo: %w", err)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("geo: %s is no file", path)
	case info.Size() > limit:
		return nil, fmt.Errorf("geo: %s has %d bytes, the limit is %d", path, info.Size(), limit)
	}
	content := make([]byte, info.Size())
	if _, err := io.ReadFull(file, content); err != nil {
		return nil, fmt.Errorf("geo: %s: %w", path, err)
	}
	return content, nil
}
