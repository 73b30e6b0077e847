/** What a gateway in this process and one of two workers say of the moment, held against what they were sent. */
import { isDeepStrictEqual } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Top } from '../../../src/admin/overview/operations.ts'
import type { Requests, Tick } from '../../../src/insight/api/live.ts'
import type { Overview } from '../../../src/insight/live/overview.ts'
import type { Decision } from '../../../src/core/record/recent.ts'
import { clientsBlock, configFile, decided, eventually } from '../../process/gateways.ts'
import { gatewayProcess, startRawBackend, times } from '../../process/gateways.ts'
import type { GatewayProcess } from '../../process/gateways.ts'
import { askAdmin } from '../../support/admin-client.ts'
import { startBacked } from '../../support/backed.ts'

interface Told extends Pick<GatewayProcess, 'adminOrigin' | 'logged'> {
  call(key: string): Promise<{ readonly code: string | undefined }>
}

async function open(workers: number): Promise<Told> {
  const clients = clientsBlock([
    { id: 'busy', keys: ['busy-key'], perMinute: 100_000 },
    { id: 'limited', keys: ['limited-key'], perMinute: 1_000, perDay: ALLOWED },
  ]).replace('perMinute: 1000,', `perMinute: ${ALLOWED},`)
  if (workers > 1) {
    const server = `server: { listen: "127.0.0.1:0", workers: ${workers} }`
    return gatewayProcess(configFile((await startRawBackend()).url, { server, clients }))
  }
  const { gateway } = await startBacked({ blocks: { clients } })
  return {
    adminOrigin: `http://127.0.0.1:${gateway.adminPort}`,
    call: (key) => gateway.ask('/v1/pets', { key }),
    logged: gateway.lines,
  }
}

/** Reads events until it is told to stop. */
async function listen(gateway: Told, query = '') {
  const gone = new AbortController()
  const response = await fetch(`${gateway.adminOrigin}/api/events${query}`, { signal: gone.signal })
  const heard: { event: string; data: unknown }[] = []
  const read = async (): Promise<void> => {
    let text = ''
    for await (const piece of response.body?.pipeThrough(new TextDecoderStream()) ?? []) {
      const parts = (text + piece).split('\n\n')
      text = parts.pop() ?? ''
      for (const part of parts) {
        const [, event = '', data = ''] = /^event: (\w+)\ndata: (.*)$/.exec(part) ?? []
        if (event !== '') heard.push({ event, data: JSON.parse(data) })
      }
    }
  }
  const done = read().catch(() => undefined)
  const of = <Data>(type: string): Data[] =>
    heard.filter(({ event }) => event === type).map(({ data }) => data as Data)
  const stop = async (): Promise<void> => {
    gone.abort()
    await done
  }
  return { response, of, stop }
}

const sum = (numbers: readonly (number | null)[]): number =>
  numbers.reduce<number>((all, one) => all + (one ?? 0), 0)

/** Answers of a store that was late, as it may be on a machine whose every core is busy: 503, and asked once more. */
let late: { busy: number; limited: number }
const BUSY = 60
const LIMITED = 20
const ALLOWED = 5

describe.each([1, 2])('a gateway of %s', (workers) => {
  let gateway: Told
  let events: Awaited<ReturnType<typeof listen>>
  const ask = async <Body>(call: string) =>
    (await askAdmin(gateway.adminOrigin, `GET ${call}`)).body as unknown as Body
  const send = (client: keyof typeof late) =>
    decided(async () => {
      const answer = await gateway.call(`${client}-key`)
      if (answer.code === 'service_unavailable') late[client] += 1
      return answer
    })
  const requestsSent = () => BUSY + late.busy + LIMITED + late.limited + 3
  const requestsTold = () => sum(events.of<Tick>('tick').map(({ requests }) => requests))

  beforeAll(async () => {
    gateway = await open(workers)
    events = await listen(gateway)
    late = { busy: 0, limited: 0 }
  })
  afterAll(() => events.stop())

  it('ticks each second, and all ticks together are what was sent, by what became of it', async () => {
    expect(events.response.headers.get('content-type')).toMatch(/^text\/event-stream/)
    await Promise.all([
      ...times(BUSY, () => send('busy')),
      ...times(LIMITED, () => send('limited')),
      ...times(3, () => gateway.call('unknown')),
    ])
    const all = requestsSent()
    await eventually('all is told', () => requestsTold() === all)
    const ticks = events.of<Tick>('tick')
    expect(sum(ticks.map(({ refused }) => refused.day + refused.minute))).toBe(LIMITED - ALLOWED)
    expect(sum(ticks.map(({ refused }) => refused.other))).toBe(3 + late.busy + late.limited)
    expect(ticks.some(({ gatewayMs, backendMs }) => gatewayMs.p99 && backendMs.p50)).toBe(true)
    const decisions = () => events.of<Decision>('decision').length
    const untold = () => sum(events.of<Tick>('tick').map((tick) => tick.untold))
    await eventually('all decisions are told or counted', () => decisions() + untold() === all)
    expect(decisions()).toBeGreaterThanOrEqual(50)
  })

  it('says who is refused and why before all else, and the same seconds as the ticks', async () => {
    const overview = await ask<Overview>('/api/overview')
    expect(overview).toMatchObject({
      scope: 'gateway',
      workers: { listening: workers, wanted: workers },
      counts: { clients: 2, keys: 2, bannedKeys: 0, limitedClients: 1 },
      attention: [{ kind: 'client', subject: 'limited' }],
    })
    expect(overview.attention[0]?.text).toMatch(
      /^limited \(enterprise\) is refused since \d\d:\d\d:\d\dZ, [\d.]+\/s: day quota used up$/,
    )
    expect(sum(overview.seconds.requests)).toBe(requestsSent())
    const enterprise = {
      plan: 'enterprise',
      clients: 2,
      over80: 1,
      admittedToday: BUSY + ALLOWED,
      shadowRefused: null,
      shadowUnjudged: null,
    }
    await eventually('all is kept', async () => {
      const { plans } = await ask<Overview>('/api/overview')
      return isDeepStrictEqual(
        plans.find(({ plan }) => plan === 'enterprise'),
        enterprise,
      )
    })
  })

  it('lists who asks most and who is refused most, exactly', async () => {
    const top = await ask<Top>('/api/top?window=15m')
    expect(top.error).toBe(0)
    expect(top.clients.map(({ client, requests }) => [client, requests])).toEqual([
      ['busy', BUSY + late.busy],
      ['limited', LIMITED + late.limited],
    ])
    const { clients } = await ask<Top>('/api/top?by=refusals&window=15m')
    // A late store may have refused the other more often.
    const refusals = clients.map(({ client, refused }) => [client, sum(Object.values(refused))])
    const all = [
      ['limited', LIMITED - ALLOWED + late.limited],
      ['busy', late.busy],
    ] as const
    expect(refusals).toEqual(all.filter(([, n]) => n > 0).toSorted(([, a], [, b]) => b - a))
    const limited = clients.find(({ client }) => client === 'limited')
    expect(limited?.day).toEqual({ used: ALLOWED, limit: ALLOWED })
  })

  it('knows recent requests of all processes, each with what decided it', async () => {
    const { requests: refused, kept } = await ask<Requests>(
      '/api/requests?client=limited&refused=true',
    )
    const requests = refused.filter(({ refusal }) => refusal !== 'service_unavailable')
    expect(requests).toHaveLength(LIMITED - ALLOWED)
    expect(kept).toBe(1_000)
    for (const request of requests) {
      expect(request).toMatchObject({
        client: 'limited',
        key: 'limited-1',
        plan: 'enterprise',
        path: '/v1/pets',
        status: 429,
        refusal: 'rate_limit_exceeded',
        window: 'day',
        backend: null,
      })
      expect(request.retryAfterSeconds).toBeGreaterThan(0)
    }
    const all = await ask<Requests>('/api/requests')
    expect(new Set(all.requests.map(({ worker }) => worker)).size).toBe(workers)
    const [newest] = all.requests
    expect(await ask(`/api/requests/${newest?.id ?? ''}`)).toMatchObject({ request: newest })
    expect((await askAdmin(gateway.adminOrigin, 'GET /api/requests/none')).coded).toEqual([
      404,
      'not_found',
    ])
  })

  it.each([
    '/api/top?by=size',
    '/api/top?window=1s',
    '/api/requests?refused=perhaps',
    '/api/events?types=tick,gossip',
  ])('refuses %s, and says what can be asked', async (call) => {
    expect((await askAdmin(gateway.adminOrigin, `GET ${call}`)).coded).toEqual([
      400,
      'invalid_request',
    ])
  })

  if (workers === 1) return

  it('names a worker that does not answer, and waits no longer', async () => {
    const [started] = gateway.logged('workerStarted')
    const pid = Number(started?.['pid'])
    process.kill(pid, 'SIGSTOP')
    const { missing, requests } = await ask<Requests>('/api/requests')
    process.kill(pid, 'SIGCONT')
    expect(missing).toEqual([`worker ${String(started?.['worker'])} does not answer`])
    expect(requests.length).toBeGreaterThan(0)
    await eventually('all answer', async () => {
      return (await ask<Requests>('/api/requests')).missing === undefined
    })
  })
})
