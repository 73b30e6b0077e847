/** The fields of the log line of one request. */
import { windows, type WindowName } from '../../config/time.ts'
import type { Exchange } from '../pipeline/exchange.ts'
import { refusesFirst } from '../rules/quota-headers.ts'
import { plainText } from './safe-text.ts'

export interface RequestTimes {
  /** Unix time in ms at the end of the request. */
  readonly nowMs: number
  readonly totalMs: number
  /** Time spent in the gateway itself, without waiting for the client or a backend. */
  readonly gatewayMs: number
  /** undefined when no backend was asked. */
  readonly backendMs: number | undefined
}

/** Userinfo, query and fragment are left out, as they may carry secrets. */
export const loggedPath = (target: string | undefined) =>
  target && plainText(mayHoldSecrets.test(target) ? withoutSecrets(target) : target, 500)
const mayHoldSecrets = /[?#@]/
const withoutSecrets = (target: string): string =>
  target.replace(/[?#].*/s, '').replace(userinfo, '$1')
const userinfo = /^((?:[^/]*:)?\/\/|)[^/]*@/
export const micros = (ms: number): number => Math.round(ms * 1000) / 1000

/** Strings from clients may hold anything: they are cut and escaped. */
export function accessFields(
  exchange: Exchange,
  { nowMs, totalMs, gatewayMs, backendMs }: RequestTimes,
) {
  const { caller, quota, decidedMs, refundedMs, refusal } = exchange
  const owner = caller ?? exchange.refusedCaller
  return {
    event: 'access',
    id: plainText(exchange.id, 200),
    trace: exchange.trace?.traceId,
    client: owner && plainText(owner.clientId, 200),
    key: owner && plainText(owner.keyId, 200),
    plan: caller?.plan,
    route: exchange.route?.name,
    method: plainText(exchange.request.method ?? '', 32),
    path: loggedPath(exchange.path),
    // A target whose path was not found sound, as received.
    target: exchange.path === undefined ? loggedPath(exchange.request.url) : undefined,
    status: exchange.status,
    backend: exchange.backend,
    retried: exchange.retried === undefined ? undefined : plainText(exchange.retried, 500),
    gatewayMs: micros(gatewayMs),
    backendMs: backendMs === undefined ? undefined : micros(backendMs),
    totalMs: micros(totalMs),
    requestBytes: exchange.request.receivedBytes,
    responseBytes: exchange.responseBytes,
    address: exchange.sender.address,
    minuteLeft: quota?.minute.remaining,
    dayLeft: quota?.day.remaining,
    refusal: refusal?.code,
    cause: exchange.cause === undefined ? undefined : plainText(exchange.cause, 200),
    tunnelEnd: exchange.tunnelEnd,
    degraded: exchange.degraded ? true : undefined,
    // A replay of the log needs these; they do not follow from the other fields.
    window: quota === undefined ? refusal?.window : undefined,
    agoMs: decidedMs === undefined ? undefined : micros(nowMs - decidedMs),
    refundAgoMs: refundedMs === undefined ? undefined : micros(nowMs - refundedMs),
    rev: decidedMs === undefined ? undefined : exchange.terms.revision,
    process: exchange.process,
    // Written out for each window: a list of them takes 90 bytes more for each request.
  } satisfies Readonly<Record<`${WindowName}Left`, unknown>> & Readonly<Record<string, unknown>>
}

/** Says for a person what is left of the window that refuses first: `59/60`, or `12/1000 today`. */
export function leftInWords({ quota }: Exchange): string | undefined {
  if (quota === undefined) return undefined
  const first = refusesFirst(quota)
  const { most, suffix } = windows.find(({ name }) => quota[name] === first) ?? windows[0]
  // Nobody reaches the greatest limit that a configuration takes.
  return first.limit === most ? 'unlimited' : `${first.remaining}/${first.limit}${suffix}`
}

const MOST_IN_A_MS = 999

/** Gives the decisions of this process timestamps of which no two are the same, so that a log shows their order. */
export class UniqueTimestamps {
  #ms = 0
  /** How many timestamps of #ms were given before the latest one. */
  #before = 0

  /** Returns Unix time in ms; its fraction counts, in thousandths, the timestamps given earlier in the same ms. */
  next(): number {
    const ms = Date.now()
    this.#before = ms === this.#ms ? Math.min(this.#before + 1, MOST_IN_A_MS) : 0
    this.#ms = ms
    return ms + this.#before / 1000
  }
}
