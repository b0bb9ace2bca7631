package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

const maxTokenFile = 4096

// ReadToken returns the first line of the token's file.
func ReadToken(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	data, err := readAtMost(path, maxTokenFile)
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(data))
	if token == "" {
		return "", fmt.Errorf("%s is empty: write a token of 16 or more characters into it, such as the output of \"openssl rand -hex 32\"", path)
	}
	return token, nil
}

// readAtMost returns what is in a file of at most limit bytes.
func readAtMost(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, explainFile(path, err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, explainFile(path, err)
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("%s has more than %d bytes: this is no configuration", path, limit)
	}
	return data, nil
}

// explainFile says what is wrong with a file that the user has named.
func explainFile(path string, err error) error {
	if e, ok := errors.AsType[*os.PathError](err); ok {
		err = e.Err
	}
	return fmt.Errorf("cannot read %s: %w; name a file this user can read", path, err)
}

// ReadPassword returns the first line of a file.
func ReadPassword(path string) (string, error) {
	data, err := readAtMost(path, maxTokenFile)
	if err != nil {
		return "", err
	}
	line, _, _ := strings.Cut(string(data), "\n")
	if line = strings.TrimSuffix(line, "\r"); line == "" {
		return "", fmt.Errorf("%s begins with an empty line: write the password into the first line", path)
	}
	return line, nil
}
