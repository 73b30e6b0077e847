/** Clients as operators see them, and the reset of one; that all gateways obey is shown by test/process/operator-resets.test.ts. */
import { expect, it } from 'vitest'
import type { Overview } from '../../src/insight/live/overview.ts'
import { clientOperations, type ClientRow } from '../../src/admin/clients/operations.ts'
import { parseConfigText } from '../../src/config/clients/load.ts'
import { SeenClients } from '../../src/insight/live/seen-clients.ts'
import { askAdmin } from '../support/admin-client.ts'
import { backed, startBacked } from '../support/backed.ts'
import { configText, minuteWithAtLeast, sha256 } from '../support/gateway.ts'

const FILLERS = 120
const client = (id: string, plan: string, more = '') =>
  `  - { id: ${id}, plan: ${plan}, keys: [{ id: ${id}-1, sha256: "${sha256(`tg_${id}`)}" }${more}] }`
const expired = `, { id: old, sha256: "${sha256('tg_old')}", expires: 2020-01-01 }`

const fillers = Array.from({ length: FILLERS }, (_, at) => client(`idle-${at}`, 'slow'))
const { gateway } = await startBacked({
  blocks: {
    plans: 'plans: { fast: { perMinute: 10, perDay: 20 }, slow: { perMinute: 2, perDay: 5 } }',
    clients: `clients:\n${[...fillers, client('acme', 'fast', expired), client('zeta', 'slow')].join('\n')}`,
  },
})

const ask = (call: string, body?: unknown) =>
  askAdmin(`http://127.0.0.1:${gateway.adminPort}`, call, body)
const call = (id: string) => gateway.status('/v1/pets', { key: `tg_${id}` })
const rowOf = async (id: string) =>
  (await ask(`GET /api/clients/${id}`)).body['client'] as ClientRow
const page = async (query: string) => {
  const { body } = await ask(`GET /api/clients?${query}`)
  const clients = body['clients'] as ClientRow[]
  return {
    ids: clients.map(({ id }) => id),
    cursor: body['cursor'] as string | null,
    total: body['total'],
  }
}

it('tells what clients have used by the store, and sets it back, once and for all windows that are named', async () => {
  await minuteWithAtLeast(8_000)
  for (let n = 0; n < 2; n++) expect(await call('zeta')).toBe(200)
  expect(await call('zeta')).toBe(429)
  for (let n = 0; n < 3; n++) expect(await call('acme')).toBe(200)
  const limited = await rowOf('zeta')
  expect(limited).toMatchObject({
    plan: 'slow',
    minute: { used: 2, leased: 0, limit: 2 },
    day: { used: 2, leased: 0, limit: 5 },
    share: 1,
    state: { state: 'limited', by: 'minute', until: limited.minute?.resetsAt },
    keys: [{ id: 'zeta-1', expires: null, bannedUntil: null }],
  })

  const minute = await ask('POST /api/clients/zeta/reset', { window: 'minute' })
  expect(minute.body).toMatchObject({ before: { minute: 2, day: 2 }, after: { minute: 0, day: 2 } })
  expect(await rowOf('zeta')).toMatchObject({ minute: { used: 0 }, day: { used: 2 } })
  for (let n = 0; n < 2; n++) expect(await call('zeta')).toBe(200)
  expect(await call('zeta')).toBe(429)
  const both = await ask('POST /api/clients/zeta/reset', { window: 'both' })
  expect(both.body).toMatchObject({ before: { minute: 2, day: 4 }, after: { minute: 0, day: 0 } })
  const answer = await gateway.ask('/v1/pets', { key: 'tg_zeta' })
  expect(answer).toMatchObject({ left: 1, dayLeft: 4 })
  const day = await ask('POST /api/clients/zeta/reset', { window: 'day' })
  expect(day.body).toMatchObject({ before: { minute: 1, day: 1 }, after: { minute: 1, day: 0 } })
  expect(await rowOf('acme')).toMatchObject({ minute: { used: 3 }, day: { used: 3 } })
  expect(gateway.lines('audit')).toMatchObject([
    { action: 'resetUsage', client: 'zeta', window: 'minute', before: { minute: 2 }, status: 200 },
    { window: 'both', before: { day: 4 }, after: { minute: 0, day: 0 } },
    { window: 'day', who: '127.0.0.1' },
  ])
})

it('has on a page first who is refused, then who is nearest by the figures of the store, whoever this gateway saw nearest', async () => {
  const config = parseConfigText(
    configText({
      upstreams: ['http://127.0.0.1:9'],
      blocks: {
        clients: `clients:\n${['a', 'b', 'c', 'd'].map((id) => client(id, 'pro')).join('\n')}`,
      },
    }),
    { file: 'F', env: {} },
  )
  const seenFirst = ['a', 'b', 'c', 'd']
  const used = { a: 1, b: 50, c: 20, d: 0 }
  const ban = { untilMs: Date.now() + 60_000, count: 1, startedMs: Date.now() }
  const window = (used: number) => ({ index: 1, taken: used, used })
  const needs = {
    reloads: { config },
    live: {
      clients: Object.assign(new SeenClients(), {
        page: () => ({ clients: seenFirst, cursor: '1:c' }),
      }),
    },
    counters: {
      look: (clients: { id: 'a' }[]) =>
        Promise.resolve(
          clients.map(({ id }) => ({ minute: window(used[id]), day: window(used[id]) })),
        ),
    },
    bans: { list: () => Promise.resolve([['d-1', ban]]) },
  }
  const [list] = clientOperations
  const answer = await list?.handle(needs as never, { query: { sort: 'nearest' } } as never)
  const { clients } = JSON.parse(answer?.body as string) as { clients: ClientRow[] }
  expect(clients.map(({ id }) => id)).toEqual(['d', 'b', 'c', 'a'])
})

it('shows the ones that matter first and all others after them, each once', async () => {
  await ask('PUT /api/bans/acme-1', { for: '1h' })
  // Once a second is over it is known who has asked; who becomes known between two pages is on neither.
  expect(await call('zeta')).toBe(200)
  const nearest = async () => (await page('sort=nearest')).ids.slice(0, 2)
  await expect.poll(nearest).toEqual(['zeta', 'acme'])
  const all = new Set<string>()
  const first = await page('sort=nearest')
  for (let next = first; ;) {
    for (const id of next.ids) all.add(id)
    if (next.cursor === null) break
    next = await page(`sort=nearest&cursor=${encodeURIComponent(next.cursor)}`)
  }
  expect([all.size, first.total, first.ids.length]).toEqual([FILLERS + 2, FILLERS + 2, 50])
  expect((await page('sort=refused&q=eta')).ids).toEqual(['zeta'])
  expect((await page('sort=refused&q=zeta-1')).ids).toEqual(['zeta'])
  expect((await page('sort=nearest&q=idle-7-1')).ids).toEqual(['idle-7'])
  expect(await page('sort=used&q=eta-')).toEqual({ ids: ['zeta'], total: 1, cursor: null })
  expect(await page('q=-1&plan=slow')).toMatchObject({ total: 31, cursor: null })
  expect(await page('q=-11-')).toEqual({ ids: ['idle-11'], total: 1, cursor: null })
  expect(await page('q=nobody-')).toEqual({ ids: [], total: 0, cursor: null })
  expect(await page('q=idle-11')).toMatchObject({ total: 11, cursor: null })
  expect(await page('plan=fast')).toEqual({ ids: ['acme'], total: 1, cursor: null })
  expect(await page('plan=slow')).toMatchObject({ total: FILLERS + 1, cursor: 'rest:50' })
  const last = await page('sort=id&cursor=rest:100')
  expect(last).toMatchObject({ cursor: null, total: FILLERS + 2 })
  expect(last.ids.slice(-2)).toEqual(['acme', 'zeta'])
  const banned = await rowOf('acme')
  expect(banned.state).toEqual({ state: 'banned', until: banned.keys[0]?.bannedUntil })
})

it('shows a client by the plan that a reload gave it, and one that is gone no more', async () => {
  const of = (...clients: string[]) => ({
    plans: 'plans: { fast: { perMinute: 12, perDay: 12 }, slow: { perMinute: 10, perDay: 12 } }',
    clients: `clients:\n${clients.join('\n')}`,
  })
  const after = of(client('mover', 'fast'), client('other', 'fast'))
  const { gateway: own, backend } = await backed({
    blocks: of(client('mover', 'slow'), client('gone', 'slow')),
    reload: () => configText({ upstreams: [backend.url], blocks: after }),
  })
  const admin = `http://127.0.0.1:${own.adminPort}`
  const seen = async (path: string) => (await askAdmin(admin, `GET ${path}`)).body
  const shown = async (plan: string) => {
    const { clients, total } = (await seen(`/api/clients?sort=nearest&plan=${plan}`)) as {
      clients: ClientRow[]
      total: number
    }
    return [total, ...clients.map(({ id, plan: now }) => `${id} ${now}`)]
  }
  const overview = async () => {
    const { plans, attention } = (await seen('/api/overview')) as unknown as Overview
    const subjects = attention.filter(({ kind }) => kind === 'client').map(({ subject }) => subject)
    return [new Set(subjects), plans.map(({ plan, over80 }) => `${plan} ${over80}`)]
  }
  await minuteWithAtLeast()
  for (const id of ['mover', 'gone'])
    for (let at = 0; at < 14; at++) await own.status('/v1/pets', { key: `tg_${id}` })
  await expect.poll(overview).toEqual([new Set(['gone', 'mover']), ['fast 0', 'slow 2']])
  expect((await askAdmin(admin, 'POST /api/reload')).status).toBe(200)
  expect(await overview()).toEqual([new Set(['mover']), ['fast 1', 'slow 0']])
  expect(await shown('fast')).toEqual([2, 'mover fast', 'other fast'])
  expect(await shown('slow')).toEqual([0])
})

it.each([
  ['GET /api/clients?sort=size', undefined, [400, 'invalid_request']],
  ['GET /api/clients?page=2', undefined, [400, 'invalid_request']],
  ['GET /api/clients?cursor=-1', undefined, [400, 'invalid_request']],
  ['GET /api/clients?cursor=seen:1:acme', undefined, [400, 'invalid_request']],
  ['GET /api/clients/nobody', undefined, [404, 'unknown_client']],
  ['POST /api/clients/nobody/reset', { window: 'day' }, [404, 'unknown_client']],
  ['POST /api/clients/acme/reset', { window: 'year' }, [400, 'invalid_request']],
  ['POST /api/clients/acme/reset', { window: 'day', at: 1 }, [400, 'invalid_request']],
  ['POST /api/clients/acme/reset', undefined, [400, 'invalid_request']],
])('%s %j is answered %j', async (asked, body, coded) => {
  expect((await ask(asked, body)).coded).toEqual(coded)
})
