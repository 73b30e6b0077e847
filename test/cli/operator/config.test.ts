/** What `tollgate config` prints is a configuration: read again, it means the same. */
import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { effectiveConfig } from '../../../src/admin/config/operations.ts'
import { yamlLines } from '../../../src/config/document.ts'
import { parseConfigText } from '../../../src/config/clients/load.ts'

const example = (name: string): string =>
  readFileSync(new URL(`../../../config/${name}`, import.meta.url), 'utf8').replace(
    /^clients:\n(?:[ \n].*\n|\n)+/m,
    '',
  )

const all = `
server:
  listen: '[::1]:8443'
  basePath: /
  tls: { cert: /etc/cert.pem, key: /etc/key.pem, clientCa: /etc/ca.pem, minVersion: 1.3 }
  hsts: 1y
  http2: true
  trustedProxies: [10.0.0.0/8]
  limits: { bufferedBody: 0B, bodyBytes: 5MiB }
  timeouts: { idle: 90s, drainDelay: 0s }
upstream:
  urls: [https://one.example, https://two.example:8443]
  host: api.example
  health: { path: /healthz }
  tls: { ca: /etc/ca.pem, serverName: backend }
  eject: { atMost: 10% }
store: { file: '', redis: { sentinels: [a:1, b:2], name: master, db: 3 } }
plans:
  free: { perMinute: 1, perDay: 2, concurrent: 3, shadow: { perMinute: 1, perDay: 1 } }
  own: { custom: true }
cors: { origins: ['https://app.example'], maxAge: 1h, headers: [x-a], credentials: true }
jwt: { issuer: i, audience: a, jwksFile: /etc/jwks.json, algorithms: [EdDSA] }
routes:
  - name: getPet
    match: GET /pets/{id}
    stability: beta
    timeouts: { response: 3s }
    deprecated:
      since: 2025-12-05
      sunset: 2030-12-05T10:00:00Z
      successor: /pets
      afterSunset: gone
      brownouts: [{ from: 2030-01-01, to: 2030-01-02, share: 5% }]
telemetry: { otlp: 'http://127.0.0.1:4318', sample: 7% }
`

it.each([
  ['config/gateway.yaml', example('gateway.yaml')],
  ['config/minimal.yaml', example('minimal.yaml')],
  ['one with nearly every key', all],
  ['a cluster', all.replace(/redis: .*\}/, 'redis: { cluster: ["[::1]:1", b:2], tls: {} } }')],
  ['one server', all.replace(/redis: .*\}/, 'redis: redis://c:6380/2 }')],
  ['a store in memory', all.replace(/redis: .*\}/, '}')],
])('is, of %s, the same configuration', (_, text) => {
  const read = (file: string) => {
    const parsed = parseConfigText(file, { file: '/etc/gateway.yaml', env: {} })
    const { config, written } = effectiveConfig(parsed)
    return { config, written: JSON.parse(JSON.stringify(written)) as object }
  }
  const { config, written } = read(text)
  expect(read(yamlLines(written, 'block').join('\n')).config).toEqual(config)
})

it('shows nothing of a password, whatever it holds', () => {
  const text =
    'store: { redis: "redis://user:first@second@127.0.0.1:6379/2" }\nplans: { own: { custom: true } }\n'
  const shown = effectiveConfig(parseConfigText(text, { file: '/etc/gateway.yaml', env: {} }))
  expect(shown.config).not.toHaveProperty('store.shared')
  expect(shown.written).toMatchObject({ store: { redis: 'redis://127.0.0.1:6379/2' } })
})
