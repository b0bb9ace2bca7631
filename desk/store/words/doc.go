// Package words makes the words that messages are found by: lower-cased words and numbers, and of Chinese, Japanese and
// Korean text every character and every pair of neighbours. It is the same for every store, so that their search finds the same.
package words
