// Package objects keeps uploaded files in a bucket of an object store that speaks the API of Amazon S3.
package objects
