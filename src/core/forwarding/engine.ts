/** The forwarding engines share their options, limits on answers, and the reading of errors. */
import type { Backend } from '../backends/backend.ts'
import type { Config } from '../../config/config.ts'
import { inWords } from '../rules/tls-faults.ts'

/**
 * connections: limit per backend; a request that gets no connection within its response timeout fails as connect_timeout.
 * connectionUses, connectionAgeMs: a connection that has reached either limit is closed at the end of its answer.
 */
export interface EngineOptions extends Pick<
  Config['upstream'],
  'connections' | 'connectionUses' | 'connectionAgeMs' | 'timeouts'
> {
  /** A connection was closed because the backend sent bytes that no request had asked for. */
  readonly onSurplus: (backend: Backend) => void
}

/** Longest head of an answer, and longest trailer section. */
export const maxAnswerHeadBytes = 32 * 1024

/** Returns the error's code, or its name if it has none. */
export function backendErrorCode(error: Error): string {
  return 'code' in error && typeof error.code === 'string' ? error.code : error.name
}

/** Describes an error for the log by code and message, never by the request's content. */
export function errorText(error: Error): string {
  const code = backendErrorCode(error)
  const text = error.message.includes(code) ? error.message : `${code}: ${error.message}`
  return inWords(text)
}

/** Copies the flat header fields and adds the backend's Host if there is none. */
export function withHost(headers: readonly string[], { hostHeader }: Backend): string[] {
  const hasHost = headers.some((name, at) => at % 2 === 0 && name.toLowerCase() === 'host')
  return hasHost ? [...headers] : ['Host', hostHeader, ...headers]
}
