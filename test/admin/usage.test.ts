/** What operators are told of the days, by a gateway in this process. All answers are held against docs/admin-openapi.yaml. */
import { describe, expect, it } from 'vitest'
import type { ClientUsage, DayUsage } from '../../src/admin/usage/operations.ts'
import { until } from '../support/controlled-authority.ts'
import { askAdmin } from '../support/admin-client.ts'
import { startBacked } from '../support/backed.ts'
import { minuteWithAtLeast, sha256 } from '../support/gateway.ts'
import { rawExchange } from '../support/raw-client.ts'

const clientLine = (id: string, key: string, limits: string): string =>
  `  - { id: ${JSON.stringify(id)}, plan: enterprise, limits: ${limits}, keys: [{ id: ${key}, sha256: ${sha256(key)} }] }`

const OK = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'
const { backend, gateway } = await startBacked({
  respond: ({ target }) => (target === '/v1/broken' ? 'HTTP/1.1 nonsense\r\n\r\n' : OK),
  blocks: {
    clients: [
      'clients:',
      clientLine('few', 'few-1', '{ perMinute: 2, perDay: 1000 }'),
      clientLine('spent', 'spent-1', '{ perMinute: 5, perDay: 5 }'),
      clientLine('dear', 'dear-1', '{ perMinute: 1000, perDay: 1000 }'),
      clientLine('well', 'well-1', '{ perMinute: 1000, perDay: 1000 }'),
    ].join('\n'),
  },
})

const iso = (ago = 0): string => new Date(Date.now() - ago * 86_400_000).toISOString().slice(0, 10)

const admin = `http://127.0.0.1:${gateway.adminPort}`
const told = async <Body>(path: string) =>
  (await askAdmin(admin, `GET ${path}`)).body as unknown as Body

/** Today, when so many requests are in it: each second is counted when it is over. */
async function dayOf(requests: number): Promise<DayUsage> {
  let day: DayUsage | undefined
  await until(async () => {
    day = await told<DayUsage>('/api/usage')
    const all = day.clients.map(
      ({ admitted, refused: { minute, day, ban } }) => admitted + minute + day + ban,
    )
    return all.reduce((sum, one) => sum + one, 0) === requests
  })
  if (day === undefined) throw new Error('nothing was told')
  return day
}

describe('the usage of a day', () => {
  it('tells what each client was admitted and refused, and what was handed back is in nothing', async () => {
    await minuteWithAtLeast(10_000)
    const call = async (key: string, times: number, path = '/v1/pets') => {
      const statuses: number[] = []
      for (let n = 0; n < times; n++) statuses.push((await gateway.fetch(path, { key })).status)
      return statuses
    }
    expect(await call('few-1', 5)).toEqual([200, 200, 429, 429, 429])
    await askAdmin(admin, 'PUT /api/bans/few-1', { for: '1h' })
    expect(await call('few-1', 4)).toEqual([429, 429, 429, 429])
    expect(await call('spent-1', 6)).toEqual([200, 200, 200, 200, 200, 429])
    expect(await call('well-1', 3)).toEqual([200, 200, 200])
    expect(await call('well-1', 1, '/v1/broken')).toEqual([502])
    expect(await call('well-1', 2, '/nothing/here')).toEqual([404, 404])
    // Never reached a backend: handed back.
    const body = 'a'.repeat(1_000)
    const head = 'POST /v1/pets HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer dear-1\r\n'
    await rawExchange(gateway.port, `${head}Content-Length: 100000\r\n\r\n${body}`, {
      responses: 1,
      timeoutMs: 300,
    }).catch(() => undefined)
    const day = await dayOf(19)
    expect(day).toMatchObject({ day: iso(), scope: 'process' })
    const none = { minute: 0, day: 0, ban: 0 }
    const plan = 'enterprise'
    const all = day.clients.toSorted((one, other) => (one.client < other.client ? -1 : 1))
    expect(all).toEqual([
      { client: 'few', plan, admitted: 2, refused: { minute: 3, day: 0, ban: 4 } },
      { client: 'spent', plan, admitted: 5, refused: { minute: 0, day: 1, ban: 0 } },
      { client: 'well', plan, admitted: 4, refused: none },
    ])
    const seen = backend.requests.map((request) => request.header('x-client-id'))
    for (const { client, admitted } of all)
      expect(seen.filter((one) => one === client).length, client).toBe(admitted)
  })

  it('is a table where that is asked for', async () => {
    const headers = { accept: 'text/csv' }
    const answer = await fetch(`${admin}/api/usage?day=${iso()}`, { headers })
    expect(answer.headers.get('content-type')).toBe('text/csv; charset=utf-8; header=present')
    const [head, ...lines] = (await answer.text()).split('\r\n')
    expect(head).toBe('day,client,plan,admitted,refused_minute,refused_day,refused_ban')
    expect(lines.sort()).toEqual([
      '',
      `${iso()},few,enterprise,2,3,0,4`,
      `${iso()},spent,enterprise,5,0,1,0`,
      `${iso()},well,enterprise,4,0,0,0`,
    ])
  })

  it('tells one client day by day', async () => {
    const of = (query = '') => told<ClientUsage>(`/api/clients/few/usage${query}`)
    const refused = { minute: 3, day: 0, ban: 4 }
    const days = [{ day: iso(), plan: 'enterprise', admitted: 2, refused }]
    const own = { client: 'few', plan: 'enterprise' }
    expect(await of()).toMatchObject({ ...own, from: iso(29), to: iso(), days })
    expect((await of(`?from=${iso(399)}&to=${iso()}`)).days).toEqual(days)
    expect(await of(`?to=${iso(1)}`)).toMatchObject({ from: iso(30), to: iso(1), days: [] })
  })

  it.each([
    ['/api/usage?day=yesterday', 400, /"day" is no day; write it as \d{4}-\d\d-\d\d/],
    ['/api/usage?day=2026-02-30', 400, /"day" is no day/],
    ['/api/usage?day=9999-01-01', 400, /"day" is not over; name/],
    [
      `/api/usage?day=${iso(400)}`,
      400,
      /"day" is not kept any more; name \d{4}-\d\d-\d\d, or later/,
    ],
    ['/api/usage?date=2026-01-01', 400, /Ask with \?day=/],
    [`/api/clients/few/usage?from=${iso()}&to=${iso(1)}`, 400, /"from" is after "to"/],
    ['/api/clients/nobody/usage', 404, /No client of the configuration has this id/],
  ])('refuses %s', async (path, status, message) => {
    const { coded, body } = await askAdmin(admin, `GET ${path}`)
    expect(coded).toEqual([status, status === 404 ? 'unknown_client' : 'invalid_request'])
    expect(body['message']).toMatch(message)
  })
})
