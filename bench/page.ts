/**
 * `npm run bench:page`: how soon the operators' page shows something, and its first numbers, in Chromium on loopback, from a gateway
 * that knows 100,000 clients and has served 2,000 of them. The contract: first paint within 300 ms.
 */
import { hash } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Browser } from 'playwright-core'
import { openBrowser } from '../test/support/browser.ts'
import { createProcesses } from './processes.ts'

const [clientCount, seenCount, loads, boundMs] = [100_000, 2_000, 10, 300]
const print = (line: string) => process.stdout.write(`${line}\n`)
const keyOf = (at: number): string => `tg_page_bench_${at}`
const processes = createProcesses(undefined)

async function startGateway() {
  const own = { own: true, listener: 'backend', name: 'backend' }
  const backend = await processes.launch({
    ...own,
    command: [join(import.meta.dirname, 'backend.ts')],
  })
  const lines = Array.from({ length: clientCount }, (_, at) => {
    const key = { id: `customer-${at}-key`, sha256: hash('sha256', keyOf(at)) }
    return JSON.stringify({ id: `customer-${at}`, plan: 'pro', keys: [key] })
  })
  writeFileSync(join(processes.directory, 'clients.jsonl'), `${lines.join('\n')}\n`)
  const config = join(processes.directory, 'gateway.yaml')
  const admin = { listen: '127.0.0.1:0' }
  const upstream = { urls: [backend.origin] }
  const server = { ...admin, basePath: '/v1' }
  const given = { server, admin, upstream, store: { file: '' }, clientFiles: ['clients.jsonl'] }
  writeFileSync(config, JSON.stringify(given))
  const main = join(import.meta.dirname, '../src/main.ts')
  const command = [main, 'start', '--config', config] as const
  const gateway = await processes.launch({
    name: 'gateway',
    listener: 'tollgate',
    own: false,
    command,
  })
  for (let at = 0; at < seenCount; at++) {
    const headers = { authorization: `Bearer ${keyOf(at)}` }
    const answer = await fetch(`${gateway.origin}/v1/pets`, { headers })
    if (!answer.ok) throw new Error(`the gateway answers ${answer.status}: ${await answer.text()}`)
    await answer.bytes()
  }
  return gateway.listening('admin')
}

/** From the beginning of the navigation, in a browser without a cache. */
async function load(browser: Browser, url: string) {
  const context = await browser.newContext()
  const page = await context.newPage()
  await page.goto(url, { waitUntil: 'commit' })
  const numbers = await page.evaluate(`new Promise((resolve) => {
    const look = () => {
      const text = document.querySelector('.tiles .value')?.textContent ?? ''
      return /\\d/.test(text) ? resolve(performance.now()) : requestAnimationFrame(look)
    }
    look()
  })`)
  const paint = `performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? NaN`
  const found = [Number(await page.evaluate(paint)), Number(numbers)] as const
  await context.close()
  return found
}

try {
  const url = await startGateway()
  const browser = await openBrowser()
  try {
    const found = []
    for (let at = 0; at < loads; at++) found.push(await load(browser, url))
    const row = (what: string, values: readonly number[]) => {
      const sorted = values.toSorted((one, other) => one - other)
      const median = ((sorted[loads / 2 - 1] ?? NaN) + (sorted[loads / 2] ?? NaN)) / 2
      print(
        `${what}: median ${median.toFixed(0)} ms, worst ${(sorted.at(-1) ?? NaN).toFixed(0)} ms`,
      )
    }
    print(
      `${loads} loads, ${clientCount} clients, Chromium ${browser.version()}; bound ${boundMs} ms`,
    )
    row(
      'first contentful paint',
      found.map(([paint]) => paint),
    )
    row(
      'first numbers',
      found.map(([, numbers]) => numbers),
    )
  } finally {
    await browser.close()
  }
} finally {
  await processes.stopAll()
}
