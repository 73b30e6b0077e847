/** Calls of commands to the admin API of a running gateway. */
import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { json } from 'node:stream/consumers'
import type { Environment } from '../../config/environment.ts'
import { Fault } from '../terminal/fault.ts'
import type * as Tls from './admin-tls.ts'

export const DEFAULT_ADMIN = 'http://127.0.0.1:9090'
const TOKEN = 'TOLLGATE_ADMIN_TOKEN'
/** Deadline of an answer: a gateway reads its files, and asks each of its workers. */
const ANSWER_WITHIN_MS = 60_000

export interface AdminOf {
  readonly admin: string
  readonly env: Environment
  /** The option with the address. Default: --admin. */
  readonly option?: '--admin' | '--against'
}

interface Call {
  readonly method?: 'GET' | 'POST' | 'PUT' | 'DELETE'
  readonly body?: object
  readonly accept?: string
  /** Default: a minute from now. */
  readonly signal?: AbortSignal
  /** A status that is an answer as well as 200 is. */
  readonly answersWith?: number
}

/** Resolves to the answer in JSON. Rejects with a Fault where there is none, or the operation refuses. */
export async function ask<Shape>(gateway: AdminOf, path: string, call: Call = {}): Promise<Shape> {
  return (await bodyOf(gateway, await askForStream(gateway, path, call))) as Shape
}

/** Resolves to the answer as a stream, as ask does. */
export async function askForStream(gateway: AdminOf, path: string, call: Call) {
  const answer = await callAdmin(gateway, path, call)
  const { statusCode: status = 0 } = answer
  if (status === 200 || status === call.answersWith) return answer
  const { code = 'failed', message = 'It is refused.' } = await bodyOf(gateway, answer)
  const reason = `the gateway at ${gateway.admin} answers ${status}`
  throw new Fault(code, message, { reason, remedy: remedies.get(code) })
}

/** Redirects are not followed, since the token would go with them. */
async function callAdmin(gateway: AdminOf, path: string, call: Call) {
  const { admin, env } = gateway
  const { method = 'GET', body, accept, signal = AbortSignal.timeout(ANSWER_WITHIN_MS) } = call
  const token = env[TOKEN]
  const url = new URL(path, admin)
  // Modules are loaded where they are needed, so that a command starts swiftly.
  const tls = url.protocol === 'https:' ? await import('./admin-tls.ts') : undefined
  const options = {
    ...tls?.tlsOf(env),
    // A connection kept since the last call may just be closing.
    agent: false,
    method,
    headers: {
      ...(body !== undefined && { 'content-type': 'application/json' }),
      ...(token !== undefined && { authorization: `Bearer ${token}` }),
      ...(accept !== undefined && { accept }),
    },
    signal,
  }
  try {
    const { request } = tls ? await import('node:https') : await import('node:http')
    const asked = request(url, options).end(body && JSON.stringify(body))
    // Errors after the head belong to the answer.
    asked.on('error', () => undefined)
    const [answer] = (await once(asked, 'response')) as [IncomingMessage]
    return answer
  } catch (error) {
    throw unreachable(gateway, error as NodeJS.ErrnoException, tls)
  }
}

function unreachable(
  { admin, option = '--admin' }: AdminOf,
  error: NodeJS.ErrnoException,
  tls: Pick<typeof Tls, 'tlsFault'> | undefined,
): Fault {
  const { code = '', message, cause } = error
  const isRefused = code === 'ECONNREFUSED'
  const reason = cause instanceof Error ? cause.message : code || message
  return new Fault('unreachable', `cannot reach the gateway at ${admin}`, {
    reason: isRefused ? 'connection refused' : reason,
    remedy: `start it: tollgate start; or name it: ${option} URL`,
    ...tls?.tlsFault(error),
    ...(!tls && code === 'ECONNRESET' && { remedy: 'if it has admin.tls, write https://' }),
    cause: error,
  })
}

/** The fault of an answer that ends too early. */
export const brokenOff = ({ admin }: AdminOf, cause: unknown): Fault =>
  new Fault('broken_off', `the answer of the gateway at ${admin} breaks off`, {
    reason: (cause as Error).message,
    remedy: 'ask again; what was printed is not all',
    cause,
  })

async function bodyOf(gateway: AdminOf, answer: IncomingMessage) {
  try {
    return (await json(answer)) as { readonly code?: string; readonly message?: string }
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw brokenOff(gateway, error)
    const { admin, option = '--admin' } = gateway
    throw new Fault('not_a_gateway', `${admin} answers ${answer.statusCode} without JSON`, {
      remedy: `name the admin listener of a gateway: ${option} URL`,
      cause: error,
    })
  }
}

const remedies: ReadonlyMap<string, string> = new Map([
  [
    'invalid_token',
    `put the token of its admin.tokenSha256 into the environment variable ${TOKEN}; over https a client certificate in TOLLGATE_ADMIN_CERT and TOLLGATE_ADMIN_KEY may do`,
  ],
  ['not_found', 'name the admin listener of a gateway: --admin URL'],
  ['unknown_client', 'see which there are: tollgate clients'],
  ['unknown_key', 'see which there are: tollgate keys list --admin URL'],
])
