// SPDX-License-Identifier: MIT
package redlatch.peer;

/** What a request can ask for. Runs on the thread that the request names. */
interface Verb {
    /** Returns the answer's value, or null when there is none to tell; an exception becomes a {@code fail}. */
    String carryOut(Arguments arguments) throws Exception;
}
