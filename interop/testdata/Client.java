import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

/** Java's client of HTTP: java Client.java URL VERSION [CERTIFICATE]. It ends without a word if all is as it should be. */
public class Client {
	static HttpClient client;
	static String base;

	public static void main(String[] args) throws Exception {
		base = args[0];
		var builder = HttpClient.newBuilder().version(HttpClient.Version.HTTP_2);
		if (args.length > 2) builder.sslContext(trusting(args[2]));
		client = builder.build();
		want(args[1], get("/hello").version());
		List<CompletableFuture<HttpResponse<byte[]>>> calls = new ArrayList<>();
		for (int i = 0; i < 50; i++) calls.add(client.sendAsync(request("/hello").build(), BodyHandlers.ofByteArray()));
		for (var call : calls) want("hello\n", new String(call.get().body()));
		want(404, get("/nothing").statusCode());
		byte[] big = get("/big").body();
		want(8 << 20, big.length);
		for (int i = 0; i < big.length; i++) if ((big[i] & 255) != i % 251) want("byte " + i, big[i]);
		byte[] sent = Arrays.copyOf(big, 1 << 20);
		var echo = client.send(request("/echo").POST(BodyPublishers.ofByteArray(sent)).build(), BodyHandlers.ofByteArray());
		want(true, Arrays.equals(sent, echo.body()));
	}

	static HttpRequest.Builder request(String path) {
		return HttpRequest.newBuilder(URI.create(base + path));
	}

	static HttpResponse<byte[]> get(String path) throws Exception {
		return client.send(request(path).build(), BodyHandlers.ofByteArray());
	}

	static void want(Object want, Object got) {
		if (!want.toString().equals(got.toString())) throw new AssertionError("got " + got + ", want " + want);
	}

	static SSLContext trusting(String certificate) throws Exception {
		var store = KeyStore.getInstance(KeyStore.getDefaultType());
		store.load(null);
		try (var in = Files.newInputStream(Path.of(certificate))) {
			store.setCertificateEntry("server", CertificateFactory.getInstance("X.509").generateCertificate(in));
		}
		var trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
		trust.init(store);
		var context = SSLContext.getInstance("TLS");
		context.init(null, trust.getTrustManagers(), null);
		return context;
	}
}
