/** The common part of all commands that ask a running gateway: their options, the calls to its admin API, and the answer as printed for a person or a program. */
import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { text } from 'node:stream/consumers'
import type { Command } from 'commander'
import type { Environment } from '../../config/environment.ts'
import type { Gateways, Seen } from '../../insight/api/live.ts'
import { gatewaysText } from '../../insight/format.js'
import { Fault } from '../terminal/fault.ts'
import { lookOf } from '../terminal/look.ts'
import { table } from '../terminal/table.ts'
import type { Column } from '../../tools/columns.ts'
import type { Output } from '../edge.ts'
import { adminUrl, loadHttp, TOKEN_HELP } from '../program.ts'
import type * as Tls from './admin-tls.ts'

export interface Asking {
  readonly admin?: string | undefined
  readonly json?: boolean
}

interface View<Row> {
  readonly columns: readonly Column<Row>[]
  readonly rows: readonly Row[]
  /** Printed instead of an empty table, on the standard error. */
  readonly none: string
  /** Printed after the table, for a person. */
  readonly next?: string | undefined
}

/** Declares a command that asks a running gateway. */
export const asking = (parent: Command, usage: string, description: string): Command =>
  parent
    .command(usage)
    .description(description)
    .option('--admin <url>', `its admin listener (default: $${ADMIN} or ${DEFAULT_URL})`, adminUrl)
    .option('--json', 'as JSON')
    .addHelpText('after', TOKEN_HELP)

export function gatewayOf({ env }: Pick<Output, 'env'>, { admin }: Asking): AdminOf {
  const found = admin ?? (env[ADMIN] || DEFAULT_URL)
  if (/^https?:/.test(found) && URL.canParse(found)) return { admin: found, env }
  throw new Fault('usage', `${ADMIN} is ${found}`, { remedy: 'write http://HOST:PORT' })
}

/** A command that shows one answer of the admin API as a list. */
export const listing =
  <Shape extends Seen, Row, Options extends Asking = Asking>(
    pathOf: (options: Options) => string,
    viewOf: (answer: Shape, nowMs: number) => View<Row>,
  ) =>
  (output: Output, options: Options): Promise<void> =>
    askAndPrint<Shape>(output, options, [pathOf(options)], (answer) =>
      printView(output, viewOf(answer, Date.parse(answer.asOf))),
    )

type Print<Shape> = (answer: Shape) => void | Promise<void>

/** Asks, and prints whose figures the answer has, what is missing from it, and the answer; as JSON where that is asked for, else as `print` does. */
export async function askAndPrint<Shape extends object>(
  output: Output,
  options: Asking,
  [path, call]: readonly [path: string, call?: Call | undefined],
  print: Print<Shape>,
): Promise<void> {
  const answer: Shape & Partial<Seen> = await ask<Shape>(gatewayOf(output, options), path, call)
  const { gateways } = answer as { readonly gateways?: Gateways }
  // A pipe wants it only where somebody is missing.
  if (gateways && (output.screen !== undefined || gateways.why.length > 0))
    output.complain(`Of ${gatewaysText(gateways)}`)
  for (const what of answer.missing ?? []) output.complain(`missing: ${what}`)
  if (options.json === true) output.print(JSON.stringify(answer, undefined, 2))
  else await print(answer)
}

export async function printView<Row>(
  output: Output,
  { columns, rows, none, next }: View<Row>,
): Promise<void> {
  if (rows.length === 0) return output.complain(none)
  for await (const line of table(columns, rows, lookOf(output))) output.print(line)
  if (next !== undefined && output.screen !== undefined) output.complain(next)
}

const DEFAULT_URL = 'http://127.0.0.1:9090'
const ADMIN = 'TOLLGATE_ADMIN'
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

export const askForText = async (gateway: AdminOf, path: string, call: Call): Promise<string> =>
  textOf(gateway, await askForStream(gateway, path, call))

export async function askForStream(gateway: AdminOf, path: string, call: Call) {
  const answer = await callAdmin(gateway, path, call)
  const { statusCode: status = 0 } = answer
  if (status === 200 || status === call.answersWith) return answer
  const refusal = await bodyOf(gateway, answer)
  const { code = 'failed', message = 'It is refused.', missing = [] } = refusal
  const reason = [`the gateway at ${gateway.admin} answers ${status}`, ...missing].join('; ')
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
    const { request } = tls ? await import('node:https') : loadHttp()
    const asked = request(url, options).end(body && JSON.stringify(body))
    // Errors after the head belong to the answer.
    asked.on('error', () => undefined)
    const [answer] = (await once(asked, 'response', { signal })) as [IncomingMessage]
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

const textOf = ({ admin }: AdminOf, answer: IncomingMessage): Promise<string> =>
  text(answer).catch((cause: Error) => {
    throw new Fault('broken_off', `the answer of the gateway at ${admin} breaks off`, {
      reason: cause.message,
      remedy: 'ask again; what was printed is not all',
      cause,
    })
  })

async function bodyOf(gateway: AdminOf, answer: IncomingMessage) {
  const { admin, option = '--admin' } = gateway
  const body = await textOf(gateway, answer)
  try {
    return JSON.parse(body) as { code?: string; message?: string; missing?: readonly string[] }
  } catch (cause) {
    throw new Fault('not_a_gateway', `${admin} answers ${answer.statusCode} without JSON`, {
      remedy: `name the admin listener of a gateway: ${option} URL`,
      cause,
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
  ['unknown_key', 'see which there are: tollgate keys list'],
])
