import { createServer } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { BackendChecks } from '../../../src/core/backends/checks.ts'
import type { BackendHealth } from '../../../src/core/backends/backend.ts'
import { balancerOf, eject } from '../../support/balancer.ts'
import { listening } from '../../support/listening.ts'
import { rawBackend } from '../../support/backed.ts'
import { answer, type Answer } from '../../support/raw-backend.ts'
import { freePort } from '../../support/redis-server.ts'

async function listen(at: number): Promise<{ connections(): number }> {
  let count = 0
  const server = createServer((socket) => {
    count++
    socket.on('error', () => {}).end()
  })
  await listening(server, at)
  return { connections: () => count }
}

const createBackendProbe = (...given: ConstructorParameters<typeof BackendChecks>) =>
  new BackendChecks(...given).probe

describe('the probe', () => {
  const timeouts = { connectMs: 1_000, responseMs: 1_000, idleMs: 1_000 }
  const none = { eject, health: undefined, host: 'preserve', timeouts } as const

  it('tells which backends take connections, and the balancer too', async () => {
    const [up, down] = [await freePort(), await freePort()]
    await listen(up)
    const balancer = balancerOf([up, down].map((port) => `http://127.0.0.1:${port}`))
    const found = await createBackendProbe(balancer, none)()
    expect(found.map(({ state, fault }) => [state, fault])).toEqual([
      ['up', undefined],
      ['down', 'ECONNREFUSED'],
    ])
    expect(found.map(({ isUsable }) => isUsable)).toEqual([true, false])
    expect(balancer.take({ job: { clientId: 'acme', method: 'GET' } })?.port).toBe(up)
    expect(balancer.take({ job: { clientId: 'acme', method: 'GET' } })?.port).toBe(up)
  })

  it('connects at most once a second, and sees a backend that has come back', async () => {
    const port = await freePort()
    const clock = vi.spyOn(performance, 'now').mockReturnValue(10_000)
    onTestFinished(() => clock.mockRestore())
    const probe = createBackendProbe(balancerOf([`http://127.0.0.1:${port}`]), none)
    await probe()
    const server = await listen(port)
    expect([(await probe())[0]?.fault, server.connections()]).toEqual(['ECONNREFUSED', 0])
    clock.mockReturnValue(11_010)
    const [[one], [two]] = await Promise.all([probe(), probe()])
    expect([one?.fault, two?.state]).toEqual([undefined, 'up'])
    await sleep(20)
    expect(server.connections()).toBe(1)
  })

  it('does not connect where the backends are asked for their health anyway', async () => {
    const port = await freePort()
    const server = await listen(port)
    const health = { path: '/', everyMs: 1_000, timeoutMs: 1_000, down: 2, up: 2 }
    const balancer = balancerOf([`http://127.0.0.1:${port}`], { health })
    const probe = createBackendProbe(balancer, { ...none, health })
    expect((await probe())[0]).toMatchObject({ state: 'down', fault: 'not checked yet' })
    for (const backend of balancer.backends) balancer.checked(backend, undefined)
    expect((await probe())[0]?.state).toBe('up')
    for (const backend of balancer.backends)
      for (let time = 0; time < 2; time++) balancer.checked(backend, 'status 500')
    expect((await probe())[0]).toMatchObject({ state: 'ejected', fault: 'status 500' })
    await sleep(20)
    expect(server.connections()).toBe(0)
  })

  it.each<[string, Answer, boolean]>([
    ['404', answer(404), true],
    ['503', answer(503), false],
    ['nothing', undefined, false],
  ])('asks a backend that fails its clients itself; answered %s', async (_, reply, isUsable) => {
    const backend = await rawBackend({ respond: () => reply })
    const balancer = balancerOf([backend.url])
    const probe = createBackendProbe(balancer, none)
    expect([(await probe())[0]?.isUsable, backend.requests.length]).toEqual([true, 0])
    for (const one of balancer.backends)
      for (let count = 0; count < 5; count++)
        balancer.note(one, 503, { job: { clientId: 'acme' }, startedMs: 0 })
    await sleep(1_010)
    expect((await probe())[0]).toMatchObject({ state: 'down', isUsable })
    const [asked] = backend.requests
    expect([asked?.method, asked?.target, backend.requests.length]).toEqual(['OPTIONS', '*', 1])
    // As another process says that sends it requests.
    const seen = [{ name: backend.url, state: 'down', isUsable: false }] as BackendHealth[]
    const elsewhere = createBackendProbe(balancerOf([backend.url]), none)
    expect((await elsewhere([seen, []]))[0]).toMatchObject({ state: 'down', isUsable })
  })

  it('calls a backend useful that answers somebody while the probe has no connection', async () => {
    // It takes connections, and shakes no hands over TLS.
    const backend = await rawBackend()
    for (const isAnswering of [false, true]) {
      const balancer = balancerOf([backend.url.replace('http:', 'https:')])
      const probe = createBackendProbe(balancer, {
        ...none,
        timeouts: { ...timeouts, connectMs: 200 },
      })
      const found = probe()
      await sleep(20)
      for (const one of balancer.backends)
        if (isAnswering) balancer.note(one, 200, { job: { clientId: 'acme' }, startedMs: 0 })
      expect((await found)[0]).toMatchObject({ state: 'down', isUsable: isAnswering })
    }
  })
})
