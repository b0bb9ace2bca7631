"""gRPC's C core, by way of Python. "python3 peer.py cases|gzip|drain ADDRESS [CERTIFICATE]" calls the service that peers_test.go describes, and ends without an
error if all is as it should be. "python3 peer.py server [CERTIFICATE KEY]" serves it, writes its port, and obeys its input: "drain" and "release"."""
import base64
import concurrent.futures
import queue
import sys
import threading
import time

import grpc

MESSAGE = "nobody: wer da?\nå %41 😈"
DETAILS = base64.b64decode("CAkSG25vYm9keTogd2VyIGRhPwrDpSAlNDEg8J+YiBozCix0eXBlLmdvb2dsZWFwaXMuY29tL2dvb2dsZS5wcm90b2J1Zi5EdXJhdGlvbhIDCJAc")
LIMIT = 4 << 20
SERVICE = "eddy.interop.Peer"
OPTIONS = [("grpc.max_receive_message_length", LIMIT), ("grpc.max_send_message_length", -1)]
Code = grpc.StatusCode


def pattern(n):
    return (bytes(range(251)) * (n // 251 + 1))[:n]


def want(wanted, got):
    if wanted != got:
        raise AssertionError("got %.300r, want %.300r" % (got, wanted))


def fails(code, call):
    """Returns the error of a call that is to fail with the code."""
    try:
        call()
    except grpc.RpcError as e:
        want(code, e.code())
        return e
    raise AssertionError("a call succeeded, want %s" % code)


class Client:
    """The cases of a client."""

    def __init__(self, channel):
        def path(method):
            return "/%s/%s" % (SERVICE, method)

        self.channel = channel
        self.echo, self.fail, self.ended, self.sleep, self.nothing = (channel.unary_unary(path(m)) for m in ("Echo", "Fail", "Ended", "Sleep", "Nothing"))
        self.sum = channel.stream_unary(path("Sum"))
        self.repeat, self.hold = (channel.unary_stream(path(m)) for m in ("Repeat", "Hold"))
        self.chat, self.refuse = (channel.stream_stream(path(m)) for m in ("Chat", "Refuse"))

    def cases(self):
        self.kinds()
        self.metadata()
        self.status()
        self.refused()
        self.cancel()
        self.deadline()
        self.large()
        self.unimplemented()
        self.many()

    def kinds(self):
        want(b"hello", self.echo(b"hello"))
        want(b"", self.echo(b""))
        want(b"229018", self.sum(bytes(n) for n in (27182, 0, 8, 1828, 200000)))
        want([pattern(20000)] * 50, list(self.repeat(b"50 20000")))
        messages = queue.Queue()
        answers = self.chat(iter(messages.get, None))
        for n in (31415, 0, 9, 100000):
            messages.put(pattern(n))
            want(pattern(n), next(answers))
        messages.put(None)
        want([], list(answers))
        want([], list(self.chat(iter(()))))

    def metadata(self):
        sent = [("x-text", "one"), ("x-text", "two, three"), ("x-bytes-bin", b"\x00\xff,"), ("x-bytes-bin", b"")]
        answer, call = self.echo.with_call(b"hello", metadata=sent + [("x-long", "a" * 20000)])
        want(b"hello", answer)
        for got in call.initial_metadata(), call.trailing_metadata():
            want(sorted(sent), sorted((k, v) for k, v in got if k.startswith("x-")))

    def status(self):
        e = fails(Code.FAILED_PRECONDITION, lambda: self.fail(b""))
        want(MESSAGE, e.details())
        want(DETAILS, dict(e.trailing_metadata())["grpc-status-details-bin"])

    def refused(self):
        """The server answers and ends the call while its client sends."""
        answers = self.refuse(pattern(100000) for _ in range(100))
        want(pattern(100000), next(answers))
        fails(Code.INVALID_ARGUMENT, lambda: next(answers))

    def cancel(self):
        call = self.hold(b"")
        want(b"held", next(call))
        call.cancel()
        fails(Code.CANCELLED, lambda: next(call))
        want(b"cancelled", self.ended(b""))

    def deadline(self):
        """A call whose time is too short to begin is made again."""
        fails(Code.DEADLINE_EXCEEDED, lambda: self.sleep(b"", timeout=0.2))
        held = []
        timeout = 0.1
        while not held:
            timeout *= 2
            fails(Code.DEADLINE_EXCEEDED, lambda: held.extend(self.hold(b"", timeout=timeout)))
        want([b"held"], held)
        want(b"deadline", self.ended(b""))

    def large(self):
        want(pattern(3 << 20), self.echo(pattern(3 << 20)))
        fails(Code.RESOURCE_EXHAUSTED, lambda: self.echo(bytes(LIMIT + 1)))  # the server's limit
        fails(Code.RESOURCE_EXHAUSTED, lambda: list(self.repeat(b"1 %d" % (LIMIT + 1))))  # the client's

    def unimplemented(self):
        fails(Code.UNIMPLEMENTED, lambda: self.nothing(b""))
        fails(Code.UNIMPLEMENTED, lambda: self.channel.unary_unary("/eddy.interop.Nobody/Echo")(b""))

    def many(self):
        room = threading.Semaphore(64)
        calls = []
        for i in range(1000):
            room.acquire()
            calls.append(self.echo.future(b"call %d" % i))
            calls[-1].add_done_callback(lambda _: room.release())
        want([b"call %d" % i for i in range(1000)], [c.result() for c in calls])

    def gzip(self):
        """The test counts the bytes on the wire."""
        want(bytes(1 << 20), self.echo(bytes(1 << 20), compression=grpc.Compression.Gzip, metadata=[("x-zip", "yes")]))

    def drain(self):
        """The server says GOAWAY while calls wait in it."""
        calls = [self.hold(b"call %d" % i) for i in range(64)]
        want([b"held"] * 64, [next(c) for c in calls])
        print("held", flush=True)
        try:
            while True:
                self.echo(b"still?")
                time.sleep(0.01)
        except grpc.RpcError as e:
            want(Code.UNAVAILABLE, e.code())
        print("refused", flush=True)
        want([[b"call %d" % i] for i in range(64)], [list(c) for c in calls])
        fails(Code.UNAVAILABLE, lambda: self.echo(b""))


class Server(grpc.GenericRpcHandler):
    """The service."""

    def __init__(self):
        self.released = threading.Event()
        self.ends = queue.Queue()

    def service(self, details):
        unary, stream, both = grpc.unary_unary_rpc_method_handler, grpc.unary_stream_rpc_method_handler, grpc.stream_stream_rpc_method_handler
        return {
            "Echo": unary(self.echo),
            "Fail": unary(self.fail),
                        "Ended": unary(self.ended),
            "Sleep": unary(self.sleep),
            "Sum": grpc.stream_unary_rpc_method_handler(self.sum),
            "Repeat": stream(self.repeat),
            "Hold": stream(self.hold),
            "Chat": both(self.chat),
            "Refuse": both(self.refuse),
        }.get(details.method.removeprefix("/%s/" % SERVICE))

    def echo(self, message, call):
        back = [(k, v) for k, v in call.invocation_metadata() if k in ("x-text", "x-bytes-bin")]
        if any(k == "x-zip" for k, _ in call.invocation_metadata()):
            call.set_compression(grpc.Compression.Gzip)
        call.send_initial_metadata(back)
        call.set_trailing_metadata(back)
        return message

    def fail(self, _, call):
        call.set_trailing_metadata([("grpc-status-details-bin", DETAILS)])
        call.abort(Code.FAILED_PRECONDITION, MESSAGE)

    def hold(self, message, call):
        how = "deadline" if call.time_remaining() < 60 else "cancelled"
        call.add_callback(lambda: self.released.is_set() or self.ends.put(how))
        yield b"held"
        while call.is_active() and not self.released.wait(0.01):
            pass
        yield message

    def ended(self, *_):
        return self.ends.get().encode()

    def sleep(self, _, call):
        while call.is_active():
            time.sleep(0.01)
        return b""

    def sum(self, messages, _):
        return b"%d" % sum(map(len, messages))

    def repeat(self, message, _):
        count, size = map(int, message.split())
        for _ in range(count):
            yield pattern(size)

    def chat(self, messages, _):
        yield from messages

    def refuse(self, messages, call):
        yield next(messages)
        call.abort(Code.INVALID_ARGUMENT, "enough")


def serve(files):
    service = Server()
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(128), [service], options=OPTIONS)
    if files:
        with open(files[0], "rb") as certificate, open(files[1], "rb") as key:
            port = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([(key.read(), certificate.read())]))
    else:
        port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(port, flush=True)
    for order in sys.stdin:
        if order.strip() == "drain":
            server.stop(60)
        else:
            service.released.set()
    server.wait_for_termination()


def main(what, *args):
    if what == "server":
        serve(args)
        return
    if args[1:]:
        with open(args[1], "rb") as certificate:
            channel = grpc.secure_channel(args[0], grpc.ssl_channel_credentials(certificate.read()), options=OPTIONS)
    else:
        channel = grpc.insecure_channel(args[0], options=OPTIONS)
    with channel:
        {"cases": Client.cases, "gzip": Client.gzip, "drain": Client.drain}[what](Client(channel))


main(*sys.argv[1:])
