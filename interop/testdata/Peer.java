import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientInterceptors;
import io.grpc.Context;
import io.grpc.ForwardingServerCall.SimpleForwardingServerCall;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.MethodDescriptor.MethodType;
import io.grpc.ServerCall;
import io.grpc.ServerCallHandler;
import io.grpc.ServerInterceptors;
import io.grpc.ServerServiceDefinition;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.netty.GrpcSslContexts;
import io.grpc.netty.NettyChannelBuilder;
import io.grpc.netty.NettyServerBuilder;
import io.grpc.stub.ClientCalls;
import io.grpc.stub.MetadataUtils;
import io.grpc.stub.ServerCallStreamObserver;
import io.grpc.stub.ServerCalls;
import io.grpc.stub.StreamObserver;
import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.Iterator;
import java.util.List;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;

/**
 * gRPC's implementation in Java. "java Peer cases|gzip|drain ADDRESS [CERTIFICATE]" calls the service that peers_test.go describes, and ends without an error
 * if all is as it should be. "java Peer server [CERTIFICATE KEY]" serves it, writes its port, and obeys its input: "drain" and "release".
 */
public class Peer {
	static final String MESSAGE = "nobody: wer da?\nå %41 😈";
	static final byte[] DETAILS = Base64.getDecoder().decode("CAkSG25vYm9keTogd2VyIGRhPwrDpSAlNDEg8J+YiBozCix0eXBlLmdvb2dsZWFwaXMuY29tL2dvb2dsZS5wcm90b2J1Zi5EdXJhdGlvbhIDCJAc");
	static final int LIMIT = 4 << 20;
	static final Metadata.Key<String> TEXT = Metadata.Key.of("x-text", Metadata.ASCII_STRING_MARSHALLER);
	static final Metadata.Key<String> ZIP = Metadata.Key.of("x-zip", Metadata.ASCII_STRING_MARSHALLER);
	static final Metadata.Key<byte[]> BINARY = Metadata.Key.of("x-bytes-bin", Metadata.BINARY_BYTE_MARSHALLER);
	static final Metadata.Key<byte[]> STATUS = Metadata.Key.of("grpc-status-details-bin", Metadata.BINARY_BYTE_MARSHALLER);

	static final MethodDescriptor.Marshaller<byte[]> BYTES = new MethodDescriptor.Marshaller<>() {
		public InputStream stream(byte[] message) {
			return new ByteArrayInputStream(message);
		}

		public byte[] parse(InputStream message) {
			try {
				return message.readAllBytes();
			} catch (IOException e) {
				throw new UncheckedIOException(e);
			}
		}
	};

	static MethodDescriptor<byte[], byte[]> method(String name, MethodType type) {
		return MethodDescriptor.newBuilder(BYTES, BYTES).setType(type).setFullMethodName(name.contains("/") ? name : "eddy.interop.Peer/" + name).build();
	}

	static final MethodDescriptor<byte[], byte[]> ECHO = method("Echo", MethodType.UNARY);
	static final MethodDescriptor<byte[], byte[]> FAIL = method("Fail", MethodType.UNARY);
	static final MethodDescriptor<byte[], byte[]> HOLD = method("Hold", MethodType.SERVER_STREAMING);
	static final MethodDescriptor<byte[], byte[]> ENDED = method("Ended", MethodType.UNARY);
	static final MethodDescriptor<byte[], byte[]> SLEEP = method("Sleep", MethodType.UNARY);
	static final MethodDescriptor<byte[], byte[]> SUM = method("Sum", MethodType.CLIENT_STREAMING);
	static final MethodDescriptor<byte[], byte[]> REPEAT = method("Repeat", MethodType.SERVER_STREAMING);
	static final MethodDescriptor<byte[], byte[]> CHAT = method("Chat", MethodType.BIDI_STREAMING);
	static final MethodDescriptor<byte[], byte[]> REFUSE = method("Refuse", MethodType.BIDI_STREAMING);

	public static void main(String[] args) throws Exception {
		if (args[0].equals("server")) {
			new Peer.Server().serve(args);
			return;
		}
		var address = args[1].split(":");
		var builder = NettyChannelBuilder.forAddress(address[0], Integer.parseInt(address[1])).maxInboundMessageSize(LIMIT);
		if (args.length > 2) builder.sslContext(GrpcSslContexts.forClient().trustManager(new File(args[2])).build());
		else builder.usePlaintext();
		var channel = builder.build();
		var client = new Client(channel);
		switch (args[0]) {
			case "cases": client.cases(); break;
			case "gzip": client.gzip(); break;
			case "drain": client.drain(); break;
			default: throw new IllegalArgumentException(args[0]);
		}
		channel.shutdownNow();
	}

	static byte[] pattern(int n) {
		var b = new byte[n];
		for (int i = 0; i < n; i++) b[i] = (byte) (i % 251);
		return b;
	}

	/** The cases of a client. */
	static class Client {
		final Channel channel;

		Client(Channel channel) {
			this.channel = channel;
		}

		void cases() throws Exception {
			kinds();
			metadata();
			status();
			refused();
			cancel();
			deadline();
			large();
			unimplemented();
			many();
		}

		void kinds() throws Exception {
			want("hello", call(ECHO, "hello"));
			want("", call(ECHO, ""));
			var sum = new Answers();
			var parts = ClientCalls.asyncClientStreamingCall(channel.newCall(SUM, CallOptions.DEFAULT), sum);
			for (int n : new int[] {27182, 0, 8, 1828, 200000}) parts.onNext(new byte[n]);
			parts.onCompleted();
			want("229018", new String(sum.next()));
			sum.end(Status.Code.OK);
			int count = 0;
			for (var all = ClientCalls.blockingServerStreamingCall(channel, REPEAT, CallOptions.DEFAULT, "50 20000".getBytes()); all.hasNext(); count++) want(true, Arrays.equals(pattern(20000), all.next()));
			want(50, count);
			var answers = new Answers();
			var chat = ClientCalls.asyncBidiStreamingCall(channel.newCall(CHAT, CallOptions.DEFAULT), answers);
			for (int n : new int[] {31415, 0, 9, 100000}) {
				chat.onNext(pattern(n));
				want(true, Arrays.equals(pattern(n), answers.next()));
			}
			chat.onCompleted();
			answers.end(Status.Code.OK);
			var nothing = new Answers();
			ClientCalls.asyncBidiStreamingCall(channel.newCall(CHAT, CallOptions.DEFAULT), nothing).onCompleted();
			nothing.end(Status.Code.OK);
		}

		void metadata() {
			var sent = new Metadata();
			sent.put(TEXT, "one");
			sent.put(TEXT, "two, three");
			sent.put(BINARY, new byte[] {0, -1, ','});
			sent.put(BINARY, new byte[0]);
			sent.put(Metadata.Key.of("x-long", Metadata.ASCII_STRING_MARSHALLER), "a".repeat(20000));
			var header = new AtomicReference<Metadata>();
			var trailer = new AtomicReference<Metadata>();
			var with = ClientInterceptors.intercept(channel, MetadataUtils.newAttachHeadersInterceptor(sent), MetadataUtils.newCaptureMetadataInterceptor(header, trailer));
			want("hello", new String(ClientCalls.blockingUnaryCall(with, ECHO, CallOptions.DEFAULT, "hello".getBytes())));
			for (var got : List.of(header.get(), trailer.get())) {
				List<String> values = new ArrayList<>();
				got.getAll(TEXT).forEach(values::add);
				got.getAll(BINARY).forEach(b -> values.add(Arrays.toString(b)));
				want(List.of("one", "two, three", "[0, -1, 44]", "[]"), values);
			}
		}

		void status() {
			var e = fails(Status.Code.FAILED_PRECONDITION, FAIL, new byte[0], CallOptions.DEFAULT);
			want(MESSAGE, e.getStatus().getDescription());
			want(Base64.getEncoder().encodeToString(DETAILS), Base64.getEncoder().encodeToString(e.getTrailers().get(STATUS)));
		}

		/** The server answers and ends the call while its client sends. */
		void refused() throws Exception {
			var answers = new Answers();
			var sender = ClientCalls.asyncBidiStreamingCall(channel.newCall(REFUSE, CallOptions.DEFAULT), answers);
			for (int i = 0; i < 100; i++) sender.onNext(pattern(100000));
			want(true, Arrays.equals(pattern(100000), answers.next()));
			answers.end(Status.Code.INVALID_ARGUMENT);
		}

		void cancel() throws Exception {
			var answers = new Answers();
			var call = channel.newCall(HOLD, CallOptions.DEFAULT);
			ClientCalls.asyncServerStreamingCall(call, new byte[0], answers);
			want("held", new String(answers.next()));
			call.cancel("enough", null);
			answers.end(Status.Code.CANCELLED);
			want("cancelled", call(ENDED, ""));
		}

		/** A call whose time is too short to begin is made again. */
		void deadline() {
			fails(Status.Code.DEADLINE_EXCEEDED, SLEEP, new byte[0], CallOptions.DEFAULT.withDeadlineAfter(200, TimeUnit.MILLISECONDS));
			var begun = false;
			for (int ms = 200; !begun; ms *= 2) {
				try {
					for (var held = ClientCalls.blockingServerStreamingCall(channel, HOLD, CallOptions.DEFAULT.withDeadlineAfter(ms, TimeUnit.MILLISECONDS), new byte[0]);; begun = true) want("held", new String(held.next()));
				} catch (StatusRuntimeException e) {
					want(Status.Code.DEADLINE_EXCEEDED, e.getStatus().getCode());
				}
			}
			want("deadline", call(ENDED, ""));
		}

		void large() {
			want(true, Arrays.equals(pattern(3 << 20), ClientCalls.blockingUnaryCall(channel, ECHO, CallOptions.DEFAULT, pattern(3 << 20))));
			fails(Status.Code.RESOURCE_EXHAUSTED, ECHO, new byte[LIMIT + 1], CallOptions.DEFAULT); // the server's limit
			try {
				ClientCalls.blockingServerStreamingCall(channel, REPEAT, CallOptions.DEFAULT, ("1 " + (LIMIT + 1)).getBytes()).next(); // the client's
				throw new AssertionError("a message over the limit");
			} catch (StatusRuntimeException e) {
				want(Status.Code.RESOURCE_EXHAUSTED, e.getStatus().getCode());
			}
		}

		void unimplemented() {
			fails(Status.Code.UNIMPLEMENTED, method("Nothing", MethodType.UNARY), new byte[0], CallOptions.DEFAULT);
			fails(Status.Code.UNIMPLEMENTED, method("eddy.interop.Nobody/Echo", MethodType.UNARY), new byte[0], CallOptions.DEFAULT);
		}

		void many() throws Exception {
			var room = new Semaphore(64);
			List<Future<byte[]>> calls = new ArrayList<>();
			for (int i = 0; i < 1000; i++) {
				room.acquire();
				var call = ClientCalls.futureUnaryCall(channel.newCall(ECHO, CallOptions.DEFAULT), ("call " + i).getBytes());
				call.addListener(room::release, Runnable::run);
				calls.add(call);
			}
			for (int i = 0; i < 1000; i++) want("call " + i, new String(calls.get(i).get()));
		}

		/** The test counts the bytes on the wire. */
		void gzip() {
			var zip = new Metadata();
			zip.put(ZIP, "yes");
			var with = ClientInterceptors.intercept(channel, MetadataUtils.newAttachHeadersInterceptor(zip));
			want(1 << 20, ClientCalls.blockingUnaryCall(with, ECHO, CallOptions.DEFAULT.withCompression("gzip"), new byte[1 << 20]).length);
		}

		/** The server says GOAWAY while calls wait in it. */
		void drain() throws Exception {
			List<Iterator<byte[]>> calls = new ArrayList<>();
			for (int i = 0; i < 64; i++) calls.add(ClientCalls.blockingServerStreamingCall(channel, HOLD, CallOptions.DEFAULT, ("call " + i).getBytes()));
			for (var call : calls) want("held", new String(call.next()));
			System.out.println("held");
			for (boolean refused = false; !refused; ) {
				try {
					call(ECHO, "still?");
					TimeUnit.MILLISECONDS.sleep(10);
				} catch (StatusRuntimeException e) {
					want(Status.Code.UNAVAILABLE, e.getStatus().getCode());
					refused = true;
				}
			}
			System.out.println("refused");
			for (int i = 0; i < 64; i++) want("call " + i, new String(calls.get(i).next()));
			fails(Status.Code.UNAVAILABLE, ECHO, new byte[0], CallOptions.DEFAULT);
		}

		String call(MethodDescriptor<byte[], byte[]> method, String message) {
			return new String(ClientCalls.blockingUnaryCall(channel, method, CallOptions.DEFAULT, message.getBytes()));
		}

		StatusRuntimeException fails(Status.Code code, MethodDescriptor<byte[], byte[]> method, byte[] message, CallOptions options) {
			try {
				ClientCalls.blockingUnaryCall(channel, method, options, message);
			} catch (StatusRuntimeException e) {
				want(code, e.getStatus().getCode());
				return e;
			}
			throw new AssertionError(method.getFullMethodName() + " succeeded, want " + code);
		}
	}

	static void want(Object want, Object got) {
		if (!want.equals(got)) throw new AssertionError("got " + got + ", want " + want);
	}

	/** What a stream brings. */
	static class Answers implements StreamObserver<byte[]> {
		final BlockingQueue<Object> queue = new LinkedBlockingQueue<>();

		public void onNext(byte[] message) {
			queue.add(message);
		}

		public void onError(Throwable t) {
			queue.add(Status.fromThrowable(t));
		}

		public void onCompleted() {
			queue.add(Status.OK);
		}

		byte[] next() throws InterruptedException {
			var next = queue.take();
			if (next instanceof Status) throw new AssertionError("the end: " + next);
			return (byte[]) next;
		}

		void end(Status.Code code) throws InterruptedException {
			var next = queue.take();
			if (!(next instanceof Status)) throw new AssertionError("a message, want " + code);
			want(code, ((Status) next).getCode());
		}
	}

	/** The service. */
	static class Server {
		final CompletableFuture<Void> released = new CompletableFuture<>();
		final BlockingQueue<String> ended = new LinkedBlockingQueue<>();

		void serve(String[] args) throws Exception {
			var builder = NettyServerBuilder.forAddress(new InetSocketAddress("127.0.0.1", 0)).maxInboundMessageSize(LIMIT).executor(Executors.newCachedThreadPool());
			if (args.length > 1) builder.useTransportSecurity(new File(args[1]), new File(args[2]));
			var server = builder.addService(ServerInterceptors.intercept(service(), this::reflect)).build().start();
			System.out.println(server.getPort());
			var orders = new BufferedReader(new InputStreamReader(System.in));
			for (String order; (order = orders.readLine()) != null; ) {
				if (order.equals("drain")) server.shutdown();
				else released.complete(null);
			}
			server.awaitTermination();
			System.exit(0);
		}

		ServerServiceDefinition service() {
			return ServerServiceDefinition.builder("eddy.interop.Peer")
				.addMethod(ECHO, ServerCalls.asyncUnaryCall((message, out) -> answer(out, message)))
				.addMethod(FAIL, ServerCalls.asyncUnaryCall((message, out) -> {
					var trailer = new Metadata();
					trailer.put(STATUS, DETAILS);
					out.onError(Status.FAILED_PRECONDITION.withDescription(MESSAGE).asRuntimeException(trailer));
				}))
				.addMethod(HOLD, ServerCalls.asyncServerStreamingCall(this::hold))
				.addMethod(ENDED, ServerCalls.asyncUnaryCall((message, out) -> answer(out, nextEnd().getBytes())))
				.addMethod(SLEEP, ServerCalls.asyncUnaryCall((message, out) -> {}))
				.addMethod(SUM, ServerCalls.asyncClientStreamingCall(out -> new Messages(out) {
					int sum;

					public void onNext(byte[] message) {
						sum += message.length;
					}

					public void onCompleted() {
						answer(out, Integer.toString(sum).getBytes());
					}
				}))
				.addMethod(REPEAT, ServerCalls.asyncServerStreamingCall((message, out) -> {
					var numbers = new String(message).split(" ");
					for (int i = Integer.parseInt(numbers[0]); i > 0; i--) out.onNext(pattern(Integer.parseInt(numbers[1])));
					out.onCompleted();
				}))
				.addMethod(CHAT, ServerCalls.asyncBidiStreamingCall(Messages::new))
				.addMethod(REFUSE, ServerCalls.asyncBidiStreamingCall(out -> new Messages(out) {
					boolean over;

					public void onNext(byte[] message) {
						if (over) return;
						over = true;
						out.onNext(message);
						out.onError(Status.INVALID_ARGUMENT.asRuntimeException());
					}
				}))
				.build();
		}

		void answer(StreamObserver<byte[]> out, byte[] message) {
			out.onNext(message);
			out.onCompleted();
		}

		void hold(byte[] message, StreamObserver<byte[]> out) {
			var by = Context.current().getDeadline();
			var how = by != null && by.timeRemaining(TimeUnit.SECONDS) < 60 ? "deadline" : "cancelled";
			((ServerCallStreamObserver<byte[]>) out).setOnCancelHandler(() -> ended.add(how));
			out.onNext("held".getBytes());
			released.thenRun(() -> answer(out, message));
		}

		String nextEnd() {
			try {
				return ended.take();
			} catch (InterruptedException e) {
				throw new AssertionError(e);
			}
		}

		/** The client's metadata comes back in the header and in the trailer. */
		<Q, P> ServerCall.Listener<Q> reflect(ServerCall<Q, P> call, Metadata header, ServerCallHandler<Q, P> next) {
			if (header.containsKey(ZIP)) call.setCompression("gzip");
			return next.startCall(new SimpleForwardingServerCall<>(call) {
				@Override
				public void sendHeaders(Metadata out) {
					out.merge(header, Set.of(TEXT, BINARY));
					super.sendHeaders(out);
				}

				@Override
				public void close(Status status, Metadata out) {
					out.merge(header, Set.of(TEXT, BINARY));
					super.close(status, out);
				}
			}, header);
		}

		/** Messages of a client, which come back. */
		class Messages implements StreamObserver<byte[]> {
			final StreamObserver<byte[]> out;

			Messages(StreamObserver<byte[]> out) {
				this.out = out;
			}

			public void onNext(byte[] message) {
				out.onNext(message);
			}

			public void onError(Throwable t) {}

			public void onCompleted() {
				out.onCompleted();
			}
		}
	}
}
