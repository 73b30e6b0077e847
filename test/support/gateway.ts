/** A gateway in this process on free ports, in front of whatever backend a test gives it. */
import { createHash } from 'node:crypto'
import { parseConfigText } from '../../src/config/clients/load.ts'
import { createGateway } from '../../src/server/gateway/local-worker.ts'
import type { Config } from '../../src/config/config.ts'
import { createLog } from '../../src/core/record/log.ts'

import { gatewayEnds } from './ending.ts'
import { passing } from './log-lines.ts'

export { minuteWithAtLeast } from './utc-windows.ts'

/** Plain keys of the clients in baseConfig. */
export const keys = {
  free: 'tg_test_free_0123456789abcdef',
  pro: 'tg_test_pro_0123456789abcdef',
  business: 'tg_test_business_0123456789abcdef',
  enterprise: 'tg_test_enterprise_0123456789abcdef',
  expired: 'tg_test_expired_0123456789abcdef',
} as const

export const sha256 = (key: string): string => createHash('sha256').update(key).digest('hex')

export interface GatewayOptions {
  /** Origins of the backends. */
  readonly upstreams: readonly string[]
  /** YAML that replaces whole top-level blocks of the base configuration, by their first key. */
  readonly blocks?: Readonly<Record<string, string>>
  /** The text of a file that has changed by the time of a reload. Default: it has not. */
  readonly reload?: () => string
  /** Takes the log lines as they come; logLines() has none then. */
  readonly onLogLine?: (line: string) => void
}

/** One client per plan, small time-outs, port 0 everywhere; of enterprise as many requests at once as a test makes. */
export function configText({ upstreams, blocks = {} }: GatewayOptions): string {
  const base: Record<string, string> = {
    server: 'server: { listen: "127.0.0.1:0" }',
    admin: 'admin: { listen: "127.0.0.1:0" }',
    upstream: `upstream: { urls: [${upstreams.join(', ')}] }`,
    // Empty, or all gateways that are started in one folder would ask for the same file.
    store: 'store: { file: "" }',
    plans: `plans:
  free: { perMinute: 60, perDay: 1000 }
  pro: { perMinute: 300, perDay: 10000 }
  business: { perMinute: 1000, perDay: 100000 }
  enterprise: { custom: true, concurrent: 10000 }`,
    clients: `clients:
  - { id: free-client, plan: free, keys: [{ id: free-1, sha256: ${sha256(keys.free)} }, { id: free-old, sha256: ${sha256(keys.expired)}, expires: 2020-01-01 }] }
  - { id: pro-client, plan: pro, keys: [{ id: pro-1, sha256: ${sha256(keys.pro)} }] }
  - { id: business-client, plan: business, keys: [{ id: business-1, sha256: ${sha256(keys.business)} }] }
  - { id: enterprise-client, plan: enterprise, limits: { perMinute: 100000, perDay: 1000000 }, keys: [{ id: enterprise-1, sha256: ${sha256(keys.enterprise)} }] }`,
    routes: `routes:
  - { name: listPets, match: GET /pets }
  - { name: createPet, match: POST /pets }
  - { name: getPet, match: "GET /pets/{petId}", deprecated: { since: 2025-12-05, sunset: 2030-12-05, successor: "/pets?status=available" } }
  - { name: listOrders, match: GET /store/orders, stability: beta }
  - { name: live, match: GET /live, websocket: true }`,
  }
  const all = { ...base, ...blocks }
  return `${Object.values({ ...all, server: patient(all['server'] ?? '') }).join('\n')}\n`
}

/** A machine that is busy with other tests is no overload, unless the block says what is. */
const patient = (server: string): string =>
  server.includes('overload')
    ? server
    : server.replace(/listen: "[^"]*"/, (listen) =>
        [listen, 'overload: { lag: 10s }'].join(server.startsWith('server:\n') ? '\n  ' : ', '),
      )

export type TestGateway = Awaited<ReturnType<typeof startTestGateway>>
export type GatewayInit = RequestInit & { key?: string | undefined }

export interface GatewayAnswer {
  readonly status: number
  header(name: string): string | null
  readonly body: string
  /** Of a refusal. */
  readonly code: string | undefined
  /** In the window that is nearer its end, and in the day. */
  readonly left: number
  readonly dayLeft: number
}

/** The line of a page of metrics that starts with this text; with labels in it, all that do, together. */
export function sumOf(page: string, start: string): number {
  const lines = page.split('\n').filter((line) => line.startsWith(start))
  const values = lines.map((line) => Number(line.slice(line.lastIndexOf(' ') + 1)))
  return start.includes('{') ? values.reduce((sum, value) => sum + value, 0) : (values[0] ?? 0)
}

/** One worker and all that is around it, in this process until the file ends; load: what a reload takes. */
export async function openGateway(
  config: Config,
  load: Parameters<typeof createGateway>[1]['load'],
  onLogLine?: (line: string) => void,
) {
  let logged = ''
  const destination = passing(onLogLine ?? ((line) => (logged += line)))
  const log = createLog({ ...config.log, destination })
  const gateway = createGateway(config, { version: '0.0.0-test', load, log })
  const { listen, admin } = await gateway.listen()
  let stopped: Promise<void> | undefined
  const stop = (): Promise<void> => (stopped ??= gateway.drain())
  gatewayEnds(stop)
  const [origin, adminOrigin] = [listen, admin].map(({ port }) => `http://127.0.0.1:${port}`)
  const origins = { origin: String(origin), adminOrigin: String(adminOrigin) }
  return { gateway, listen, admin, ...origins, logged: () => logged, stop }
}

export async function startTestGateway(options: GatewayOptions) {
  const read = (text: string) => parseConfigText(text, { file: 'test.yaml', env: {} })
  const config = read(configText(options))
  const load = () => (options.reload === undefined ? config : read(options.reload()))
  const opened = await openGateway(config, load, options.onLogLine)
  const { listen, admin, origin, adminOrigin, stop } = opened
  const logLines = () =>
    opened
      .logged()
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line) as Record<string, unknown>)
  const ask = (path: string, { key, ...init }: GatewayInit = {}): Promise<Response> => {
    const headers = new Headers(init.headers)
    if (key !== undefined) headers.set('authorization', `Bearer ${key}`)
    return fetch(`${origin}${path}`, { ...init, headers })
  }
  const askAll = async (path: string, init?: GatewayInit): Promise<GatewayAnswer> => {
    const response = await ask(path, init)
    const body = await response.text()
    const header = (name: string) => response.headers.get(name)
    const code = /^{"code":"(\w+)"/.exec(body)?.[1]
    const left = Number(header('x-ratelimit-remaining') ?? NaN)
    const dayLeft = Number(/"day";r=(\d+)/.exec(header('ratelimit') ?? '')?.[1])
    return { status: response.status, header, body, code, left, dayLeft }
  }
  return {
    port: listen.port,
    adminPort: admin.port,
    /** Such as http://127.0.0.1:40001 */
    origin,
    /** Parsed log lines so far. */
    logLines,
    /** The log lines of this event so far. */
    lines: (event: string) => logLines().filter((line) => line['event'] === event),
    /** See sumOf. */
    async metric(start: string) {
      const page = await (await fetch(`${adminOrigin}/metrics`)).text()
      return sumOf(page, start)
    },
    /** As /readyz tells it; reasons by the name of the check, with an exclamation mark before those that are not ok. */
    async readiness() {
      const response = await fetch(`${adminOrigin}/readyz`)
      const { ready, checks } = (await response.json()) as {
        ready: boolean
        checks: { name: string; ok: boolean; reason: string }[]
      }
      const reasons = checks.map(({ name, ok, reason }) => [name, ok ? reason : `! ${reason}`])
      const read = Object.fromEntries(reasons) as Record<string, string>
      return { status: response.status, ready, reasons: read }
    },
    fetch: ask,
    /** With its body read. */
    ask: askAll,
    status: async (path: string, init?: GatewayInit) => (await askAll(path, init)).status,
    stop,
  }
}
