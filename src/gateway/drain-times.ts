/** How long a process that drains keeps connections open on which no request is under way: the next may be on the wire already. */

/** At a stop: a client that hears "Connection: close" on its next answer loses nothing. */
export const STOP_IDLE_AT_MOST_MS = 200
/** In a roll there is no hurry. */
export const ROLL_IDLE_AT_MOST_MS = 3_000
