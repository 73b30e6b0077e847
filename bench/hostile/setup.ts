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
  /** To each backend. Default: 128. */
  readonly connections?: number
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

const [first, second, ...rest] = ampleClients
const [greedy2, greedy3, greedy4, accomplice] = rest
const [third] = exhaustedClients
if (!first || !second || !greedy2 || !greedy3 || !greedy4 || !accomplice || !third)
  throw new Error('no clients')
/** victim, accomplice and the greedy ones may ask as often as they like; metered 60 times a minute. */
export const clients = {
  victim: first,
  greedy: second,
  greedy2,
  greedy3,
  greedy4,
  accomplice,
  metered: third,
}
export const METERED_PER_MINUTE = 60
