/** Certificates that have ended or soon will: said by check, at the start, by a reload, on the page and as a metric. */
import { readFileSync, writeFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { makeCertificates } from '../support/redis-tls.ts'
import { typed } from '../support/command-line.ts'
import { temporaryFile } from '../support/processes.ts'
import { configFile, gatewayHere } from './gateways.ts'

const METRIC = 'tollgate_tls_certificate_expiry_seconds'

const pair = ({ cert, key }: { cert: string; key: string }) => `tls: { cert: ${cert}, key: ${key} }`
const warning = (setting: string, end: string) =>
  new RegExp(
    `${setting}: warning: .*names a certificate that ${end} \\d{4}-\\d\\d-\\d\\d \\d\\d:\\d\\dZ; renew it, then reload$`,
  )

it('are those of the listener and of the calls to backends', async () => {
  const { expired: ended, server, client, ca } = makeCertificates()
  // A copy, as it is renewed here.
  const copy = (file: string): string => temporaryFile('copy.pem', readFileSync(file))
  const expired = { cert: copy(ended.cert), key: copy(ended.key) }
  const file = configFile('https://127.0.0.1:9', {
    server: `server: { listen: "127.0.0.1:0", ${pair(expired)} }`,
    upstream: `upstream: { urls: ["https://127.0.0.1:9"], tls: { ca: ${ca}, cert: ${client.cert}, key: ${client.key} } }`,
  })
  const wanted = [
    warning('server.tls.cert', 'expired'),
    warning('upstream.tls.cert', 'expires'),
  ].map((line) => expect.stringMatching(line) as unknown)
  const { code, stdout } = await typed(['check', '--config', file])
  expect([code, stdout.split('\n').filter((line) => line.includes('certificate'))]).toEqual([
    0,
    wanted,
  ])

  const gateway = await gatewayHere(file)
  const warned = () =>
    gateway
      .logged('configWarning')
      .map(({ problem }) => String(problem))
      .filter((problem) => problem.includes('certificate'))
  expect(warned()).toEqual(wanted)
  expect(await gateway.metric(`${METRIC}{setting="server.tls.cert"}`)).toBeLessThan(
    Date.now() / 1000,
  )
  expect(await gateway.metric(`${METRIC}{setting="upstream.tls.cert"}`)).toBeGreaterThan(
    Date.now() / 1000,
  )
  const attention = async () => {
    const overview = await (await fetch(`${gateway.adminOrigin}/api/overview`)).json()
    const { attention: lines } = overview as { attention: { kind: string; severity: string }[] }
    return lines.filter(({ kind }) => kind === 'certificate').map(({ severity }) => severity)
  }
  expect(await attention()).toEqual(['bad', 'warn'])

  // The renewed one under the same name, as tools for certificates write it.
  writeFileSync(expired.cert, readFileSync(server.cert))
  writeFileSync(expired.key, readFileSync(server.key))
  await gateway.reload()
  expect(gateway.logged('configTaken')).toHaveLength(2)
  expect(warned().slice(2)).toEqual([
    expect.stringMatching(warning('server.tls.cert', 'expires')),
    wanted[1],
  ])
  expect(await attention()).toEqual(['warn', 'warn'])
})

it('are those of the admin listener and of calls to Redis, too', async () => {
  const { expired, client, ca } = makeCertificates()
  const file = configFile('http://127.0.0.1:9', {
    admin: `admin: { listen: "127.0.0.1:0", ${pair(expired)} }`,
    store: `store: { redis: { url: "rediss://127.0.0.1:9", tls: { ca: ${ca}, cert: ${client.cert}, key: ${client.key} } } }`,
  })
  const { code, stdout } = await typed(['check', '--config', file])
  expect(code).toBe(0)
  expect(stdout).toMatch(new RegExp(warning('admin.tls.cert', 'expired'), 'm'))
  expect(stdout).toMatch(new RegExp(warning('store.redis.tls.cert', 'expires'), 'm'))
})
