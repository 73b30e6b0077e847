/** Stopping loses nothing that is in flight within the drain time, and cuts the rest off after it. What engines do as they close is in test/contract. */
import { describe, expect, it } from 'vitest'
import { answer } from '../support/raw-backend.ts'
import { openRawClient } from '../support/raw-client.ts'
import { request, openWire } from './wire.ts'

const get = (id: string): string => request('GET', `/v1/pets/${id}`)
const stopsItself = { stopsItself: true }

describe('a gateway that is stopped', () => {
  it('finishes what is in flight, pipelined requests included, says that it closes, and takes nothing new', async () => {
    const { promise: goOn, resolve: release } = Promise.withResolvers<void>()
    const { connect, backend, gateway, accessLines, served } = await openWire({
      server: 'timeouts: { drain: 60s }',
      respond: async ({ target }) => (await goOn, answer(200, target)),
      ...stopsItself,
    })
    const client = await connect()
    const other = await connect()
    const idle = await connect()
    client.send(get('1') + get('2'))
    other.send(request('POST', '/v1/pets', { fields: ['Content-Length: 2'], body: '{' }))
    await backend.waitFor(() => backend.requests.length === 1, 'the first request')
    await expect.poll(() => gateway.metric('tollgate_requests_in_flight')).toBe(2)
    const stopped = gateway.stop()
    await idle.waitFor(({ closed }) => closed)
    await expect(openRawClient(gateway.port)).rejects.toThrow('ECONNREFUSED')
    other.send('}')
    await backend.waitFor(() => backend.requests.length === 2, 'the whole body')
    release()
    const [first, second] = await Promise.all([
      client.waitFor(({ closed }) => closed),
      other.waitFor(({ closed }) => closed),
    ])
    const bodies = first.responses.map(({ body }) => body.toString())
    expect(bodies).toEqual(['/v1/pets/1', '/v1/pets/2'])
    expect(first.responses[1]?.header('connection')).toBe('close')
    expect(second.responses[0]?.status).toBe(200)
    expect(second.responses[0]?.header('connection')).toBe('close')
    await stopped
    expect(await accessLines(3)).toHaveLength(3)
    expect(served().sort()).toEqual(['GET /v1/pets/1', 'GET /v1/pets/2', 'POST /v1/pets'])
  })

  it('cuts off what takes longer than the drain time', async () => {
    const { connect, backend, gateway, accessLines } = await openWire({
      server: 'timeouts: { drain: 300ms }',
      respond: ({ target }) =>
        target.endsWith('half') ? 'HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf' : undefined,
      ...stopsItself,
    })
    const silent = await connect()
    const half = await connect()
    silent.send(get('silent') + get('behind'))
    half.send(get('half'))
    await half.waitFor(({ raw }) => raw.includes('\r\n\r\nhalf'))
    await backend.waitFor(() => backend.requests.length === 2, 'the requests')
    await gateway.stop()
    const refused = await silent.waitFor(({ closed }) => closed)
    expect(refused.responses.map(({ status }) => status)).toEqual([503])
    expect(refused.responses[0]?.header('connection')).toBe('close')
    expect(backend.requests).toHaveLength(2)
    const cut = await half.waitFor(({ closed }) => closed)
    expect(cut.responses[0]?.complete).toBe(false)
    await backend.waitFor(() => backend.openConnections() === 0, 'the end')
    const ends = (await accessLines(2)).map(({ status, cause }) => `${status} ${String(cause)}`)
    expect(ends.sort()).toEqual(['200 drained', '503 drained'])
    const drained = gateway.logLines().find(({ event }) => event === 'drained')
    expect(drained).toMatchObject({ cutOff: 2 })
  })
})
