/** What the forwarding engines share: their options, bounds on answers, and how their errors are read. */
import type { Backend } from '../backends/backend.ts'
import type { Config } from '../../config/config.ts'
import { inWords } from '../rules/tls-faults.ts'

/**
 * connections: at most that many per backend at a time; a request that finds none free within its response timeout fails
 * as connect_timeout. connectionUses, connectionAgeMs: a connection that has reached one is closed behind its answer.
 */
export interface EngineOptions extends Pick<
  Config['upstream'],
  'connections' | 'connectionUses' | 'connectionAgeMs' | 'timeouts'
> {
  /** A connection was closed since the backend had sent on it what nobody asked for. */
  readonly onSurplus: (backend: Backend) => void
}

/** Of one answer's head, and of its trailer section. */
export const maxAnswerHeadBytes = 32 * 1024

/** The error's code, else its name. */
export function backendErrorCode(error: Error): string {
  return 'code' in error && typeof error.code === 'string' ? error.code : error.name
}

/** For the log: what is known of it in words, code and message, never the request's content. */
export function errorText(error: Error): string {
  const code = backendErrorCode(error)
  const text = error.message.includes(code) ? error.message : `${code}: ${error.message}`
  return inWords(text)
}

/** A copy of the header fields, flat, with the backend's own Host where there is none. */
export function withHost(headers: readonly string[], { hostHeader }: Backend): string[] {
  const hasHost = headers.some((name, at) => at % 2 === 0 && name.toLowerCase() === 'host')
  return hasHost ? [...headers] : ['Host', hostHeader, ...headers]
}
