package files

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func zipHead(names ...string) string {
	var b strings.Builder
	for _, n := range names {
		b.WriteString("PK\x03\x04\x14\x00\x00\x00\x08\x00" + strings.Repeat("\x00", 20) + n + "\x03\x00")
	}
	return b.String()
}

func TestDetect(t *testing.T) {
	for name, c := range map[string]struct{ head, file, want string }{
		"png":                    {"\x89PNG\r\n\x1a\n....", "x.txt", "image/png"},
		"jpeg":                   {"\xff\xd8\xff\xe0....", "", "image/jpeg"},
		"gif":                    {"GIF89a....", "", "image/gif"},
		"gif and script":         {"GIF89a/*<script>alert(1)</script>*/=1", "x.html", "image/gif"},
		"webp":                   {"RIFF\x10\x00\x00\x00WEBPVP8 ", "", "image/webp"},
		"wav":                    {"RIFF\x10\x00\x00\x00WAVEfmt ", "", "audio/wav"},
		"pdf":                    {"%PDF-1.7\n", "", "application/pdf"},
		"zip":                    {zipHead("a.txt"), "a.docx", "application/zip"},
		"docx":                   {zipHead("[Content_Types].xml", "word/document.xml"), "x.zip", docx},
		"xlsx by name":           {zipHead("[Content_Types].xml", "_rels/.rels"), "Book.XLSX", xlsx},
		"pptx":                   {zipHead("_rels/.rels", "ppt/presentation.xml"), "", pptx},
		"office of no kind":      {zipHead("[Content_Types].xml"), "x", "application/zip"},
		"odt":                    {zipHead("mimetype" + odt), "", odt},
		"ods":                    {zipHead("mimetype" + ods), "", ods},
		"odp":                    {zipHead("mimetype" + odp), "", odp},
		"jar":                    {zipHead("META-INF/MANIFEST.MF"), "x.zip", "application/java-archive"},
		"apk":                    {zipHead("AndroidManifest.xml"), "x.zip", "application/java-archive"},
		"doc":                    {"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1....", "x.DOC", "application/msword"},
		"ole":                    {"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1....", "x.msi", "application/x-ole-storage"},
		"mp4":                    {"\x00\x00\x00\x20ftypisom....", "", "video/mp4"},
		"mov":                    {"\x00\x00\x00\x20ftypqt  ....", "", "video/quicktime"},
		"m4a":                    {"\x00\x00\x00\x20ftypM4A ....", "", "audio/mp4"},
		"heic":                   {"\x00\x00\x00\x20ftypheic....", "", "image/heic"},
		"unknown brand":          {"\x00\x00\x00\x20ftypzzzz....", "", unknownType},
		"webm":                   {"\x1a\x45\xdf\xa3\x01\x42\x82\x84webm", "", "video/webm"},
		"matroska":               {"\x1a\x45\xdf\xa3\x01\x42\x82\x88matroska", "", unknownType},
		"mp3":                    {"ID3\x03....", "", "audio/mpeg"},
		"mp3 without tags":       {"\xff\xfb\x90\x64", "", "audio/mpeg"},
		"ogg":                    {"OggS\x00", "", "audio/ogg"},
		"text":                   {"hello, 世界\n", "x.html", "text/plain"},
		"text of another coding": {"\xc4\xe3\xba\xc3", "", "text/plain"},
		"UTF-16":                 {"\xff\xfeh\x00i\x00", "", "text/plain"},
		"comparison":             {"< 5 and > 3", "", "text/plain"},
		"html as png":            {"<!DOCTYPE html><script>alert(1)</script>", "x.png", "text/html"},
		"html after blanks":      {"\ufeff \n\t<ScRiPt>alert(1)</script>", "x.png", "text/html"},
		"html in UTF-16":         {"\xff\xfe<\x00h\x00t\x00m\x00l\x00>\x00", "", "text/html"},
		"html after comment":     {"<!-- hi --><html>", "", "text/html"},
		"svg":                    {`<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"/>`, "x.png", "image/svg+xml"},
		"svg in xml":             {`<?xml version="1.0"?><!-- x --><svg/>`, "", "image/svg+xml"},
		"xml":                    {`<?xml version="1.0"?><a/>`, "", "text/xml"},
		"any tag":                {`<a href="javascript:alert(1)">x</a>`, "", "text/html"},
		"script":                 {"#!/bin/sh\n", "x.txt", "application/x-executable"},
		"program":                {"MZ\x90\x00", "x.png", "application/x-executable"},
		"binary":                 {"\x00\x01\x02", "x.png", unknownType},
		"nothing":                {"", "x.png", unknownType},
	} {
		if got := Detect([]byte(c.head), c.file); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// What a browser could run is neither taken nor shown in the page.
func TestActiveTypesAreNotTaken(t *testing.T) {
	for _, active := range []string{"text/html", "image/svg+xml", "text/xml", "application/xhtml+xml", "application/x-executable", "application/java-archive", unknownType} {
		if slices.Contains(Types(), active) || Inline(active) {
			t.Errorf("%s is taken or shown", active)
		}
	}
	for _, typ := range Types() {
		if Inline(typ) != slices.Contains([]string{"image/png", "image/jpeg", "image/gif", "image/webp"}, typ) {
			t.Errorf("%s: shown in the page: %v", typ, Inline(typ))
		}
		if extensions(typ)[0] == ".bin" {
			t.Errorf("%s has no ending", typ)
		}
	}
}

func TestCleanName(t *testing.T) {
	long := strings.Repeat("界", 60)
	for in, want := range map[string]string{
		"photo.png":              "photo.png",
		"Photo.PNG":              "Photo.PNG",
		"../../etc/passwd":       "passwd.png",
		`C:\Users\x\photo.png`:   "photo.png",
		"/abs/photo.png":         "photo.png",
		"..":                     "file.png",
		"":                       "file.png",
		".png":                   "png.png",
		"...":                    "file.png",
		"a\x00b\nc\x7f.png":      "abc.png",
		"x\u202egnp.exe":         "xgnp.exe.png", // would be shown as xexe.png
		"a\u200bb\u2066c.png":    "abc.png",
		"a\u2028b.png":           "ab.png",
		"con.png":                "filecon.png",
		"COM1.tar.png":           "fileCOM1.tar.png",
		"console.png":            "console.png",
		"con." + long:            "filecon." + strings.Repeat("界", 36) + ".png",
		`a<b>:"|?*.png`:          "a_b______.png",
		"evil.html":              "evil.html.png",
		"photo.png ":             "photo.png",
		" photo .png":            "photo.png",
		"\xff\xfe.png":           "_.png",
		"图片 1.png":               "图片 1.png",
		long + ".png":            strings.Repeat("界", 38) + ".png",
		strings.Repeat("x", 500): strings.Repeat("x", 116) + ".png",
	} {
		got := CleanName(in, "image/png")
		if got != want || len(got) > maxName || !utf8.ValidString(got) {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	if got := CleanName("page.html", "text/plain"); got != "page.html.txt" {
		t.Errorf("a text that calls itself a page: %q", got)
	}
	if got := CleanName("notes.csv", "text/plain"); got != "notes.csv" {
		t.Errorf("%q", got)
	}
}

func FuzzCleanName(f *testing.F) {
	for _, s := range []string{"a.png", "../x", "\u202e.exe", "con", strings.Repeat("界", 99)} {
		f.Add(s, "image/png")
	}
	f.Fuzz(func(t *testing.T, name, mediaType string) {
		got := CleanName(name, mediaType)
		if got == "" || len(got) > maxName || !utf8.ValidString(got) || strings.ContainsAny(got, "/\\\x00\r\n\"<>:|?*\u202e\u2066") || got[0] == '.' {
			t.Fatalf("%q: %q", name, got)
		}
		if again := CleanName(got, mediaType); again != got {
			t.Fatalf("%q: %q, again %q", name, got, again)
		}
	})
}
