/** Gateways of several worker processes, and calls that each open a connection of their own. */
import { generateKeyPairSync } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { Agent, request } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect } from 'vitest'
import { temporaryFile } from '../../support/processes.ts'
import { again, clientsBlock, eventually, tally, times } from '../../process/gateways.ts'
import type { GatewayProcess, TestClient } from '../../process/gateways.ts'

export interface WorkerAnswer {
  readonly status: number
  readonly code: string | undefined
  readonly headers: NodeJS.Dict<string | string[]>
  readonly body: string
  /** The client's own, of the connection that it came on. */
  readonly port: number | undefined
  /** As performance.now() has it. */
  readonly atMs: number
}

/** Blocks of a configuration with workers; no call in these tests comes late enough after a 429 to be a strike. */
export const workerBlocks = (
  workers: number | 'auto',
  clients: readonly TestClient[] = [],
  { server = '', more = {} }: { server?: string; more?: Record<string, string> } = {},
): Record<string, string> => ({
  server: `server: { listen: "127.0.0.1:0", workers: ${workers}${server} }`,
  // The longest that is taken, since a busy machine is no outage.
  store: 'store: { timeout: 110ms }',
  bans: 'bans: { grace: 1m }',
  ...(clients.length > 0 && { clients: clientsBlock(clients) }),
  ...more,
})

/** One request; without an agent on a connection of its own, so that the kernel picks a worker for it. */
export function ask(
  origin: string,
  {
    key,
    path = '/v1/pets',
    agent,
  }: { key?: string; path?: string; agent?: Agent | undefined } = {},
): Promise<WorkerAnswer> {
  return new Promise((resolve, reject) => {
    const headers = key === undefined ? {} : { authorization: `Bearer ${key}` }
    const call = request(`${origin}${path}`, { headers, agent: agent ?? false }, (response) => {
      let body = ''
      const { localPort: port } = response.socket
      response.setEncoding('utf8')
      response.on('data', (text: string) => (body += text))
      response.on('error', reject)
      response.on('end', () => {
        const { statusCode: status = 0, headers: answered } = response
        const isError = status >= 400 && body.startsWith('{')
        const code = isError ? (JSON.parse(body) as { code: string }).code : undefined
        resolve({ status, code, headers: answered, body, port, atMs: performance.now() })
      })
    })
    call.on('error', reject)
    call.end()
  })
}

export interface Load {
  readonly answers: WorkerAnswer[]
  readonly errors: Error[]
  /** Ends it, and waits for what is under way. */
  stop(): Promise<void>
}

/** Callers that go on until stopped, with a short rest after each answer; `keepAlive` ones reuse a connection each, the others open one per request. */
export function startLoad(
  origin: string,
  { key, callers, keepAlive = 0 }: { key: string; callers: number; keepAlive?: number },
): Load {
  const answers: WorkerAnswer[] = []
  const errors: Error[] = []
  const kept = times(keepAlive, () => new Agent({ keepAlive: true, maxSockets: 1 }))
  const stop = again(
    callers + keepAlive,
    (at) =>
      ask(origin, { key, agent: kept[at] }).then(
        (answer) => answers.push(answer),
        (error: unknown) => errors.push(error as Error),
      ),
    30,
  )
  return {
    answers,
    errors,
    stop: async () => {
      await stop()
      for (const agent of kept) agent.destroy()
    },
  }
}

/** Process ids of the workers that were started, by number; the latest of each. */
export function workerPids(gateway: Pick<GatewayProcess, 'logged'>): Map<number, number> {
  return new Map(
    gateway.logged('workerStarted').map(({ worker, pid }) => [Number(worker), Number(pid)]),
  )
}

export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}

/** Lets a process go on that was stopped, unless its supervisor has killed it meanwhile. */
export function thaw(pid: number): void {
  if (isAlive(pid)) process.kill(pid, 'SIGCONT')
}

/** A thread of the process that wants the processor, though a busy machine may not give it any. */
const hasWork = (pid: number): boolean =>
  readdirSync(`/proc/${pid}/task`).some((thread) =>
    /\) [RD] /.test(readFileSync(`/proc/${pid}/task/${thread}/stat`, 'utf8')),
  )

/** Until these have done what they were told, and do no more than wait: so often in a row, as one may hand work to another meanwhile. */
export async function atRest(...pids: readonly number[]): Promise<void> {
  for (let quiet = 0; quiet < 4; await sleep(20)) quiet = pids.some(hasWork) ? 0 : quiet + 1
}

/** Waits until the processes are gone. */
export const gone = (pids: Iterable<number>): Promise<number> =>
  eventually('the end of all workers', () => [...pids].every((pid) => !isAlive(pid)))

/** Numbers of the workers that have logged an answer. */
export const workersThatAnswered = (gateway: GatewayProcess): Set<unknown> =>
  new Set(gateway.logged('access').map(({ worker }) => worker))

/** The numbers of all lines of a metric, by their labels. */
export async function metricPage(gateway: GatewayProcess): Promise<Map<string, number>> {
  const page = await (await fetch(`${gateway.adminOrigin}/metrics`)).text()
  const lines = page.split('\n').filter((line) => line !== '' && !line.startsWith('#'))
  return new Map(
    lines.map((line) => {
      const cut = line.lastIndexOf(' ')
      return [line.slice(0, cut), Number(line.slice(cut + 1))]
    }),
  )
}

/** Until a process that hears nothing from an embedded store goes on by itself, and what a busy machine adds. */
const SILENT_MS = 1_000 + 500
/** Two that are further apart are not of one silence. */
const APART_MS = 500

/**
 * All were served, but for those that the store of a machine whose every core is busy was too late for, 503: now and then one, or all
 * of a silence. Returns how many were served.
 */
export function expectServed(answers: readonly WorkerAnswer[]): number {
  const { '200': served = 0, '503 service_unavailable': late = 0, ...others } = codes(answers)
  expect(others).toEqual({})
  const lateMs = answers.filter(({ status }) => status === 503).map(({ atMs }) => atMs)
  let [fromMs, beforeMs, longestMs] = [0, -Infinity, 0]
  for (const atMs of lateMs.sort((one, other) => one - other)) {
    if (atMs - beforeMs > APART_MS) fromMs = atMs
    longestMs = Math.max(longestMs, atMs - fromMs)
    beforeMs = atMs
  }
  if (longestMs > SILENT_MS) expect(late).toBeLessThanOrEqual(served / 50)
  return served
}

export const codes: (answers: readonly WorkerAnswer[]) => Record<string, number> = tally

/** A jwt block on a key file; a worker cannot begin while the file is gone. */
export function jwtBlock(): {
  readonly block: string
  readonly file: string
  readonly text: string
} {
  const { publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const key = { ...publicKey.export({ format: 'jwk' }), kid: 'one', alg: 'ES256', use: 'sig' }
  const text = JSON.stringify({ keys: [key] })
  const file = temporaryFile('jwks.json', text)
  const block = `jwt: { issuer: "https://id.example", audience: pets, algorithms: [ES256], jwksFile: "${file}" }`
  return { block, file, text }
}
