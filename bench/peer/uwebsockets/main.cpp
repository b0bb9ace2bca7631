// uWebSockets with the comparisons' small answer, and its WebSocket server that echoes or sends each message to all of its
// connections. build.sh builds it.

#include "App.h"

#include <cstdlib>
#include <iostream>
#include <string>
#include <string_view>
#include <thread>

struct Nothing {};

int main(int argc, char **argv) {
	bool hub = argc > 1 && std::string_view(argv[1]) == "hub";
	uWS::App app;

	app.get("/plaintext", [](auto *res, auto *) {
		res->writeHeader("Content-Type", "text/plain")->end("Hello, World!");
	});

	app.ws<Nothing>("/*", {
		.compression = uWS::DISABLED,
		.maxPayloadLength = 1 << 20,
		.idleTimeout = 0,
		.maxBackpressure = 1 << 20,
		.open = [hub](auto *ws) {
			if (hub) ws->subscribe("all");
		},
		.message = [hub, &app](auto *ws, std::string_view message, uWS::OpCode op) {
			if (hub) app.publish("all", message, op);
			else ws->send(message, op);
		},
	});

	app.listen("127.0.0.1", 0, [](auto *socket) {
		if (!socket) {
			std::cerr << "uwebsockets: it cannot listen" << std::endl;
			std::exit(1);
		}
		std::cout << "listening 127.0.0.1:" << us_socket_local_port(0, reinterpret_cast<us_socket_t *>(socket)) << std::endl;
	});

	// The end of the standard input is the end of the server.
	std::thread([] {
		for (std::string line; std::getline(std::cin, line);) {
			if (line == "settle") std::cout << "settled" << std::endl;
		}
		std::_Exit(0);
	}).detach();

	app.run();
}
