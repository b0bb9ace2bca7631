// Package house holds no code, only tests about the repository as a whole: the direction of imports and the promises of docs/requirements.md.
package house
