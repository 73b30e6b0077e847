import { once } from 'node:events'
import { connect } from 'node:net'
import { hostname } from 'node:os'
import { afterEach, describe, expect, it, onTestFinished } from 'vitest'
import { startAdminServer } from '../../src/admin/server.ts'
import type { AdminServer, AdminServerOptions } from '../../src/admin/server.ts'
import { rawExchange } from '../support/raw-client.ts'
import { readBlocks } from '../support/serving.ts'

const open: AdminServer[] = []
afterEach(async () => {
  await Promise.all(open.splice(0).map((server) => server.close()))
})

const having = (admin: string) => ({
  config: readBlocks(['http://127.0.0.1:1'], { admin: `admin: { ${admin} }` }),
  reload: () => Promise.reject(new Error('is not asked for')),
})

const silent = { audit: () => {}, auditRefused: () => {}, adminFailed: () => {} }

/** Without what no test here asks for. */
async function start(more: Partial<AdminServerOptions> = {}): Promise<string> {
  const options: Partial<AdminServerOptions> = {
    listen: { host: '127.0.0.1', port: 0 },
    identity: undefined,
    reloads: having(''),
    log: silent,
    renderMetrics: () => Promise.resolve('a 1\n'),
    readiness: () => ({ checks: [{ name: 'config', ok: true }] }),
    ...more,
  }
  const server = await startAdminServer(options as AdminServerOptions)
  open.push(server)
  return `http://127.0.0.1:${server.address.port}`
}

/** Everything that comes back until the server closes. */
const raw = async (url: string, bytes: string): Promise<string> =>
  String((await rawExchange(Number(new URL(url).port), bytes)).raw)

describe('the admin listener', () => {
  it('answers HEAD like GET, without the body', async () => {
    const head = await fetch(`${await start()}/metrics`, { method: 'HEAD' })
    const { headers } = head
    expect([head.status, headers.get('content-length')]).toEqual([200, '4'])
    expect(headers.get('content-type')).toBe('text/plain; version=0.0.4; charset=utf-8')
    expect(await head.text()).toBe('')
  })

  it('makes the metrics for callers without a credential once a second at most, whoever asks', async () => {
    let made = 0
    const url = await start({
      reloads: having(`openMetrics: true, tokenSha256: ${'0'.repeat(64)}`),
      renderMetrics: () => Promise.resolve(`${++made}`),
    })
    const beganMs = performance.now()
    for (let at = 0; at < 30; at++) expect((await fetch(`${url}/metrics`)).status).toBe(200)
    expect(made).toBeLessThanOrEqual(1 + Math.ceil((performance.now() - beganMs) / 1_000))
    await expect
      .poll(async () => Number(await (await fetch(`${url}/metrics`)).text()))
      .toBeGreaterThan(1)
  })

  it('answers 400 to two Host fields, whichever comes first', async () => {
    const url = await start()
    for (const hosts of ['Host: localhost\r\nHost: evil.example', 'Host: a\r\nhost: localhost'])
      for (const path of ['/healthz', '/api/overview', '/'])
        expect(await raw(url, `GET ${path} HTTP/1.1\r\n${hosts}\r\n\r\n`)).toMatch(
          /^HTTP\/1.1 400 .*Connection: close.*"code":"invalid_request"/s,
        )
  })

  it('answers 500 when a page cannot be made, tells why to the log alone, and lives on', async () => {
    const errors: unknown[] = []
    const url = await start({
      log: { ...silent, adminFailed: (error) => void errors.push(error) },
      renderMetrics: () => Promise.reject(new Error('secret cause')),
      readiness: () => {
        throw new Error('another cause')
      },
    })
    for (const path of ['/metrics', '/readyz']) {
      const response = await fetch(url + path)
      expect(response.status).toBe(500)
      const body = await response.text()
      expect(JSON.parse(body)).toMatchObject({ code: 'internal_error', status: 500 })
      expect(body).not.toContain('cause')
    }
    expect(errors.map(String)).toEqual(['Error: secret cause', 'Error: another cause'])
    expect((await fetch(`${url}/healthz`)).status).toBe(200)
  })

  it('never takes an unread body for a second request', async () => {
    const second = 'GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n'
    const head = `POST /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: ${second.length}\r\n\r\n`
    const text = await raw(await start(), head + second)
    expect(text.match(/HTTP\/1\.1 /g)).toHaveLength(1)
    expect(text).toMatch(/^HTTP\/1\.1 405 .*\r\nconnection: close\r\n/is)
  })

  it('refuses headers beyond 8 KiB and what is not HTTP', async () => {
    const url = await start()
    const large = `GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: ${'x'.repeat(9_000)}\r\n\r\n`
    expect(await raw(url, large)).toMatch(/^HTTP\/1\.1 431 /)
    expect(await raw(url, 'nonsense\r\n\r\n')).toMatch(/^HTTP\/1\.1 400 /)
    expect((await fetch(`${url}/healthz`)).status).toBe(200)
  })

  it('closes although a caller keeps its connection and another one never ends its request', async () => {
    const url = await start()
    await (await fetch(`${url}/healthz`)).text()
    const half = raw(url, 'GET /healthz HTTP/1.1\r\nHost:')
    await (await fetch(`${url}/healthz`)).text()
    await open.pop()?.close()
    await half
    await expect(fetch(`${url}/healthz`)).rejects.toThrow('fetch failed')
  })
})

/** Status of a GET with this Host header; of a foreign one with its code and the setting. */
async function statusWithHost(url: string, host: string, path = '/healthz'): Promise<number> {
  const text = await raw(url, `GET ${path} HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`)
  const status = Number(text.slice(9, 12))
  if (status === 403) expect(text).toMatch(/"code":"foreign_host".*admin\.hosts/)
  return status
}

describe('the Host of a request to the admin listener', () => {
  it.each([
    ['127.0.0.1:9090', 200],
    ['LOCALHOST:1', 200],
    ['[::1]:9090', 200],
    [`${hostname().toUpperCase()}:9090`, 200],
    ['metrics.example:9090', 200],
    ['[FD00::1]', 200],
    ['evil.example', 403],
    ['localhost.evil.example', 403],
    ['evil.example:9090@localhost', 403],
    ['[::2]', 403],
    ['evil.example', 403, '/metrics'],
  ])('%j is answered with %i', async (host, status, path?: string) => {
    const url = await start({ reloads: having('hosts: [Metrics.example, "[fd00::1]"]') })
    expect(await statusWithHost(url, host, path)).toBe(status)
  })

  it('may be the address that was connected to, on a listener for all of them', async () => {
    for (const listen of ['0.0.0.0', '::']) {
      const url = await start({ listen: { host: listen, port: 0 } })
      const onSecond = url.replace('127.0.0.1', '127.0.0.2')
      expect((await fetch(`${onSecond}/healthz`)).status).toBe(200)
      expect(await statusWithHost(onSecond, '10.1.2.3')).toBe(403)
    }
  })

  it('may be left out in HTTP/1.0, in which old load balancers probe, and there alone', async () => {
    const url = await start()
    expect(await raw(url, 'GET /healthz HTTP/1.0\r\n\r\n')).toMatch(/^HTTP\/1\.1 200 /)
    expect(await raw(url, 'GET /healthz HTTP/1.1\r\n\r\n')).toMatch(/^HTTP\/1\.1 400 /)
  })
})

describe('an admin listener with all its connections taken', () => {
  /** Opens more connections than there may be, that send this and read nothing. */
  const crowd = async (url: string, bytes: string): Promise<void> => {
    for (let at = 0; at < 140; at++) {
      const socket = connect(Number(new URL(url).port), '127.0.0.1').on('error', () => undefined)
      onTestFinished(() => void socket.destroy())
      await once(socket, 'connect')
      socket.pause()
      if (bytes !== '') socket.write(bytes)
    }
  }

  it.each([
    ['idle', ''],
    ['slow to send a head', 'GET /healthz HTTP/1.1\r\nHost: '],
    [
      'slow to send a body',
      'POST /api/reload HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 60000\r\n\r\n{',
    ],
    ['slow to read an answer', 'GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n'],
  ])('answers a probe while 140 are %s', async (_what, bytes) => {
    const page = '#'.repeat(4 * 1024 * 1024)
    const url = await start({ renderMetrics: () => Promise.resolve(page) })
    await crowd(url, bytes)
    for (let probe = 0; probe < 3; probe++)
      expect((await fetch(`${url}/healthz`, { headers: { connection: 'close' } })).status).toBe(200)
  })

  it('closes none on which a request is being answered', async () => {
    const { promise, resolve } = Promise.withResolvers<void>()
    let asked = 0
    const url = await start({
      readiness: async () => {
        asked++
        await promise
        return { checks: [] }
      },
    })
    const slow = Array.from({ length: 20 }, () => fetch(`${url}/readyz`))
    await expect.poll(() => asked).toBe(20)
    await crowd(url, '')
    resolve()
    for (const answer of slow) expect((await answer).status).toBe(200)
  })
})
