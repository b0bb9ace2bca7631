// Package docs holds no code, only the tests that do what the documents tell their readers to do.
package docs
