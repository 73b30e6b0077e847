/** slowhttptest (Debian), which holds what it can hold with slow heads, bodies, readers and ranges, with a key of its own. */
import { spawn } from 'node:child_process'
import { setTimeout as sleep } from 'node:timers/promises'
import { beforeAll, describe, expect, it } from 'vitest'
import { ensurePackage } from '../support/debian-package.ts'
import { answer } from '../support/raw-backend.ts'
import { clientsBlock, configFile, gatewayProcess, startRawBackend, tally } from './gateways.ts'
import type { Answer, GatewayProcess } from './gateways.ts'

const ATTACKER = 'tg_slow_attacker'
const BYSTANDER = 'tg_slow_bystander'
const CONNECTIONS = 300
const SECONDS = 5
/** Above what the buffers of the kernel take for a reader that does not read. */
const LARGE = Buffer.alloc(3_000_000, 'x')

/** Resolves with what it says, without colours. A field more goes in behind the value of Accept. */
async function attack(mode: readonly string[], url: string): Promise<string> {
  const size = ['-c', `${CONNECTIONS}`, '-r', `${CONNECTIONS}`, '-i', '1', '-l', `${SECONDS}`]
  const probe = ['-p', '4', '-v', '1', '-u', url]
  const withKey = ['-m', `*/*\r\nAuthorization: Bearer ${ATTACKER}`]
  const child = spawn('slowhttptest', [...mode, ...size, ...probe, ...withKey])
  let text = ''
  child.stdout.setEncoding('utf8').on('data', (more: string) => (text += more))
  await new Promise((resolve) => child.once('close', resolve))
  // oxlint-disable-next-line no-control-regex
  return text.replaceAll(/\x1b\[[0-9;]*[A-Za-z]/g, '')
}

describe('slowhttptest leaves the service available', () => {
  let gateway: GatewayProcess

  beforeAll(async () => {
    ensurePackage('slowhttptest', { probe: ['which', 'slowhttptest'] })
    const backend = await startRawBackend({
      respond: ({ target }) => answer(200, target.includes('large') ? LARGE : 'ok'),
    })
    const client = { perMinute: 1_000_000 }
    gateway = await gatewayProcess(
      configFile(backend.url, {
        clients: clientsBlock([
          { id: 'attacker', keys: [ATTACKER], ...client },
          { id: 'bystander', keys: [BYSTANDER], ...client },
        ]),
      }),
    )
  })

  it.each([
    ['with slow heads', ['-H'], '/v1/pets'],
    ['with slow bodies', ['-B', '-s', '100000'], '/v1/pets'],
    [
      'with slow readers',
      ['-X', '-k', '3', '-w', '10', '-y', '20', '-n', '1', '-z', '32'],
      '/v1/pets/large',
    ],
    ['with ranges', ['-R', '-t', 'GET', '-a', '1', '-b', '3000'], '/v1/pets/large'],
  ])('%s', { timeout: 60_000 }, async (_, mode, path) => {
    const answers: Answer[] = []
    const attacked = attack(mode, `${gateway.origin}${path}`)
    const over = attacked.then(() => 'over')
    while ((await Promise.race([over, sleep(20)])) !== 'over')
      answers.push(await gateway.call(BYSTANDER))
    const said = await attacked
    expect(tally(answers)).toEqual({ 200: answers.length })
    expect(answers.length).toBeGreaterThan(SECONDS)
    const verdicts = Array.from(said.matchAll(/service available:\s*(YES|NO)/g), ([, word]) => word)
    expect(verdicts.length).toBeGreaterThan(0)
    expect(new Set(verdicts)).toEqual(new Set(['YES']))
    // It did what it was started for.
    expect(said).toMatch(/(?:connected|pending|closed):\s+[1-9]/)
  })
})
