/** `npm run bench:clients`: what many clients cost at the start, in memory, at each lookup, and while they are replaced. */
import { execFileSync, spawn, type ChildProcess } from 'node:child_process'
import { hash } from 'node:crypto'
import { once } from 'node:events'
import { appendFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { get } from 'node:http'
import { availableParallelism, cpus, tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as wait } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { loadConfig } from '../../src/config/clients/load.ts'

const { values } = parseArgs({ options: { clients: { type: 'string', default: '1000000' } } })
const count = Number(values.clients)
const changedCount = Math.min(count, 100_000)
const folder = mkdtempSync(join(tmpdir(), 'tollgate-bench-clients-'))
const main = join(import.meta.dirname, '../../src/main.ts')
const print = (line: string) => process.stdout.write(`${line}\n`)

const keyOf = (id: string, round: number) => `tg_${id}-${round}`
const lineOf = (number: number, round: number): string => {
  const id = `customer-${String(number).padStart(5, '0')}`
  const key = (name: string) => ({
    id: `${id}-${name}`,
    sha256: hash('sha256', keyOf(`${id}-${name}`, round)),
  })
  const own = number % 10 === 0 && { limits: { perMinute: 60 + number, perDay: 1e6 + number } }
  const plan = own === false ? 'pro' : 'enterprise'
  return `${JSON.stringify({ id, plan, ...own, keys: [key('a'), key('b')] })}\n`
}

function writeClients(file: string, of: number, changed: number, round: number): void {
  writeFileSync(file, '')
  for (let from = 0; from < of; from += 10_000) {
    let text = ''
    for (let number = from; number < Math.min(of, from + 10_000); number++)
      text += lineOf(number, number < changed ? round : 0)
    appendFileSync(file, text)
  }
}

interface Gateway {
  readonly child: ChildProcess
  readonly readyMs: number
  readonly origin: string
}

async function start(workers: number): Promise<Gateway> {
  const file = join(folder, 'gateway.yaml')
  writeFileSync(
    file,
    `server: { listen: 127.0.0.1:0, workers: ${workers} }\nadmin: { listen: 127.0.0.1:0 }\nstore: { file: "" }\nlog: { level: warn }\nclientFiles: [clients.jsonl]\nanonymous: { perMinute: 1000000000 }\n`,
  )
  const begunMs = performance.now()
  const child = spawn(process.execPath, ['--disable-sigusr1', main, 'start', '--config', file], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  if (child.stdout === null) throw new Error('the gateway has no output')
  for await (const line of createInterface(child.stdout)) {
    const [, origin] = /^tollgate listening on (http:\S+)/.exec(line) ?? []
    if (origin !== undefined) return { child, readyMs: performance.now() - begunMs, origin }
  }
  throw new Error('the gateway did not start')
}

async function stop({ child }: Gateway): Promise<void> {
  child.kill('SIGTERM')
  await once(child, 'exit')
}

const status = (pid: number, field: string): number =>
  Number(
    new RegExp(`^${field}:\\s+(\\d+) kB`, 'm').exec(
      readFileSync(`/proc/${pid}/status`, 'utf8'),
    )?.[1],
  ) * 1024
const childrenOf = (pid: number): number[] =>
  execFileSync('pgrep', ['-P', String(pid)], { encoding: 'utf8' })
    .trim()
    .split('\n')
    .map(Number)
const MB = (bytes: number): string => `${(bytes / 1e6).toFixed(0)} MB`

/** RSS of the process after 10 s without requests, and its peak; of its first worker where it has some. */
async function memory(of: number, workers: number) {
  writeClients(join(folder, 'clients.jsonl'), of, 0, 0)
  const gateway = await start(workers)
  await wait(10_000)
  const pid = gateway.child.pid ?? 0
  const worker = workers > 1 ? (childrenOf(pid)[0] ?? 0) : pid
  const found = {
    readyMs: gateway.readyMs,
    builder: status(pid, 'VmRSS'),
    peak: status(pid, 'VmHWM'),
    worker: status(worker, 'VmRSS'),
  }
  return { gateway, found }
}

/** Longest wait for the answer to one of 200 requests a second. */
async function longestWait(
  origin: string,
  until: Promise<unknown>,
): Promise<{ longestMs: number; failed: number; sent: number }> {
  const state = { isOver: false }
  void until.then(() => (state.isOver = true))
  const seen = { longestMs: 0, failed: 0, sent: 0 }
  const pending = new Set<Promise<void>>()
  while (!state.isOver) {
    const begunMs = performance.now()
    seen.sent++
    const one = new Promise<void>((resolve) => {
      const done = (ok: boolean) => {
        if (!ok) seen.failed++
        seen.longestMs = Math.max(seen.longestMs, performance.now() - begunMs)
        resolve()
      }
      get(`${origin}/nothing`, (answer) =>
        answer.resume().on('end', () => done(answer.statusCode === 401)),
      ).on('error', () => done(false))
    })
    pending.add(one)
    void one.then(() => pending.delete(one))
    await wait(5)
  }
  await Promise.all(pending)
  return seen
}

async function lookups(): Promise<void> {
  const { clients } = await loadConfig(join(folder, 'gateway.yaml'), {})
  const digests = Array.from({ length: 200_000 }, (_, n) => {
    const number = Math.floor((n * 7_919) % count)
    return hash(
      'sha256',
      keyOf(`customer-${String(number).padStart(5, '0')}-a`, Number(number < changedCount)),
    )
  })
  const map = new Map<string, object>()
  for (const client of clients) for (const key of client.keys) map.set(key.sha256, key)
  const timed = (find: (digest: string) => unknown): string => {
    const begunMs = performance.now()
    for (const digest of digests)
      if (find(digest) === undefined) throw new Error('a key is not found')
    return `${(((performance.now() - begunMs) * 1000) / digests.length).toFixed(2)} us`
  }
  for (let round = 0; round < 3; round++)
    print(
      `lookup of a key of ${count} clients, whole client made: ring ${timed((digest) => clients.keyByDigest(digest))}; found in a Map ${timed((digest) => map.get(digest))}`,
    )
}

try {
  print(
    `${count} clients with two keys, ${cpus()[0]?.model}, ${availableParallelism()} cores, Node.js ${process.version}`,
  )
  const small = []
  for (const workers of [1, 2]) {
    const { gateway, found } = await memory(1, workers)
    small.push(found)
    await stop(gateway)
  }
  for (const workers of [2, 1]) {
    const { gateway, found } = await memory(count, workers)
    const base = small[workers - 1]
    const perClient = (part: 'builder' | 'worker') =>
      `${((found[part] - (base?.[part] ?? 0)) / count).toFixed(0)} B a client`
    print(
      `workers: ${workers}: ready ${(found.readyMs / 1000).toFixed(1)} s (one client: ${((base?.readyMs ?? 0) / 1000).toFixed(1)} s), where built ${perClient('builder')}${workers > 1 ? `, worker ${perClient('worker')}` : ''}, peak ${MB(found.peak)}`,
    )
    const quiet = await longestWait(gateway.origin, wait(5_000))
    writeClients(join(folder, 'next.jsonl'), count, changedCount, 1)
    execFileSync('mv', [join(folder, 'next.jsonl'), join(folder, 'clients.jsonl')])
    gateway.child.kill('SIGHUP')
    const loaded = await longestWait(gateway.origin, wait(15_000))
    print(
      `  reload of ${changedCount} changed: longest wait ${loaded.longestMs.toFixed(0)} ms (quiet ${quiet.longestMs.toFixed(0)} ms), ${loaded.failed} of ${loaded.sent} failed, peak ${MB(status(gateway.child.pid ?? 0, 'VmHWM'))}`,
    )
    await stop(gateway)
  }
  await lookups()
} finally {
  rmSync(folder, { recursive: true })
}
