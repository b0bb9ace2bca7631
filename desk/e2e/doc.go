// Package e2e holds the tests that drive the desk's pages in a real browser against the real server. They tell the story
// of a customer and an agent, reloads and restarts included. The package has no code of its own. Its tests run when
// EDDY_REQUIRE names browser. They run side by side in one Chromium, each with profiles and a server of its own.
package e2e
