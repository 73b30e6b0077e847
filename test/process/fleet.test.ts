/** Several gateways on one store: whichever is asked adds up what all have counted, and believes nobody who does not have their credential. */
import crypto from 'node:crypto'
import dns from 'node:dns'
import { syncBuiltinESMExports } from 'node:module'
import { hostname } from 'node:os'
import { expect, it, onTestFinished, vi } from 'vitest'
import type { Shadow } from '../../src/admin/shadow/operations.ts'
import type { Gateways } from '../../src/insight/api/live.ts'
import { askAdmin } from '../support/admin-client.ts'
import { typed } from '../support/command-line.ts'
import { sha256 } from '../support/gateway.ts'
import { freePort, sharedRedis } from '../support/redis-server.ts'
import { clientsBlock, configFile, decided, eventually, gatewayHere } from './gateways.ts'
import { gatewayProcess, startRawBackend, startTollgate, storeOn } from './gateways.ts'
import { answer } from '../support/raw-backend.ts'

const TOKEN = 'a-token-of-the-fleet'
const authorization = `Bearer ${TOKEN}`
const redis = sharedRedis()
const backend = await startRawBackend()

/** The file of a gateway that others find at this port. port: where it listens. more: further blocks. */
const fileOf = (advertised: number, port = advertised, more: Record<string, string> = {}) =>
  configFile(backend.url, {
    admin: adminOf(`0.0.0.0:${port}`, at(advertised)),
    store: storeOn(redis, 'timeout: 110ms'),
    plans: 'plans: { enterprise: { custom: true, shadow: { perMinute: 2, perDay: 2 } } }',
    clients: clientsBlock([{ id: 'acme', keys: ['tg_acme'], perMinute: 1_000 }]),
    ...more,
  })
const adminOf = (listen: string, advertise: string): string =>
  `admin: { listen: "${listen}", advertise: "${advertise}", tokenSha256: ${sha256(TOKEN)} }`
const at = (port: number): string => `http://${hostname().toLowerCase()}:${port}`

type Body = Record<string, unknown> & { readonly gateways: Gateways }
const [one, other, lured] = [await freePort(), await freePort(), await freePort()]
const first = await gatewayHere(fileOf(one))
const second = await gatewayProcess(
  fileOf(other, other, {
    server: 'server: { listen: "127.0.0.1:0", workers: 2 }',
    upstream: `upstream: { urls: [${backend.url}, "http://127.0.0.1:1"], health: { path: /, down: 1 } }`,
  }),
)

async function ask(call: string, body?: unknown): Promise<Body> {
  const asked = await askAdmin(first.adminOrigin, call, body, { authorization })
  expect(asked.status).toBe(200)
  return asked.body as Body
}
/** Asks until it says that. */
async function said(call: string, is: (body: Body) => boolean): Promise<Body> {
  let body = await ask(call)
  await eventually(call, async () => is((body = await ask(call))))
  return body
}
const both = { answered: [at(one), at(other)], silent: [] }

it('is answered by any of them for all', async () => {
  await said('GET /api/backends', ({ gateways }) => gateways.answered.length === 2)
  const ids: (string | null)[] = []
  let sent = 0
  for (const gateway of [first, second, second, second, first]) {
    const { status, headers } = await decided(() => (sent++, gateway.call('tg_acme', '/v1/pets/7')))
    expect(status).toBe(200)
    ids.push(headers.get('x-request-id'))
  }
  const plansOf = ({ plans }: Body) => plans as Shadow['plans']
  const shadow = await said('GET /api/shadow', (body) => plansOf(body)[0]?.requests === sent)
  expect(shadow).toMatchObject({ scope: 'store', gateways: both, plans: [{ clients: 1 }] })
  expect(shadow['clients']).toMatchObject([{ client: 'acme' }])
  const deprecated = await said('GET /api/deprecations', ({ callers }) =>
    JSON.stringify(callers).includes(`"count":${sent}`),
  )
  expect(deprecated).toMatchObject({ gateways: both, callers: [{ client: 'acme' }], others: 0 })
  const top = await said('GET /api/top?window=15m', ({ clients }) =>
    JSON.stringify(clients).includes(`"requests":${sent}`),
  )
  expect(top).toMatchObject({ gateways: both, error: 0, clients: [{ client: 'acme' }] })
  const cause = expect.stringMatching(/ECONNREFUSED.* \(seen by http:/) as unknown
  const shown = [{ state: 'up' }, { cause }]
  expect(await ask('GET /api/backends')).toMatchObject({ gateways: both, backends: shown })
  const recent = await ask('GET /api/requests')
  expect((recent['requests'] as { id: string }[]).map(({ id }) => id)).toEqual(
    expect.arrayContaining(ids),
  )

  const { explanation } = await ask('POST /api/explain', { requestId: ids[2] })
  const recorded = expect.arrayContaining([`decided at ${at(other)}`]) as unknown
  expect(explanation).toMatchObject({ target: '/v1/pets/7', client: 'acme', recorded })
  const asked = ['deprecations', '--admin', first.adminOrigin]
  const options = { env: { TOLLGATE_ADMIN_TOKEN: TOKEN, NO_COLOR: '1' }, columns: 100 }
  expect((await typed(asked, options)).stdout).toMatch(
    /^Of 2 gateways\nROUTE .*\ngetPet +acme +\d /,
  )

  second.signal('SIGSTOP')
  const alone = { answered: [at(one)], silent: [at(other)] }
  const left = await said('GET /api/deprecations', ({ gateways }) => gateways.silent.length > 0)
  expect(left).toMatchObject({ scope: 'gateway', gateways: alone })
  const { stdout } = await typed(asked, options)
  expect(stdout).toContain(`Of 1 of 2 gateways; ${at(other)} did not answer (timeout)\n`)
  second.signal('SIGCONT')
})

it('gives nothing away to an address that an outsider has written, and believes nothing it says', async () => {
  const planted = await startRawBackend({
    host: '0.0.0.0',
    // Node.js ends a connection to another protocol that nobody has asked for, and reports nothing.
    respond: ({ target }) =>
      target === '/api/shadow'
        ? answer(101, '', 'Connection: upgrade', 'Upgrade: other')
        : target === '/api/requests'
          ? Array.from({ length: 150 }, (_, at) => (at % 2 ? 20 : 'HTTP/1.1 103 Hints\r\n\r\n'))
          : answer(200, '{}'),
  })
  const key = `${redis.prefix}:gateways`
  const [id = ''] = redis.cli('HKEYS', key).split('\n')
  const proven = redis.cli('HGET', key, id)
  // This gateway would stay for seconds, and whoever signs would search it.
  redis.cli('HSET', key, 'long', `${Date.now()} ${'x'.repeat(500)}`)
  const unproven = 'badbadbadbad: no admin.advertise, or another token'
  const isPlanted = (gateways: Gateways): boolean => gateways.why.includes(unproven)
  await said('GET /api/backends', ({ gateways }) => {
    const note = proven.replace(/^\d+ \S+/, `${Date.now()} ${at(planted.port)}`)
    redis.cli('HSET', key, 'badbadbadbad', note)
    return isPlanted(gateways)
  })
  expect(planted.requests).toEqual([])
  expect(redis.cli('HEXISTS', key, 'long')).toBe('0')

  // One that stands before a gateway itself sees what that one is asked.
  const third = await gatewayHere(fileOf(planted.port, lured))
  await said('GET /api/top', ({ gateways }) => gateways.silent.includes(at(planted.port)))
  expect((await ask('GET /api/shadow')).gateways.silent).toContain(at(planted.port))
  const causes = async (path: string): Promise<string> =>
    (await ask(`GET ${path}`)).gateways.why.join('\n')
  expect(await causes('/api/top')).toContain('(200 without a proof of the admin.token)')
  expect(await causes('/api/requests')).toContain(`${at(planted.port)} did not answer (1xx)`)
  const [seen] = planted.requests
  expect(seen?.headers.join()).not.toMatch(/authorization|bearer|cookie/i)
  const question = seen?.header('tollgate-fleet') ?? ''
  const passedOn = (origin: string, path = seen?.target) =>
    fetch(`${origin}${path}`, { headers: { 'tollgate-fleet': question } })
  expect((await passedOn(first.adminOrigin)).status).toBe(401)
  expect((await passedOn(second.adminOrigin)).status).toBe(401)
  expect((await passedOn(third.adminOrigin)).headers.get('tollgate-fleet')).toMatch(/^[\w-]{43}$/)
  for (const path of ['/api/shadow', '/api/config', '/api/clients', '/metrics'])
    expect((await passedOn(third.adminOrigin, path)).status).toBe(401)
  await third.stop()
  await said('GET /api/top', ({ gateways }) => !gateways.silent.includes(at(planted.port)))
})

it('believes the others over https as commands do, also where they cannot ask it', async () => {
  const file = configFile(backend.url, { store: storeOn(redis) })
  const env = { TOLLGATE_ADMIN_CA: '/nowhere.pem' }
  const { code, stderr } = await startTollgate(['start', '--config', file], { env }).finished
  const fault = /TOLLGATE_ADMIN_CA: .nowhere.pem cannot be read \(ENOENT\); check its name/
  expect([code, stderr]).toEqual([2, expect.stringMatching(fault)])
})

it('says that the register cannot be used, though the store answers', async () => {
  const key = `${redis.prefix}:gateways`
  const text = 'the register of gateways cannot be used (WRONGTYPE)'
  redis.cli('SET', key, 'no hash')
  await said('GET /api/top', ({ gateways }) => gateways.why.includes(text))
  redis.cli('DEL', key)
  await said('GET /api/top', ({ gateways }) => !gateways.why.includes(text))
  const told = first.logged('storeWarning').filter(({ warning }) => warning === text)
  expect(told).toHaveLength(1)
})

it('looks up one name of another gateway at a time, as each may hold one of a few threads', async () => {
  const { lookup } = dns
  const hanging: string[] = []
  const hangs = (name: string, ...more: unknown[]): unknown =>
    name.endsWith('.test') ? hanging.push(name) : Reflect.apply(lookup, dns, [name, ...more])
  vi.spyOn(dns, 'lookup').mockImplementation(hangs)
  // The key is derived anew with the next sign of life.
  const fails = (...given: unknown[]) => (given.at(-1) as (fault: Error) => void)(Error('memory'))
  const derived = vi.spyOn(crypto, 'scrypt').mockImplementationOnce(fails)
  syncBuiltinESMExports()
  onTestFinished(() => {
    vi.restoreAllMocks()
    syncBuiltinESMExports()
  })
  const names = ['http://some.test', 'http://other.test']
  const twice = `${at(one)} stands for two gateways, or for one started anew`
  for (const name of [...names, at(one)])
    await gatewayHere(fileOf(0, 0, { admin: adminOf('127.0.0.1:0', name) }))
  await said(
    'GET /api/top',
    ({ gateways: { silent, why } }) =>
      names.every((name) => silent.includes(name)) && why.includes(twice),
  )
  expect(hanging).toHaveLength(1)
  expect(derived).toHaveBeenCalledTimes(4)
})
