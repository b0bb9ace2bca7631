// Package words makes the words by which messages are found. They are lower-cased words and numbers. Of Chinese,
// Japanese and Korean text they are every character and every pair of neighbours. The words are the same for every
// store, so that all searches find the same.
package words
