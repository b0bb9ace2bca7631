// Package websocket serves RFC 6455 connections on Eddy's loops.
package websocket
