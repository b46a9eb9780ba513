// SPDX-License-Identifier: MIT
package redlatch.peer;

import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;

/** A request's arguments, taken from left to right. */
final class Arguments {
    private final String[] words;
    private int next;

    Arguments(String[] words, int first) {
        this.words = words;
        this.next = first;
    }

    String text() {
        if (next >= words.length) {
            throw new IllegalArgumentException("argument " + (next - 2) + " is missing");
        }
        return URLDecoder.decode(words[next++].replace("+", "%2B"), StandardCharsets.UTF_8);
    }

    long number() {
        return Long.parseLong(text());
    }
}
