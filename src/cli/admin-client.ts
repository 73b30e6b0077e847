/** Calls of commands to the admin API of a running gateway. */
import type { Environment } from '../config/environment.ts'

export const DEFAULT_ADMIN = 'http://127.0.0.1:9090'
const TOKEN = 'TOLLGATE_ADMIN_TOKEN'
/** A gateway reads its files, and asks each of its workers. */
const ANSWER_WITHIN_MS = 60_000

export interface AdminOf {
  readonly admin: string
  readonly env: Environment
  /** That says where it is. Default: --admin. */
  readonly option?: '--admin' | '--against'
}

export interface AdminAnswer {
  readonly status: number
  readonly body: Readonly<Record<string, unknown>>
}

/** Rejects with an Error that says why there is no answer. */
export async function askAdmin(
  { admin, env, option = '--admin' }: AdminOf,
  path: string,
  post?: object,
): Promise<AdminAnswer> {
  const token = env[TOKEN]
  try {
    const response = await fetch(new URL(path, admin), {
      method: post === undefined ? 'GET' : 'POST',
      headers: {
        ...(post !== undefined && { 'content-type': 'application/json' }),
        ...(token !== undefined && { authorization: `Bearer ${token}` }),
      },
      body: post === undefined ? null : JSON.stringify(post),
      // Else the token would go wherever it is told to.
      redirect: 'error',
      signal: AbortSignal.timeout(ANSWER_WITHIN_MS),
    })
    return { status: response.status, body: (await response.json()) as AdminAnswer['body'] }
  } catch (error) {
    const { message, cause } = error as Error & { cause?: { code?: string; message?: string } }
    const reason = cause?.code ?? cause?.message ?? message
    throw new Error(`no gateway answers at ${admin} (${reason}); ${option} says where it is`, {
      cause: error,
    })
  }
}

export const refusalInWords = ({ admin }: AdminOf, { status, body }: AdminAnswer): string => {
  const advice = `put the token of its admin.tokenSha256 into the environment variable ${TOKEN}`
  return `${admin} answers ${status}: ${status === 401 ? advice : String(body['message'])}`
}
