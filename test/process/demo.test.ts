import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { demoKeys, planDemoKeys } from '../../src/cli/demo-keys.ts'
import { minuteWithAtLeast } from '../support/gateway.ts'
import { temporaryFile, temporaryFolder, type TollgateProcess } from '../support/processes.ts'
import { freePort } from '../support/redis-server.ts'
import { call, endAll, eventually, tally, times, tollgate, type Answer } from './gateways.ts'

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

async function startDemo(config: string, cwd = temporaryFolder()): Promise<Demo> {
  const started = tollgate(['demo', '--config', config], { cwd })
  const base = await started.listening('tollgate')
  await started.listening('admin')
  return { ...started, base, call: (key, path, init) => call(`${base}${path}`, key, init) }
}

const [free, pro, business, enterprise] = demoKeys.map(({ key }) => key)
/** The window that stands in X-RateLimit-Reset, in whole seconds from now. */
const secondsLeft = (): number => Math.ceil((60_000 - (Date.now() % 60_000)) / 1000)
const lifecycle = ({ headers }: Answer) => ({
  deprecation: headers.get('deprecation'),
  sunset: headers.get('sunset'),
  link: headers.get('link'),
})
const getPetIsDeprecated = {
  deprecation: `@${Date.UTC(2025, 11, 5) / 1000}`,
  sunset: 'Thu, 05 Dec 2030 00:00:00 GMT',
  link: '</v1/pets?status=available>; rel="successor-version"',
}

afterAll(endAll)

describe('tollgate demo', () => {
  let demo: Demo
  beforeAll(async () => {
    demo = await startDemo(await demoConfig())
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

  it('answers a request without a key 401, with the anonymous limit in its headers', async () => {
    const answer = await demo.call(undefined, '/pets')
    expect(answer.status).toBe(401)
    expect(JSON.parse(answer.body)).toEqual({
      code: 'missing_api_key',
      message: expect.any(String) as string,
      status: 401,
    })
    expect(answer.headers.get('content-type')).toBe('application/json; charset=utf-8')
    expect(answer.headers.get('www-authenticate')).toBe('Bearer')
    expect(answer.headers.get('x-ratelimit-limit')).toBe('60')
    expect(answer.headers.get('x-ratelimit-remaining')).toMatch(/^5\d$/)
    expect(answer.headers.get('ratelimit-policy')).toBe('"minute";q=60;w=60')
    expect(lifecycle(answer)).toEqual({ deprecation: null, sunset: null, link: null })
    expect((await demo.call('tg_nobody', '/pets')).code).toBe('invalid_api_key')
  })

  it('marks getPet as deprecated on its 200, 401 and 404', async () => {
    const [found, absent, strange] = await Promise.all([
      demo.call(enterprise, '/pets/1'),
      demo.call(enterprise, '/pets/999999'),
      demo.call('tg_nobody', '/pets/1'),
    ])
    expect([found.status, absent.status, strange.status]).toEqual([200, 404, 401])
    for (const answer of [found, absent, strange])
      expect(lifecycle(answer)).toEqual(getPetIsDeprecated)
    expect(absent.headers.get('x-ratelimit-limit')).toBe('20000')
  })

  it('marks listOrders as beta, though the catalogue has no such operation', async () => {
    const answer = await demo.call(enterprise, '/store/orders')
    expect([answer.status, answer.headers.get('x-api-stability')]).toEqual([404, 'beta'])
  })

  it('opens to the key of each plan, with the limits of that plan', async () => {
    const limits = { [pro ?? '']: 300, [business ?? '']: 1000, [enterprise ?? '']: 20_000 }
    for (const [key, limit] of Object.entries(limits)) {
      const answer = await demo.call(key, '/pets')
      expect(answer.status).toBe(200)
      expect(answer.headers.get('x-ratelimit-limit')).toBe(String(limit))
      expect(answer.headers.get('x-ratelimit-remaining')).toMatch(/^[1-9]\d*$/)
    }
  })

  it('refuses the 61st call of the free plan in a minute, and says how long to wait', async () => {
    await minuteWithAtLeast(15_000)
    // Room for what was called in this minute already; every charge is seen in Remaining.
    const first = await demo.call(free, '/pets')
    const left = Number(first.headers.get('x-ratelimit-remaining'))
    const answers = await Promise.all(times(left, () => demo.call(free, '/pets')))
    expect(tally(answers)).toEqual({ '200': left })
    const remaining = answers.map(({ headers }) => Number(headers.get('x-ratelimit-remaining')))
    expect(remaining.sort((a, b) => a - b)).toEqual(times(left, (at) => at))
    const before = secondsLeft()
    const refused = await demo.call(free, '/pets/1')
    const after = secondsLeft()
    expect([refused.status, refused.code]).toEqual([429, 'rate_limit_exceeded'])
    const wait = Number(refused.headers.get('retry-after'))
    expect(wait).toBeLessThanOrEqual(before + 1)
    expect(wait).toBeGreaterThanOrEqual(after)
    expect(refused.headers.get('x-ratelimit-remaining')).toBe('0')
    expect(refused.headers.get('x-ratelimit-reset')).toBe(first.headers.get('x-ratelimit-reset'))
    expect(refused.headers.get('ratelimit')).toContain(`"minute";r=0;t=${wait}`)
    expect(lifecycle(refused)).toEqual(getPetIsDeprecated)
    expect((await demo.call(pro, '/pets')).status).toBe(200)
  })
})

describe.concurrent('what a client stores', () => {
  const exact = '9007199254740993'
  const post = (demo: Demo): Promise<Answer> =>
    demo.call(pro, '/pets', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: `{"name":"Ada","categoryId":${exact},"status":"sold"}`,
    })

  it('keeps every digit, also over a restart after SIGTERM and after kill -9', async () => {
    const [config, cwd] = [await demoConfig(), temporaryFolder()]
    const ids: string[] = []
    const sees = async (demo: Demo): Promise<void> => {
      for (const id of ids) {
        const answer = await demo.call(pro, `/pets/${id}`)
        expect(answer.status).toBe(200)
        expect(answer.body).toContain(`"categoryId":${exact}`)
      }
    }
    for (const signal of ['SIGTERM', 'SIGKILL', undefined] as const) {
      const demo = await startDemo(config, cwd)
      await sees(demo)
      const created = await post(demo)
      expect(created.status).toBe(201)
      expect(created.body).toContain(`"categoryId":${exact}`)
      ids.push(/"id":(\d+)/.exec(created.body)?.[1] ?? '')
      await sees(demo)
      if (signal === undefined) break
      demo.signal(signal)
      expect((await demo.finished).code).toBe(signal === 'SIGTERM' ? 0 : null)
    }
    expect(new Set(ids).size).toBe(3)
    expect(readFileSync(join(cwd, 'data/catalogue.db')).length).toBeGreaterThan(0)
  })

  it('is refused with a 400 that names the field when it lacks one', async () => {
    const demo = await startDemo(await demoConfig())
    const answer = await demo.call(pro, '/pets', {
      method: 'POST',
      body: '{"name":"Ada"}',
      headers: { 'content-type': 'application/json' },
    })
    expect(answer.status).toBe(400)
    expect(answer.body).toContain('categoryId')
    expect(answer.headers.get('x-ratelimit-limit')).toBe('300')
  })
})
