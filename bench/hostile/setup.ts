/** What every server is set up for. */
import type { Issuer } from './issuer.ts'
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
  /** With HTTP/2 beside HTTP/1.1. */
  readonly isSecure?: boolean
  /** Preflights of browsers are answered. */
  readonly hasCors?: boolean
  /** X-Forwarded-For of loopback is believed. */
  readonly isBehindProxy?: boolean
  /** Tokens of this issuer are taken. */
  readonly issuer?: Issuer
}

const [first, second, fourth] = ampleClients
const [third] = exhaustedClients
if (first === undefined || second === undefined || third === undefined || fourth === undefined)
  throw new Error('no clients')
/** victim, greedy and accomplice may ask as often as they like; metered 60 times a minute. */
export const clients = { victim: first, greedy: second, accomplice: fourth, metered: third }
export const METERED_PER_MINUTE = 60
