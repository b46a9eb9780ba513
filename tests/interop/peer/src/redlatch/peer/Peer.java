// SPDX-License-Identifier: MIT
package redlatch.peer;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.redisson.client.RedisNodeNotFoundException;

/**
 * A Redisson process that does what it is told, line by line.
 *
 * <p>A request is one line, its words parted by one space: {@code ID THREAD VERB [ARGUMENT...]}. In an argument every
 * byte other than {@code A-Z a-z 0-9 - _ .} may be written as %XX of its UTF-8. The answer is one line, {@code ID ok
 * [VALUE]} or {@code ID fail CLASS MESSAGE}. The end of standard input ends the process at once, with everything it
 * holds left as it is.
 *
 * <p>THREAD is any word. Each names a Java thread of its own, made on first use, because Redisson knows owners by their
 * thread. Requests of one thread are carried out one after another, those of different threads side by side; so an
 * answer may come after the answers to later requests, and a request that waits for a lock holds up nobody else.
 *
 * <p>To add a kind of object, write a class like {@link Locks} and name it in {@link #main}; another lock is one row
 * there.
 */
public final class Peer {
    private static final long SCANNED_MS = 10_000; // Redisson looks every 5 s who has which slots

    private final Map<String, Verb> verbs = new HashMap<>();
    private final Map<String, ExecutorService> threads = new HashMap<>();

    private Peer() {
    }

    public static void main(String[] arguments) throws IOException {
        Peer peer = new Peer();
        Clients clients = new Clients();
        clients.addVerbs(peer.verbs);
        Locks locks = new Locks(clients);
        locks.addVerbs(peer.verbs);
        new Rounds(locks).addVerbs(peer.verbs);
        new Mixed(clients).addVerbs(peer.verbs);
        new Permits(clients).addVerbs(peer.verbs);
        peer.serve();
        Runtime.getRuntime().halt(0);
    }

    private void serve() throws IOException {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            if (words.length < 3) {
                answer(words[0], "fail Request a request has an id, a thread and a verb");
                continue;
            }
            threads.computeIfAbsent(words[1], Peer::newThread).execute(() -> answer(words[0], carryOut(words)));
        }
    }

    private static ExecutorService newThread(String name) {
        return Executors.newSingleThreadExecutor(work -> new Thread(work, name));
    }

    private String carryOut(String[] words) {
        Verb verb = verbs.get(words[2]);
        if (verb == null) {
            return "fail Request no such verb";
        }
        try {
            String value = carryOut(verb, words);
            return value == null ? "ok" : "ok " + value;
        } catch (Exception e) {
            return "fail " + e.getClass().getSimpleName() + " "
                + String.valueOf(e.getMessage()).replaceAll("\\s+", " ");
        }
    }

    /** While a slot has moved and Redisson does not know where, nothing is sent. */
    private static String carryOut(Verb verb, String[] words) throws Exception {
        long until = System.currentTimeMillis() + SCANNED_MS;
        while (true) {
            try {
                return verb.carryOut(new Arguments(words, 3));
            } catch (RedisNodeNotFoundException e) {
                if (System.currentTimeMillis() > until) {
                    throw e;
                }
                Thread.sleep(100);
            }
        }
    }

    private static void answer(String id, String text) {
        synchronized (System.out) {
            System.out.print(id + " " + text + "\n");
            System.out.flush();
        }
    }
}
