package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
)

// entry is one file of an archive.
type entry struct {
	name, file string
	mode       int64
}

// archive writes the archive of one platform and returns its name: zip for Windows, tar.gz for the others.
func (r *release) archive(platform string) (string, error) {
	system, processor, _ := strings.Cut(platform, "/")
	base := fmt.Sprintf("eddy-%s-%s-%s", r.version, system, processor)
	binary := "eddy"
	if system == "windows" {
		binary = "eddy.exe"
	}
	entries := []entry{{path.Join(base, binary), r.bins[platform], 0o755}}
	files := r.with
	if system == "linux" {
		files = append(files[:len(files):len(files)], r.linux...)
	}
	for _, file := range files {
		entries = append(entries, entry{path.Join(base, filepath.Base(file)), file, 0o644})
	}
	name, write := base+".tar.gz", writeTar
	if system == "windows" {
		name, write = base+".zip", writeZip
	}
	f, err := os.Create(filepath.Join(r.out, name))
	if err != nil {
		return "", err
	}
	return name, errors.Join(write(f, entries, r.date), f.Close())
}

func writeTar(w io.Writer, entries []entry, date time.Time) error {
	z, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	t := tar.NewWriter(z)
	for _, e := range entries {
		info, err := os.Stat(e.file)
		if err != nil {
			return err
		}
		head := &tar.Header{Typeflag: tar.TypeReg, Name: e.name, Mode: e.mode, Size: info.Size(), ModTime: date, Uname: "root", Gname: "root", Format: tar.FormatUSTAR}
		if err := t.WriteHeader(head); err != nil {
			return err
		}
		if err := copyFile(t, e.file); err != nil {
			return err
		}
	}
	return errors.Join(t.Close(), z.Close())
}

func writeZip(w io.Writer, entries []entry, date time.Time) error {
	z := zip.NewWriter(w)
	for _, e := range entries {
		head := &zip.FileHeader{Name: e.name, Method: zip.Deflate, Modified: date}
		head.SetMode(os.FileMode(e.mode))
		f, err := z.CreateHeader(head)
		if err != nil {
			return err
		}
		if err := copyFile(f, e.file); err != nil {
			return err
		}
	}
	return z.Close()
}

func copyFile(w io.Writer, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(w, f)
	return err
}
