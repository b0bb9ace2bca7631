package bot

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// Bounds of a stream of server-sent events.
const (
	maxLine   = 64 << 10 // bytes of one line, and of the data of one event
	maxStream = 4 << 20  // bytes of all of it
)

// eventReader reads the data of server-sent events, as text/event-stream of the HTML standard, within bounds.
type eventReader struct {
	r    *bufio.Reader
	left io.LimitedReader
}

func newEventReader(r io.Reader) *eventReader {
	e := &eventReader{left: io.LimitedReader{R: r, N: maxStream + 1}}
	e.r = bufio.NewReaderSize(&e.left, maxLine)
	return e
}

// next returns the data of the next event. At the end the error is io.EOF.
func (e *eventReader) next() ([]byte, error) {
	var data []byte
	for {
		line, err := e.r.ReadSlice('\n')
		switch {
		case e.left.N == 0:
			return nil, fmt.Errorf("bot: the stream is too long, the limit is %d bytes", maxStream)
		case errors.Is(err, bufio.ErrBufferFull):
			return nil, fmt.Errorf("bot: a line of the stream is too long, the limit is %d bytes", maxLine)
		case err != nil && (err != io.EOF || len(line)+len(data) == 0): //nolint:errorlint // io.EOF is never wrapped here
			return nil, err
		}
		last := err != nil // the end without a line break
		line = bytes.TrimRight(line, "\r\n")
		if value, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			if len(data)+len(value) > maxLine {
				return nil, fmt.Errorf("bot: an event of the stream is too long, the limit is %d bytes", maxLine)
			}
			if data != nil {
				data = append(data, '\n')
			}
			data = append(data, bytes.TrimPrefix(value, []byte(" "))...)
		}
		if (len(line) == 0 || last) && len(data) > 0 {
			return data, nil
		}
	}
}
