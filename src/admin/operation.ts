/** An operation of the admin API: what it needs, how its input is checked, and its result. api.ts lists them all. */
import type { IncomingMessage } from 'node:http'
import type { z } from 'zod'
import type { ReloadOutcome, ReloadWish } from '../config/changes/blast-radius.ts'
import type { Config } from '../config/config.ts'
import type { BackendHealth } from '../core/backends/backend.ts'
import type { BackendProbe } from '../core/backends/checks.ts'
import type { BanTable } from '../core/bans/ban-table.ts'
import type { KeySetFault } from '../core/credentials/key-source.ts'
import type { Log } from '../core/record/log.ts'
import type { RequestQuery } from '../core/record/recent.ts'
import type { Shed } from '../core/rules/overload.ts'
import type { Gateways, Requests, Seen } from '../insight/api/live.ts'
import type { Live } from '../insight/live/live.ts'
import type { overview } from '../insight/live/overview.ts'
import type { ProcessNow } from '../insight/live/second.ts'
import type { Counters } from '../insight/usage/counters.ts'
import type { UsageHistory } from '../insight/usage/usage-history.ts'
import type { StoreHealth, UnsavedCounters } from '../state/contract.ts'
import { json, Refused, type Answer } from './answers.ts'
import type { ExplainNeeds } from './explain/operations.ts'

/** How the gateway is at the moment, as its workers have reported it. */
export interface GatewayState {
  workers(): readonly WorkerState[]
  backends(): readonly BackendHealth[]
  /** Tries whether the backends accept connections. */
  readonly probe: BackendProbe
  store(): StoreHealth
  unsaved(): UnsavedCounters | undefined
  /** Whether the public listener takes requests, and why. */
  listener(): { readonly ok: boolean; readonly reason: string }
  /** Why no line of the log can be written at the moment; undefined while they are. */
  logFault(): string | undefined
  /** Why the key set of the token issuer could not be fetched; undefined: it could, or is not asked for. */
  keySetFault(): KeySetFault | undefined
  /** What each serving process refuses because of overload. */
  sheds(): readonly Shed[]
  requestsByRoute(): Promise<ReadonlyMap<string, number>>
}

export interface WorkerState {
  readonly number: number
  /** undefined: the process could not be started. */
  readonly pid: number | undefined
  readonly state: 'starting' | 'listening' | 'draining' | 'ended'
  /** Unix time since which the worker takes requests; undefined: it has not begun. */
  readonly sinceMs: number | undefined
  /** Workers started before in its place, each because one had crashed. */
  readonly restarts: number
  /** undefined: the worker has not reported recently. */
  readonly now: ProcessNow | undefined
}

/** Needs of all operations together; server/gateway/admin-parts.ts provides them. */
export interface ApiNeeds extends ExplainNeeds {
  /** Has a line for each change that a caller requests, and for faults. */
  readonly log: Pick<Log, 'audit' | 'auditRefused' | 'adminFailed'>
  readonly state: GatewayState
  readonly reloads: {
    /** Configuration in force. */
    readonly config: Config
    reload(wish: ReloadWish): Promise<ReloadOutcome>
  }
  readonly bans: Pick<BanTable, 'list' | 'known' | 'impose' | 'lift' | 'nowMs'>
  readonly counters: Pick<Counters, 'look' | 'reset'>
  readonly usage: Pick<UsageHistory, 'scope' | 'day' | 'client'>
  readonly live: Live
  readonly fleet: FleetNeeds
  overview(): ReturnType<typeof overview>
  /** Recent requests of all processes; missing: those that have not answered. */
  recentRequests(
    query: RequestQuery,
  ): Promise<Pick<Requests, 'requests'> & { readonly missing: readonly string[] }>
}

/** Marks an answer as one of this gateway. */
export type Prove = (answer: Answer & { readonly body: string }) => Answer

/** The other gateways of the store. */
export interface FleetNeeds {
  /** Asks all for their parts, a second at most; they are in the order of `answered`, where this gateway comes first. target: path and query. Never rejects. */
  ask(target: string): Promise<{ parts: readonly unknown[]; gateways: Gateways }>
  /** undefined: the request does not prove to come from another gateway. */
  proverFor(request: IncomingMessage): Promise<Prove | undefined>
}

type Params = Readonly<Record<string, string>>

type ParamsOf<Path extends string> = Path extends `${string}{${infer Name}}${infer Rest}`
  ? Readonly<Record<Name, string>> & ParamsOf<Rest>
  : unknown

/** Named: type of the values in the path, which are decoded, never empty, and without control characters. */
export interface Call<Named = unknown> {
  readonly request: IncomingMessage
  readonly params: Named
  /** Of a name that stands twice, the last value. */
  readonly query: Readonly<Record<string, string>>
  /** What the audit line of a change has besides who, action, the values in the path and status. The operation writes it. */
  readonly audit: Record<string, unknown>
}

/** What is sent as JSON with 200, or a whole Answer. */
type Made = Answer | (object & { readonly contentType?: never })
type Maker<Named> = (needs: ApiNeeds, call: Call<Named>) => Made | Promise<Made>

export interface Operation {
  readonly method: string
  readonly path: string
  /** Name in the audit log; undefined: the operation changes nothing. */
  readonly action: string | undefined
  handle(needs: ApiNeeds, call: Call<Params>): Promise<Answer>
  /** What this gateway alone knows of it, for another one; undefined: it is none of theirs. */
  readonly partOf?: (needs: ApiNeeds, call: Call) => object | Promise<object>
}

const operation =
  (method: string, action?: string) =>
  // The parameters that a path names are the ones that a match of it brings.
  <const Path extends string>(path: Path, make: Maker<ParamsOf<Path>>): Operation => ({
    method,
    path,
    action,
    async handle(needs, call) {
      const made = await (make as Maker<Params>)(needs, call)
      return isAnswer(made) ? made : json(200, made)
    },
  })

const isAnswer = (made: Made): made is Answer => 'contentType' in made

export const look = operation('GET')
/** An operation that changes nothing, with its query in the body. */
export const inquire = operation('POST')
/** An operation that changes something; the audit log has a line of it whatever the outcome. */
export const change = (method: 'POST' | 'PUT' | 'DELETE', action: string) =>
  operation(method, action)

/** An operation of which each gateway knows its part. merge: makes one of all parts, this gateway's own first. names: of the gateways that they are from. */
export const lookAtAll = <Part extends Seen>(
  path: string,
  partOf: (needs: ApiNeeds, call: Call) => Part | Promise<Part>,
  merge: (parts: readonly [Part, ...Part[]], names: readonly string[]) => object,
): Operation => ({
  ...look(path, async (needs, call) => {
    const own = await partOf(needs, call)
    const { parts, gateways } = await needs.fleet.ask(call.request.url ?? path)
    // They are of the same shape, or the fleet would not know them.
    const all: readonly [Part, ...Part[]] = [own, ...(parts as readonly Part[])]
    const missing = all.flatMap((part, at) =>
      (part.missing ?? []).map((what) => (at === 0 ? what : `${gateways.answered[at]}: ${what}`)),
    )
    return {
      ...merge(all, gateways.answered),
      scope: parts.length > 0 && gateways.why.length === 0 ? 'store' : 'gateway',
      ...(missing.length > 0 && { missing }),
      gateways,
    }
  }),
  partOf,
})

/** undefined: the path does not match. */
export function matchPath(pattern: string, path: string): Params | undefined {
  const [wanted, given] = [pattern.split('/'), path.split('/')]
  if (wanted.length !== given.length) return undefined
  const params: Record<string, string> = {}
  for (const [at, name] of wanted.entries()) {
    const written = given[at] ?? ''
    const value = name.startsWith('{') ? decoded(written) : undefined
    if (value === undefined && written !== name) return undefined
    if (value !== undefined) params[name.slice(1, -1)] = value
  }
  return params
}

/** undefined: no name is written like this. */
function decoded(written: string): string | undefined {
  try {
    const text = decodeURIComponent(written)
    // eslint-disable-next-line no-control-regex
    return text === '' || /[\0-\x1f\x7f]/.test(text) ? undefined : text
  } catch {
    return undefined
  }
}

const MOST_BYTES = 64 * 1024

export const hasBody = ({ headers }: IncomingMessage): boolean =>
  headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0

/** Throws Refused if the value is another, with these words and what the schema says of the faulty field. */
export function checked<Checked>(
  value: unknown,
  schema: z.ZodType<Checked>,
  words: string,
): Checked {
  const read = schema.safeParse(value)
  if (read.success) return read.data
  const [{ path, message } = { path: [], message: '' }] = read.error.issues
  const why = path.length === 0 ? '' : ` "${String(path[0])}" ${message}.`
  throw new Refused('invalid_request', { message: `${words}${why}` })
}

/** Resolves with undefined where there is no body; rejects with Refused. */
export async function readJson(request: IncomingMessage): Promise<unknown> {
  const { 'content-type': type = '', 'content-encoding': encoding } = request.headers
  if (!hasBody(request)) return undefined
  // A page of another site can send any other type without a preflight.
  if (!/^application\/json\s*(;|$)/i.test(type) || encoding !== undefined)
    throw new Refused('unsupported_media_type')
  const chunks: Buffer[] = []
  let bytes = 0
  try {
    // The body is read to its end, within the request's time limit: unread data would cut the answer off.
    for await (const chunk of request as AsyncIterable<Buffer>) {
      bytes += chunk.length
      if (bytes <= MOST_BYTES) chunks.push(chunk)
    }
    if (bytes <= MOST_BYTES)
      return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(Buffer.concat(chunks)))
  } catch {
    throw new Refused('invalid_request', { message: 'The body is not JSON.' })
  }
  throw new Refused('body_too_large')
}
