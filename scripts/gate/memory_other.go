//go:build !linux

package main

// memoryDir returns "": there is no directory in memory.
func memoryDir() (string, error) { return "", nil }
