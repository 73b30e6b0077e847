/** What the forwarding engines share: their options, bounds on answers, and how their errors are read. */
import type { Config } from '../config/config.ts'

/** urls: origins, at least one. connections: per URL. */
export type ForwarderOptions = Pick<Config['upstream'], 'urls' | 'connections' | 'timeouts'>

/** Of one answer's head, and of its trailer section. */
export const maxAnswerHeadBytes = 32 * 1024

/** The error's code, else its name. */
export function backendErrorCode(error: Error): string {
  return 'code' in error && typeof error.code === 'string' ? error.code : error.name
}

/** For the log: code and message, never the request's content. */
export function errorText(error: Error): string {
  const code = backendErrorCode(error)
  return error.message.includes(code) ? error.message : `${code}: ${error.message}`
}
