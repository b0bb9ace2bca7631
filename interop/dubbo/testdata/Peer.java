import com.alibaba.dubbo.rpc.service.GenericException;
import com.caucho.hessian.io.Hessian2Input;
import com.caucho.hessian.io.Hessian2Output;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.ArrayList;
import java.util.Date;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.example.User;

/** The dubbo protocol in Java, by the published layout of its packets and Caucho's Hessian. */
public class Peer {
    static final int MAGIC = 0xdabb, REQUEST = 0x80, TWO_WAY = 0x40, EVENT = 0x20, HESSIAN = 2, OK = 20;
    static final String SERVICE = "org.example.UserProvider";

    public static void main(String[] args) throws Exception {
        if (args[0].equals("server")) {
            serve();
        } else {
            call(args[1], Integer.parseInt(args[2]));
        }
    }

    interface Body {
        void write(Hessian2Output out) throws IOException;
    }

    static void send(DataOutputStream out, int flags, int status, long id, Body body) throws IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        Hessian2Output values = new Hessian2Output(bytes);
        body.write(values);
        values.flush();
        out.writeShort(MAGIC);
        out.writeByte(flags | HESSIAN);
        out.writeByte(status);
        out.writeLong(id);
        out.writeInt(bytes.size());
        bytes.writeTo(out);
        out.flush();
    }

    static class Packet {
        int flags, status;
        long id;
        Hessian2Input values;
    }

    static Packet receive(DataInputStream in) throws IOException {
        Packet p = new Packet();
        if (in.readUnsignedShort() != MAGIC) {
            throw new IOException("no magic");
        }
        p.flags = in.readUnsignedByte();
        p.status = in.readUnsignedByte();
        p.id = in.readLong();
        byte[] body = new byte[in.readInt()];
        in.readFully(body);
        p.values = new Hessian2Input(new ByteArrayInputStream(body));
        return p;
    }

    static void call(String host, int port) throws Exception {
        try (Socket s = new Socket(host, port)) {
            DataInputStream in = new DataInputStream(s.getInputStream());
            DataOutputStream out = new DataOutputStream(s.getOutputStream());
            send(out, REQUEST | TWO_WAY | EVENT, 0, 1, values -> values.writeNull());
            Packet beat = receive(in);
            System.out.println("heartbeat " + (beat.id == 1 && (beat.flags & EVENT) != 0 && beat.status == OK));
            List<Long> list = new ArrayList<>(List.of(1L, 2L, 1L << 40));
            Map<String, String> names = new HashMap<>(Map.of("a", "b", "\u00dc", "\ud83d\ude00"));
            invoke(in, out, 2, "getUser", "JLjava/lang/String;", 7L, "Ann \u00dcnal \ud83d\ude00");
            invoke(in, out, 3, "sum", "Ljava/util/List;", list);
            invoke(in, out, 4, "names", "Ljava/util/Map;", names);
            invoke(in, out, 5, "same", "Lorg/example/User;", new User(1L << 50, "long ".repeat(20_000).trim(), new ArrayList<>(List.of("x"))));
            invoke(in, out, 6, "same", "Lorg/example/User;", (Object) null);
            invoke(in, out, 7, "later", "Ljava/util/Date;", new Date(1_700_000_000_123L));
            invoke(in, out, 8, "reversed", "[B", new byte[] {1, 2, 3, -1});
            invoke(in, out, 9, "half", "D", 3.5);
            invoke(in, out, 10, "getUser", "JLjava/lang/String;", 0L, "");
            invoke(in, out, 11, "nothing", "");
            invoke(in, out, 12, "$invoke", "Ljava/lang/String;[Ljava/lang/String;[Ljava/lang/Object;", "getUser", new String[] {"long", "java.lang.String"}, new Object[] {0L, ""});
            invoke(in, out, 13, "tagError", "Ljava/lang/String;", "bye");
        }
    }

    static void invoke(DataInputStream in, DataOutputStream out, long id, String method, String types, Object... args) throws IOException {
        send(out, REQUEST | TWO_WAY, 0, id, values -> {
            values.writeString("2.0.2");
            values.writeString(SERVICE);
            values.writeString("0.0.0");
            values.writeString(method);
            values.writeString(types);
            for (Object a : args) {
                values.writeObject(a);
            }
            values.writeObject(new HashMap<>(Map.of("path", SERVICE, "interface", SERVICE, "version", "0.0.0", "timeout", "60000")));
        });
        Packet p = receive(in);
        String text = method + " " + p.status + " ";
        if (p.id != id) {
            text += "of " + p.id;
        } else if (p.status != OK) {
            text += p.values.readString();
        } else {
            int kind = p.values.readInt(); // from 3 on with attachments
            Object v = kind % 3 == 2 ? null : p.values.readObject();
            if (v instanceof GenericException) {
                GenericException e = (GenericException) v;
                text += e.getMessage() + " of " + e.getExceptionClass() + ", " + e.getExceptionMessage();
            } else if (v instanceof Throwable) {
                text += v.getClass().getName() + ": " + ((Throwable) v).getMessage();
            } else if (v instanceof byte[]) {
                text += java.util.Arrays.toString((byte[]) v);
            } else if (v instanceof Date) {
                text += ((Date) v).getTime();
            } else {
                text += v;
            }
            if (kind >= 3) {
                text += " with " + p.values.readObject();
            }
        }
        System.out.println(text.length() > 200 ? text.length() + " characters" : text);
    }

    static void serve() throws Exception {
        try (ServerSocket ln = new ServerSocket(0, 50, java.net.InetAddress.getLoopbackAddress())) {
            System.out.println(ln.getLocalPort());
            while (true) {
                Socket s = ln.accept();
                new Thread(() -> {
                    try (s) {
                        DataInputStream in = new DataInputStream(s.getInputStream());
                        DataOutputStream out = new DataOutputStream(s.getOutputStream());
                        while (true) {
                            answer(receive(in), out);
                        }
                    } catch (IOException e) {
                        // the client has gone
                    }
                }).start();
            }
        }
    }

    static void answer(Packet p, DataOutputStream out) throws IOException {
        if ((p.flags & EVENT) != 0) {
            if ((p.flags & TWO_WAY) != 0) {
                send(out, EVENT, OK, p.id, values -> values.writeNull());
            }
            return;
        }
        for (int i = 0; i < 3; i++) { // versions and the service
            p.values.readString();
        }
        String method = p.values.readString(), types = p.values.readString();
        Object[] args = new Object[types.isEmpty() ? 0 : types.replaceAll("\\[?(L[^;]*;|[A-Z])", "x").length()];
        for (int i = 0; i < args.length; i++) {
            args[i] = p.values.readObject();
        }
        Object result = result(method, args);
        send(out, 0, OK, p.id, values -> {
            values.writeInt(result instanceof Throwable ? 3 : result == null ? 2 : 1);
            if (result != null) {
                values.writeObject(result);
            }
            if (result instanceof Throwable) {
                values.writeObject(new HashMap<>(Map.of("word", "bye")));
            }
        });
    }

    static Object result(String method, Object[] args) {
        switch (method) {
            case "GetUser":
                if ((Long) args[0] == 0) {
                    return new IllegalStateException("nobody has no number");
                }
                return new User((Long) args[0], (String) args[1], new ArrayList<>(List.of("a", "b")));
            case "Sum":
                long sum = 0;
                for (long n : (long[]) args[0]) {
                    sum += n;
                }
                return sum;
            case "same":
                return args[0];
            default:
                return new NoSuchMethodException(method);
        }
    }
}
