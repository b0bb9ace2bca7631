package objects

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/s3utils"
)

const (
	scheme = "s3://"
	amazon = "https://s3.amazonaws.com"
)

// Address says which objects of which bucket are meant, and where.
type Address struct {
	Bucket    string
	Prefix    string   // of all keys, "" or with a slash at its end
	Endpoint  *url.URL // scheme and host only
	Region    string
	PathStyle minio.BucketLookupType
}

// IsURL reports whether a place of files is meant to be a URL, and not a directory.
func IsURL(place string) bool { return strings.Contains(place, "://") }

// Parse reads an address such as s3://BUCKET/PREFIX?endpoint=https://HOST:PORT&region=REGION&path-style=true. Everything
// but the bucket may be missing. AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, AWS_REGION and AWS_DEFAULT_REGION stand in, and
// Amazon is the last endpoint. Keys are not part of an address, and errors do not repeat what may be one.
func Parse(text string) (Address, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme+"://" != scheme {
		return Address{}, errors.New("is no address of a bucket: write s3://BUCKET/PREFIX?endpoint=https://HOST:PORT&region=REGION, or the path of a directory")
	}
	if u.User != nil {
		return Address{}, errors.New("has a user or a key in it: give keys by AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or by the file ~/.aws/credentials")
	}
	a := Address{Bucket: u.Host, Prefix: strings.Trim(u.Path, "/")}
	if a.Bucket == "" {
		return Address{}, errors.New("names no bucket: write s3://BUCKET")
	}
	if err := s3utils.CheckValidBucketNameStrict(a.Bucket); err != nil {
		return Address{}, fmt.Errorf("names the bucket %.70q: %w", a.Bucket, err)
	}
	if a.Prefix != "" {
		a.Prefix += "/"
	}
	if err := s3utils.CheckValidObjectNamePrefix(a.Prefix); err != nil || strings.Contains("/"+a.Prefix, "//") || strings.Contains("/"+a.Prefix, "/../") || len(a.Prefix) > maxPrefix {
		return Address{}, fmt.Errorf("has the prefix %.70q: give at most %d bytes of names with single slashes between them", a.Prefix, maxPrefix)
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil || u.Fragment != "" {
		return Address{}, errors.New("cannot be read behind the bucket: write ?endpoint=https://HOST:PORT&region=REGION")
	}
	known := []string{"endpoint", "region", "path-style"}
	for name, values := range query {
		if !slices.Contains(known, name) || len(values) != 1 {
			return Address{}, fmt.Errorf("says %.40q, or says it twice: known are %s, once each", name, strings.Join(known, ", "))
		}
	}
	switch style := query.Get("path-style"); style {
	case "":
		a.PathStyle = minio.BucketLookupAuto
	case "true":
		a.PathStyle = minio.BucketLookupPath
	case "false":
		a.PathStyle = minio.BucketLookupDNS
	default:
		return Address{}, fmt.Errorf("says path-style=%.20q: give true or false", style)
	}
	endpoint := cmp.Or(query.Get("endpoint"), os.Getenv("AWS_ENDPOINT_URL_S3"), os.Getenv("AWS_ENDPOINT_URL"), amazon)
	if a.Endpoint, err = parseEndpoint(endpoint); err != nil {
		return Address{}, err
	}
	a.Region = cmp.Or(query.Get("region"), os.Getenv("AWS_REGION"), os.Getenv("AWS_DEFAULT_REGION"))
	if a.Region == "" && s3utils.IsAmazonEndpoint(*a.Endpoint) {
		return Address{}, errors.New("names no region: write ?region=eu-central-1, or set AWS_REGION; for another store than Amazon's write ?endpoint=https://HOST:PORT")
	}
	a.Region = cmp.Or(a.Region, "us-east-1")
	return a, nil
}

// maxPrefix leaves room for names in keys, which may have 1024 bytes.
const maxPrefix = 512

func parseEndpoint(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("has an endpoint that is no address: write endpoint=https://HOST:PORT, and nothing behind it")
	}
	return &url.URL{Scheme: u.Scheme, Host: u.Host}, nil
}

// String is for messages.
func (a Address) String() string {
	return scheme + strings.TrimSuffix(a.Bucket+"/"+a.Prefix, "/") + " at " + a.Endpoint.String()
}
