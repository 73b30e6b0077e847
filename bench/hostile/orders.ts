/** What attackers and clients are told, and what they report. */
import type { attacks } from './attack.ts'

export interface AttackOrder {
  readonly attack: keyof typeof attacks
  readonly port: number
  /** When to stop, whatever is left to do. */
  readonly ms: number
  /** A request, its head alone or several, as bytes. */
  readonly head: string
  /** In place of it, by turns of the connections. */
  readonly heads?: readonly string[]
  readonly connections: number
  /** How often, where that is bounded. */
  readonly times?: number
  /** What follows the head, again and again. */
  readonly rest?: { readonly text: string; readonly afterMs: number; readonly repeat: number }
  /** The key that requests over HTTP/2 carry. Default: none. */
  readonly key?: string | undefined
  /** It takes no notice of answers, nor of the server's end of the connection. */
  readonly deaf?: boolean
  /** Tokens that it makes up. kid: undefined: each names a key of its own invention. */
  readonly forged?: { readonly claims: object; readonly kid: string | undefined }
  /** It comes from the address of the client, as others behind the same router do. */
  readonly isNeighbour?: boolean
  /** Speaks TLS, and offers these protocols. */
  readonly alpn?: readonly string[]
  /** Between two requests of one connection, or before a new one in place of one that was ended. */
  readonly everyMs?: number
}

/** Words and numbers for the table. */
export type AttackOutcome = Readonly<Record<string, number>>

export interface ClientOrder {
  readonly port: number
  readonly head: string
  /** One for each request in turn, instead of `head`. */
  readonly heads?: readonly string[]
  /** At most at once. */
  readonly connections: number
  /** Requests with this key go over HTTP/2 with TLS, all on one connection, instead of `head`. */
  readonly http2Key?: string
  /** undefined: each connection asks again when it is answered. */
  readonly everyMs?: number | undefined
  /** Each request comes on a new connection. */
  readonly fresh?: boolean
  /** Over TLS, whatever the certificate. */
  readonly isSecure?: boolean
  /** Whoever has not been answered so long after the end counts as `unanswered`. Default: 15,000. */
  readonly patienceMs?: number
  /** What is asked in this time counts for nothing. */
  readonly warmUpMs: number
  readonly ms: number
}

export interface ClientOutcome {
  /** By status; or why there is none. */
  readonly answers: Readonly<Record<string, number>>
  /** From when a request was due, whether it was answered or not. */
  readonly waitsMs: readonly number[]
}
