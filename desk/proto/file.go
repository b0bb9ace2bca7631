package proto

import (
	"fmt"
	"slices"
)

// Limits of files.
const (
	MaxAttachments = 10 // of one message
	MaxLinks       = 20 // files named in one file.links
)

// FileLinks asks for the addresses of files.
type FileLinks struct {
	IDs []string `json:"ids"`
}

// File is one file of a message, the answer to an upload, and the payload of ev.file.
type File struct {
	ID    string `json:"id"`
	Name  string `json:"name"`
	Type  string `json:"type"` // media type, by content
	Size  int64  `json:"size"` // bytes
	W     int    `json:"w,omitempty"`
	H     int    `json:"h,omitempty"`
	State string `json:"state"` // "ready", "checking" or "refused"
}

// Links answers file.links. Files that the caller may not see are in neither map.
type Links struct {
	Links     map[string]string `json:"links"`            // of files that are ready: id to address on this server
	States    map[string]string `json:"states,omitempty"` // of files that are not ready
	ExpiresMS int64             `json:"expires_ms"`       // how long the links work at least
}

func checkAttachments(ids []string) *Error {
	if len(ids) > MaxAttachments {
		return fail(CodeTooLarge, fmt.Sprintf("the message has %d files, the limit is %d", len(ids), MaxAttachments))
	}
	return checkIDs("attachments", ids)
}

func checkFileLinks(p any) *Error {
	l := p.(*FileLinks)
	if len(l.IDs) == 0 || len(l.IDs) > MaxLinks {
		return fail(CodeBadRequest, fmt.Sprintf("ids must name 1 to %d files", MaxLinks))
	}
	return checkIDs("ids", l.IDs)
}

// checkIDs checks that each is an id, and that none is there twice.
func checkIDs(field string, ids []string) *Error {
	for i, id := range ids {
		if id == "" || len(id) > maxIDBytes {
			return fail(CodeBadRequest, fmt.Sprintf("each of %s must have 1 to %d bytes", field, maxIDBytes))
		}
		if slices.Contains(ids[:i], id) {
			return fail(CodeBadRequest, field+" names a file twice")
		}
	}
	return nil
}
