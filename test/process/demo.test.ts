import { execFile } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { beforeAll, describe, expect, it } from 'vitest'
import { demoKeys, planDemoKeys } from '../../src/cli/usable-config.ts'
import { minuteWithAtLeast } from '../support/gateway.ts'
import { temporaryFile, temporaryFolder, type TollgateProcess } from '../support/processes.ts'
import { freePort } from '../support/redis-server.ts'
import { decided, call, eventually, startTollgate, type Answer } from './gateways.ts'

const exec = promisify(execFile)

interface Demo extends TollgateProcess {
  /** Base address of the API, such as http://127.0.0.1:40001/v1 */
  readonly base: string
  call(key: string | undefined, path: string, init?: RequestInit): Promise<Answer>
}

/** The example configuration on free ports. */
async function demoConfig(): Promise<string> {
  const example = readFileSync(new URL('../../config/gateway.yaml', import.meta.url), 'utf8')
  const [port, admin, upstream] = await Promise.all([freePort(), freePort(), freePort()])
  return temporaryFile(
    'gateway.yaml',
    example
      .replace('127.0.0.1:8080', `127.0.0.1:${port}`)
      .replace('127.0.0.1:9090', `127.0.0.1:${admin}`)
      .replace('127.0.0.1:3000', `127.0.0.1:${upstream}`),
  )
}

async function startDemo(config: string, cwd: string): Promise<Demo> {
  const started = startTollgate(['demo', '--config', config], { cwd })
  const base = await started.listening('tollgate')
  await started.listening('admin')
  const asked: Demo['call'] = (key, path, init) => decided(() => call(`${base}${path}`, key, init))
  return { ...started, base, call: asked }
}

const [, pro, business, enterprise] = demoKeys
describe('tollgate demo', () => {
  const cwd = temporaryFolder()
  let config: string
  let demo: Demo
  beforeAll(async () => {
    config = await demoConfig()
    demo = await startDemo(config, cwd)
  })

  it('prints the addresses, a key per plan and a curl line that works when pasted', async () => {
    await eventually('the last line', () => demo.stdout().includes('curl '))
    for (const { plan, key } of planDemoKeys)
      expect(demo.stdout()).toMatch(new RegExp(`^ +${plan} +${key}$`, 'm'))
    expect(demo.stdout()).toMatch(/^catalogue listening on http:\/\/127\.0\.0\.1:\d+\/v1 /m)
    const line = /^ *(curl .*)$/m.exec(demo.stdout())?.[1] ?? ''
    await minuteWithAtLeast()
    const { stdout } = await exec('sh', ['-c', line])
    const [head = '', body = ''] = stdout.split('\r\n\r\n')
    expect(head).toMatch(/^HTTP\/1\.1 200 OK\r\n/)
    const pets = JSON.parse(body) as { id: number }[]
    expect(pets.length).toBeGreaterThan(0)
    expect(head).toMatch(/^X-RateLimit-Limit: 60\r?$/m)
    expect(head).toMatch(/^X-RateLimit-Remaining: 59\r?$/m)
    expect(head).toMatch(/^RateLimit: "minute";r=59;t=\d+, "day";r=999;t=\d+\r?$/m)
    expect(head).toMatch(/^RateLimit-Policy: "minute";q=60;w=60, "day";q=1000;w=86400\r?$/m)
    const reset = Number(/^X-RateLimit-Reset: (\d+)\r?$/m.exec(head)?.[1])
    expect(reset % 60).toBe(0)
    expect(reset - Date.now() / 1000).toBeGreaterThan(-5)
    expect(reset - Date.now() / 1000).toBeLessThanOrEqual(60)
  })

  it('opens to the key of each plan, with the limits of that plan, and says what is deprecated or beta', async () => {
    const limits = { [pro ?? '']: 300, [business ?? '']: 1000, [enterprise ?? '']: 20_000 }
    for (const [key, limit] of Object.entries(limits)) {
      const answer = await demo.call(key, '/pets')
      expect(answer.status).toBe(200)
      expect(answer.headers.get('x-ratelimit-limit')).toBe(String(limit))
      expect(answer.headers.get('x-ratelimit-remaining')).toMatch(/^[1-9]\d*$/)
    }
    expect((await demo.call('tg_nobody', '/pets')).code).toBe('invalid_api_key')
    const pet = await demo.call(enterprise, '/pets/1')
    expect([pet.status, pet.headers.get('sunset')]).toEqual([200, 'Thu, 05 Dec 2030 00:00:00 GMT'])
    // The catalogue has no such operation.
    const orders = await demo.call(enterprise, '/store/orders')
    expect([orders.status, orders.headers.get('x-api-stability')]).toEqual([404, 'beta'])
  })

  it('keeps what a client stores in data/catalogue.db, and is there again with it after a stop', async () => {
    const body = '{"name":"Ada","categoryId":9007199254740993,"photoUrls":[],"status":"sold"}'
    const headers = { 'content-type': 'application/json' }
    const created = await demo.call(pro, '/pets', { method: 'POST', headers, body })
    expect(created.status).toBe(201)
    demo.signal('SIGTERM')
    expect((await demo.finished).code).toBe(0)
    expect(readdirSync(join(cwd, 'data'))).toContain('catalogue.db')
    demo = await startDemo(config, cwd)
    const { id } = JSON.parse(created.body) as { id: number }
    expect((await demo.call(pro, `/pets/${id}`)).body).toBe(created.body)
  })
})
