/** What a start takes as `npm start` makes it, beside the CPU that reading its configuration alone takes. */
import { spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { freePort } from '../test/support/redis-server.ts'
import { portOf } from './load-order.ts'
import { endedMicroseconds, rssBytes } from './proc.ts'
import { script, type Processes } from './processes.ts'
import type { Round } from './report.ts'
import { openAsker, requestHead } from './wire.ts'

const restMs = 2_000
const request = requestHead('/v1/pets', { key: 'tg_demo_free_public_for_loopback_only' })

/** The demonstration on free ports and with files of its own: once checked, and once started until it rests. */
export async function measureStart(processes: Processes): Promise<Round> {
  const at = (name: string): string => join(processes.directory, name)
  const text = readFileSync(script('../config/gateway.yaml'), 'utf8')
    .replaceAll(/127\.0\.0\.1:(?:8080|9090)/g, '127.0.0.1:0')
    .replace('127.0.0.1:3000', `127.0.0.1:${await freePort()}`)
    .replace('data/tollgate.db', at('tollgate.db'))
  writeFileSync(at('start.yaml'), text)
  const flags = ['--disable-sigusr1', '--disable-warning=ExperimentalWarning'] as const
  const command = (...words: string[]) =>
    [...flags, script('../src/main.ts'), ...words, '--config', at('start.yaml')] as const
  // Where npm start keeps what Node.js has compiled.
  const env = { ...process.env, NODE_COMPILE_CACHE: script('../node_modules/.cache/tollgate') }
  const before = endedMicroseconds()
  const check = spawnSync(process.execPath, command('check'), { env })
  if (check.status !== 0) throw new Error(`tollgate check: ${check.stderr.toString()}`)
  const checkSeconds = (endedMicroseconds() - before) / 1e6
  const startMs = performance.now()
  const gateway = await processes.launch({
    name: `start-${startMs}`,
    command: command('demo', '--db', at('catalogue.db')),
    listener: 'tollgate',
    own: false,
    env,
  })
  const asker = openAsker(portOf(gateway.origin))
  const answer = await asker.ask(request)
  const startSeconds = (performance.now() - startMs) / 1000
  asker.close()
  if (typeof answer === 'string' || answer.status !== 200)
    throw new Error(`no answer to begin with: ${JSON.stringify(answer)}`)
  await sleep(restMs)
  const restMB = rssBytes(gateway.pid) / 1e6
  await gateway.end()
  return { startSeconds, checkSeconds, restMB }
}
