import { describe, expect, it, onTestFinished } from 'vitest'
import { BackendChecks, connectionFault } from '../../../src/core/backends/checks.ts'
import { healthOf } from '../../../src/core/backends/backend.ts'
import { balancerOf, eject } from '../../support/balancer.ts'
import { rawBackend } from '../../support/backed.ts'
import { answer, type Answer } from '../../support/raw-backend.ts'

const health = { path: '/healthz?deep=1', everyMs: 50, timeoutMs: 200, down: 2, up: 2 }

function check(
  url: string,
  host: ConstructorParameters<typeof BackendChecks>[1]['host'] = 'preserve',
) {
  const balancer = balancerOf([url], { health })
  const timeouts = { connectMs: 1_000, responseMs: 1_000, idleMs: 1_000 }
  const checks = new BackendChecks(balancer, { eject, health, host, timeouts })
  checks.start()
  onTestFinished(() => checks.stop())
  return { state: () => balancer.backends.map(healthOf)[0] }
}

it('a connection that was made in time is one, though the process stood still before it could see it', async () => {
  const { port } = await rawBackend()
  const looked = connectionFault({ host: '127.0.0.1', port, tls: undefined }, 100)
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 200)
  expect(await looked).toBeUndefined()
})

describe('a health check', () => {
  it.each<[string, Answer, string | undefined]>([
    ['200', answer(200, 'ok'), undefined],
    ['204', answer(204), undefined],
    ['its head alone', 'HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n', undefined],
    ['a redirect', answer(302, '', 'Location: /'), 'health check: status 302'],
    ['500', answer(500, 'no'), 'health check: status 500'],
    ['nothing', undefined, 'health check: no answer within 200 ms'],
    ['garbage', 'garbage\r\n\r\n', 'health check: HPE_INVALID_CONSTANT'],
  ])('that is answered %s is judged so', async (_, reply, fault) => {
    const backend = await rawBackend({ respond: () => reply })
    const { state } = check(backend.url)
    await backend.waitFor(() => backend.requests.length >= 4)
    // A busy machine may keep it waiting twice in a row.
    await expect.poll(state).toMatchObject({ state: fault === undefined ? 'up' : 'ejected', fault })
  })

  it('is one small GET at a time, under its own Host or the one of the configuration', async () => {
    const backend = await rawBackend({ respond: () => [120, answer(200, 'ok')] })
    const fixed = await rawBackend({ respond: () => answer(200, 'ok') })
    check(backend.url)
    check(fixed.url, { name: 'api.internal' })
    await backend.waitFor(() => backend.requests.length >= 3 && fixed.requests.length >= 1)
    expect(backend.problems()).toEqual([])
    // The next begins when the one before is over, and has a connection of its own.
    await expect.poll(backend.openConnections).toBeLessThanOrEqual(1)
    const [first] = backend.requests
    expect([first?.method, first?.target]).toEqual(['GET', health.path])
    expect(first?.header('host')).toBe(`127.0.0.1:${backend.port}`)
    expect(fixed.requests[0]?.header('host')).toBe('api.internal')
  })

  it('over TLS of a backend that speaks none says what to look at', async () => {
    const { url } = await rawBackend({
      onConnection: ({ socket }) => socket.write('HTTP/1.1 400 Bad Request\r\n\r\n'),
    })
    const { state } = check(url.replace('http:', 'https:'))
    await expect
      .poll(() => state()?.fault)
      .toBe('health check: it speaks no TLS (http:// in upstream.urls); EPROTO')
  })
})
