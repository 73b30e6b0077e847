/** Gateways as processes of their own or in this one, calls to them, and what they have written into Redis. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { ReadinessReport } from '../../src/admin/readiness.ts'
import { loadUsableConfig } from '../../src/cli/usable-config.ts'
import { quotaKey } from '../../src/state/redis/authority.ts'
import { configText, openGateway, sha256, sumOf } from '../support/gateway.ts'
import { ownMs } from '../support/own-time.ts'
import { startTollgate, temporaryFile, type TollgateProcess } from '../support/processes.ts'
import { answer, startRawBackend } from '../support/raw-backend.ts'
import { startRedisServer, type RedisServer } from '../support/redis-server.ts'

export { atEnd } from '../support/ending.ts'
export { startRawBackend, startRedisServer, startTollgate }

/** Wherever it runs. */
export interface Gateway {
  /** Such as http://127.0.0.1:40001 */
  readonly origin: string
  readonly adminOrigin: string
  call(key: string | undefined, path?: string, init?: RequestInit): Promise<Answer>
  /** See sumOf. */
  metric(start: string): Promise<number>
  /** The status of /readyz and its text. */
  ready(): Promise<string>
  /** What /readyz says of this check, and its status. */
  check(name: string): Promise<Check>
  /** Log lines of this event so far. */
  logged(event: string): Record<string, unknown>[]
  /** The log so far. */
  stderr(): string
}

/** The status of the page, and the check, if it is there. */
type Check = { readonly status: number } & Partial<ReadinessReport['checks'][number]>

export type GatewayProcess = Gateway & TollgateProcess

/** As `tollgate start` makes it, in this process. */
export interface GatewayHere extends Gateway {
  /** As SIGHUP does; resolves when it was taken or refused. */
  reload(): Promise<void>
  /** As it is once its files differ from what is in force. */
  outdate(): void
  /** As SIGTERM does. */
  stop(): Promise<void>
}

export interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly body: string
  /** `code` of an Error body, else undefined. */
  readonly code: string | undefined
  /** From the call to the end of the body, at the client; a pause of this process, which may have the gateway in it, is none of it. */
  readonly tookMs: number
}

/** Runs `tollgate ARGS` to its end. */
export const run = (...args: string[]) => startTollgate(args).finished

/** The log as it stands on stderr; throws if a line is none of it. */
export const linesOf = (stderr: string): Record<string, unknown>[] =>
  stderr
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as Record<string, unknown>)

type StartOptions = NonNullable<Parameters<typeof startTollgate>[1]>

/** Starts a gateway with the configuration file and waits until both listeners are up and a store, if any, is in use. */
export async function gatewayProcess(
  file: string,
  { waitForStore = true, ...options }: StartOptions & { waitForStore?: boolean } = {},
): Promise<GatewayProcess> {
  const gateway = await withOrigins(startTollgate(['start', '--config', file], options))
  if (waitForStore) await storeInUse(gateway)
  return gateway
}

/** The same of one worker, in this process: for what a process of its own would show no better. */
export async function gatewayHere(
  file: string,
  { env = {}, waitForStore = true } = {},
): Promise<GatewayHere> {
  const config = await loadUsableConfig(file, env)
  if (config.server.workers > 1) throw new Error('its workers would be processes of their own')
  const load = () => loadUsableConfig(file, env, { isServing: true })
  const { gateway, origin, adminOrigin, logged, stop } = await openGateway(config, load)
  const here = {
    ...asked({ origin, adminOrigin, stderr: logged }),
    reload: async () => void (await gateway.reloads.reload()),
    outdate: () => void (gateway.live.changes.outdated = gateway.reloads.config),
    stop,
  }
  if (waitForStore) await storeInUse(here)
  return here
}

const storeInUse = ({ check }: Gateway): Promise<number> =>
  eventually('the store is in use', async () =>
    ['available', 'embedded'].includes((await check('store')).reason ?? ''),
  )

/** Waits until both listeners of a gateway are up, and all that was logged till then is read: a line for each worker, too. */
export async function withOrigins(started: TollgateProcess): Promise<GatewayProcess> {
  const origin = new URL(await started.listening('tollgate')).origin
  const adminOrigin = await started.listening('admin')
  const gateway = { ...started, ...asked({ origin, adminOrigin, stderr: started.stderr }) }
  // The log comes on another pipe than the addresses, and has these as the last lines of a start.
  await eventually('the log of the start', () => gateway.logged('listening').length === 2)
  return gateway
}

const asked = (at: Pick<Gateway, 'origin' | 'adminOrigin' | 'stderr'>): Gateway => ({
  ...at,
  call: (key, path = '/v1/pets', init = {}) => call(`${at.origin}${path}`, key, init),
  metric: async (start) => sumOf(await (await fetch(`${at.adminOrigin}/metrics`)).text(), start),
  ready: async () => {
    const response = await fetch(`${at.adminOrigin}/readyz`)
    return `${response.status} ${await response.text()}`
  },
  check: async (name) => {
    const response = await fetch(`${at.adminOrigin}/readyz`)
    const { checks } = (await response.json()) as ReadinessReport
    return { status: response.status, ...checks.find((check) => check.name === name) }
  },
  // Only lines that may be meant are parsed: it is asked again and again, and the log of a loaded gateway is long.
  logged: (event) =>
    at
      .stderr()
      .split('\n')
      .filter((line) => line.includes(`"${event}"`) && line.startsWith('{') && line.endsWith('}'))
      .map((line) => JSON.parse(line) as Record<string, unknown>)
      .filter((line) => line['event'] === event),
})

/**
 * As a client that comes back: on a machine whose every core is busy a store, or the gateway itself, may be late, and answers 503, which admits
 * and charges nothing. After ten seconds of that it is the answer.
 */
export async function decided<Given extends Pick<Answer, 'code'>>(
  ask: () => Promise<Given>,
): Promise<Given> {
  for (let attempt = 0; attempt < 40; attempt++) {
    const answer = await ask()
    if (answer.code !== 'service_unavailable' && answer.code !== 'overloaded') return answer
    await sleep(250)
  }
  return ask()
}

export async function call(
  url: string,
  key: string | undefined,
  init: RequestInit = {},
): Promise<Answer> {
  const startedMs = ownMs()
  const headers = new Headers(init.headers)
  if (key !== undefined) headers.set('authorization', `Bearer ${key}`)
  const response = await fetch(url, { ...init, headers })
  const body = await response.text()
  const tookMs = ownMs() - startedMs
  const isError = response.headers.get('content-type')?.startsWith('application/json') === true
  // The answer to HEAD has no body that could say it.
  const said = body === '' && response.status === 503 ? '{"code":"service_unavailable"}' : body
  const code = isError && !response.ok ? (JSON.parse(said) as { code: string }).code : undefined
  return { status: response.status, headers: response.headers, body, code, tookMs }
}

/** A backend that keeps requests waiting until it is told to answer them. */
export async function startSlowBackend() {
  const waiting: (() => void)[] = []
  const backend = await startRawBackend({
    respond: async () => {
      await new Promise<void>((resolve) => waiting.push(resolve))
      return answer(200, 'at last')
    },
  })
  return { ...backend, waiting, answerAll: () => waiting.splice(0).forEach((go) => go()) }
}

export interface TestClient {
  readonly id: string
  readonly keys: readonly string[]
  readonly perMinute: number
  readonly perDay?: number
}

/** YAML of clients with limits of their own; key ids are CLIENT-1, CLIENT-2 and so on. */
export function clientsBlock(clients: readonly TestClient[]): string {
  const entries = clients.map(({ id, keys, perMinute, perDay = 1_000_000 }) => {
    const list = keys.map((key, at) => `{ id: ${id}-${at + 1}, sha256: ${sha256(key)} }`)
    return `  - { id: ${id}, plan: enterprise, limits: { perMinute: ${perMinute}, perDay: ${perDay} }, keys: [${list.join(', ')}] }`
  })
  return `clients:\n${entries.join('\n')}`
}

/** A configuration file for gateways in front of one backend. */
export function configFile(upstream: string, blocks: Record<string, string> = {}): string {
  return temporaryFile('gateway.yaml', configText({ upstreams: [upstream], blocks }))
}

/** The block of a store on this Redis, under the prefix of a shared one, with more settings of it. */
export const storeOn = (
  { url, prefix = 'tollgate' }: { url: string; prefix?: string },
  more = '',
): string => `store: { redis: "${url}", prefix: "${prefix}", ${more} }`

/** What Redis holds of a client: totals of both windows. Absent fields count as 0. */
export function quotaInRedis(
  redis: Pick<RedisServer, 'cli'> & { readonly prefix?: string },
  client: string,
  prefix = redis.prefix ?? 'tollgate',
) {
  const lines = redis.cli('HGETALL', quotaKey(prefix, client)).split('\n')
  const field = (name: string): number => Number(lines[lines.indexOf(name) + 1] ?? 0)
  return {
    minuteTaken: field('minuteTaken'),
    minuteUsed: field('minuteUsed'),
    dayTaken: field('dayTaken'),
    dayUsed: field('dayUsed'),
  }
}

/** All processes have spoken twice since the last of them joined, so each knows the others. */
export async function acquainted(
  { cli, prefix = 'tollgate' }: Pick<RedisServer, 'cli'> & { prefix?: string },
  processes: number,
): Promise<void> {
  const beats = (): string[] => cli('HVALS', `${prefix}:processes`).split('\n')
  const spoken = async (): Promise<void> => {
    const before = new Set(beats())
    await eventually('beats of all', () => beats().every((beat) => !before.has(beat)))
  }
  await eventually('all of them', () => beats().length === processes)
  for (let round = 0; round < 3; round++) await spoken()
}

/** Each of them has found out that its Redis says nothing: by questions of an operator, which charge nobody. */
export async function storeLost(gateways: readonly Gateway[]): Promise<void> {
  await Promise.all(
    gateways.map(({ adminOrigin, metric }) =>
      eventually('the store is lost', async () => {
        await (await fetch(`${adminOrigin}/api/clients/acme`)).text()
        return (await metric('tollgate_store_up')) === 0
      }),
    ),
  )
}

/** Asks until the condition holds; throws after timeoutMs. Resolves with how long it took, in ms. */
export async function eventually(
  what: string,
  condition: () => boolean | Promise<boolean>,
  timeoutMs = 60_000,
): Promise<number> {
  const startedMs = performance.now()
  // Whatever it asks costs both sides of it: at once at first, then less and less often.
  for (let waitMs = 10; !(await condition()); waitMs = Math.min(2 * waitMs, 80)) {
    if (performance.now() - startedMs > timeoutMs)
      throw new Error(`waited ${timeoutMs} ms in vain for: ${what}`)
    await sleep(waitMs)
  }
  return performance.now() - startedMs
}

/** The member at this place, counted round the end. */
export function pick<Member>(list: readonly Member[], at: number): Member {
  const member = list[at % list.length]
  if (member === undefined) throw new Error('an empty list has nothing to pick')
  return member
}

/** So many callers, each of whom begins again after a rest; the result ends that, and waits for what is under way. */
export function again(
  callers: number,
  work: (at: number) => Promise<unknown>,
  restMs = 40,
): () => Promise<void> {
  const over = new AbortController()
  const all = times(callers, async (at) => {
    for (; !over.signal.aborted; await sleep(restMs)) await work(at)
  })
  return async () => {
    over.abort()
    await Promise.all(all)
  }
}

export const times = <Value>(count: number, make: (at: number) => Value): Value[] =>
  Array.from({ length: count }, (_, at) => make(at))

/** How many answers have each status and code, such as { '200': 3, '429 rate_limit_exceeded': 1 }. */
export function tally(answers: readonly Pick<Answer, 'status' | 'code'>[]): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const { status, code } of answers) {
    const name = code === undefined ? String(status) : `${status} ${code}`
    counts[name] = (counts[name] ?? 0) + 1
  }
  return counts
}
