/** What every server is set up for. */
import { ampleClients, exhaustedClients } from '../workload.ts'

export interface Setup {
  /** Host and port of each. */
  readonly backends: readonly string[]
  /** How long a backend may take. */
  readonly responseMs?: number
  /** How long a client may take for a request. */
  readonly requestMs?: number
  readonly bodyBytes?: number
  /** Files and sockets it may have open. */
  readonly openFiles?: number
  /** The listener speaks TLS, and HTTP/2 and 1.1 over it. */
  readonly isTls?: boolean
  /** X-Forwarded-For of loopback is believed. */
  readonly isBehindProxy?: boolean
}

const [first, second] = ampleClients
const [third] = exhaustedClients
if (first === undefined || second === undefined || third === undefined)
  throw new Error('no clients')
/** victim and greedy may ask as often as they like; metered 60 times a minute. */
export const clients = { victim: first, greedy: second, metered: third }
export const METERED_PER_MINUTE = 60
