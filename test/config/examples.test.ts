import { describe, expect, it } from 'vitest'
import { parse as parseYaml } from 'yaml'
import { demoKeys, planDemoKeys, refuseDemoKeys } from '../../src/cli/usable-config.ts'
import { parseConfigText } from '../../src/config/clients/load.ts'
import { completed } from '../../src/config/groups.ts'
import { configSchema } from '../../src/config/schema.ts'
import { uncomment } from './gateway-schema.ts'
import { sha256 } from '../support/gateway.ts'
import { gatewayYaml, minimalYaml, productionYaml, productionEnv } from './examples.ts'

const parse = (text: string, env: Record<string, string | undefined> = {}) =>
  parseConfigText(text, { file: 'FILE', env })

const settingsOf = (text: string) => {
  const {
    revision: _,
    written: _w,
    locations: _l,
    warnings: _n,
    clients: _c,
    ...settings
  } = parse(text)
  return settings
}

const withoutKey = (text: string, key: string): string =>
  text.replace(new RegExp(`^ *${key}: .*\n`, 'm'), '')

describe('config/gateway.yaml', () => {
  it('is the defaults, with clients and routes of the demonstration added', () => {
    const { warnings, clients, routes } = parse(gatewayYaml)
    expect({ ...settingsOf(gatewayYaml), routes: [] }).toEqual(settingsOf('clients: []'))
    expect(warnings).toEqual([])
    const names = ['listPets', 'createPet', 'getPet', 'listOrders']
    expect(routes.map(({ name }) => name)).toEqual(names)
    expect(clients.size).toBe(5)
  })

  it('spells every default as the schema does', () => {
    const shown = parseYaml(gatewayYaml.replace('${REDIS_URL:-}', ''), { schema: 'failsafe' })
    expect({ ...shown, clients: [], routes: [] }).toEqual(completed({}, configSchema))
  })

  it('is sound with everything optional switched on, with either source of JWT keys', () => {
    const everything = uncomment(uncomment(gatewayYaml))
    const env = { REDIS_URL: 'redis://127.0.0.1:6379' }
    const byUri = parse(withoutKey(everything, 'jwksFile'), env)
    const byFile = parse(withoutKey(everything, 'jwksUri'), env)
    const [jwksUri, jwksFile] = ['https://id.example/jwks.json', '/etc/tollgate/jwks.json']
    expect(byUri.jwt).toMatchObject({ clientClaim: 'sub', planClaim: 'plan', jwksUri })
    expect(byFile.jwt).toMatchObject({ clientClaim: 'sub', planClaim: 'plan', jwksFile })
    expect([byUri.jwt?.jwksFile, byFile.jwt?.jwksUri]).toEqual([undefined, undefined])
    expect([...byUri.clients][0]?.keys[0]?.expiresAtMs).toBe(Date.UTC(2099, 11, 31))
    expect(byUri.routes[0]).toMatchObject({ responseTimeoutMs: 5000, websocket: false })
  })

  it('takes its Redis from the environment', () => {
    expect(parse(gatewayYaml).store.redis).toBeUndefined()
    const env = { REDIS_URL: 'redis://127.0.0.1:6379' }
    expect(parse(gatewayYaml, env).store.redis).toMatchObject({
      kind: 'server',
      addresses: [{ host: '127.0.0.1', port: 6379 }],
    })
  })

  it('lists exactly the demo keys, by digest, one for each plan', () => {
    const { clients, plans } = parse(gatewayYaml)
    const digests = [...clients].flatMap(({ keys }) => keys.map((key) => key.sha256))
    expect(digests).toEqual(demoKeys.map(sha256))
    expect([...clients].map(({ plan }) => plan)).toEqual([...plans.keys(), 'enterprise'])
    expect(planDemoKeys.map(({ plan }) => plan)).toEqual([...plans.keys()])
    for (const key of demoKeys) expect(gatewayYaml).not.toContain(key)
  })
})

describe('config/minimal.yaml', () => {
  it('is one backend and one client, and the defaults for the rest', () => {
    const { clients, warnings, written } = parse(minimalYaml)
    expect(settingsOf(minimalYaml)).toEqual(settingsOf('clients: []'))
    expect([warnings, written]).toEqual([[], parse('clients: []').written])
    expect(clients.size).toBe(1)
    expect(refuseDemoKeys(parse(minimalYaml))).toBeUndefined()
  })
})

describe('config/production.yaml', () => {
  it('is sound, and holds no demo key', () => {
    const config = parse(productionYaml, productionEnv)
    expect(config.server.listen).toEqual({ host: '0.0.0.0', port: 8080 })
    expect(config.store.redis).toMatchObject({
      addresses: [{ host: 'redis.internal', port: 6379 }],
      username: 'user',
      password: 'password',
      tls: {},
    })
    expect(config.jwt?.jwksUri).toBe(productionEnv.JWKS_URI)
    expect(config.unmatched).toBe('reject')
    expect(config.warnings).toEqual([])
    expect(refuseDemoKeys(config)).toBeUndefined()
  })

  it.each(Object.keys(productionEnv))('is refused while %s is not set', (name) => {
    const env = { ...productionEnv, [name]: undefined }
    expect(() => parse(productionYaml, env)).toThrow('1 problem')
  })
})

describe('demo keys', () => {
  const on = (host: string) =>
    parse(gatewayYaml.replace('listen: 127.0.0.1:8080', `listen: '${host}:8080'`))

  it.each(['127.0.0.1', '127.9.9.9', '[::1]', 'localhost'])('are taken on %s', (host) => {
    expect(refuseDemoKeys(on(host))).toBeUndefined()
  })

  it.each(['0.0.0.0', '[::]', '192.0.2.1', 'gateway.example', '127.example'])(
    'are refused on %s, by name and not by key',
    (host) => {
      const complaint = refuseDemoKeys(on(host))
      const names = 'demo-free-1, demo-pro-1, demo-business-1, demo-enterprise-1, demo-load-1'
      expect(complaint).toContain(names)
      for (const key of demoKeys) expect(complaint).not.toContain(key)
    },
  )
})
