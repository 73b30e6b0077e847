/** What a gateway of several workers does with what an operator wishes or tries as one of a single process does, and keeps over a kill of all of them. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, it } from 'vitest'
import type { Shadow } from '../../src/admin/shadow/operations.ts'
import type { ClientRow } from '../../src/admin/clients/operations.ts'
import { askAdmin } from '../support/admin-client.ts'
import { configText } from '../support/gateway.ts'
import { temporaryFile, temporaryFolder } from '../support/processes.ts'
import { ask, codes } from '../server/workers/workers.ts'
import { clientsBlock, decided, eventually, gatewayProcess, startRawBackend } from './gateways.ts'
import { times } from './gateways.ts'

const [TRIED, LIMIT] = [10, 20]

it('use that is set back, limits that are only tried and a dry run of others are of all workers, and outlive a kill', async () => {
  const backend = await startRawBackend()
  const textOf = (limit: number): string => {
    const shadow = `shadow: { perMinute: ${TRIED}, perDay: ${TRIED} }`
    const blocks = {
      server: 'server: { listen: "127.0.0.1:0", workers: 2 }',
      store: `store: { redis: "", file: "${join(temporaryFolder(), 'state.db')}" }`,
      plans: `plans: { enterprise: { custom: true, concurrent: 1000, ${shadow} } }`,
      clients: clientsBlock([{ id: 'acme', keys: ['tg_acme'], perMinute: limit, perDay: limit }]),
      bans: 'bans: { grace: 1m, strikes: 10000 }',
    }
    return configText({ upstreams: [backend.url], blocks })
  }
  const before = textOf(LIMIT)
  const file = temporaryFile('gateway.yaml', before)
  let gateway = await gatewayProcess(file)
  const api = async (call: string, body?: unknown) =>
    (await askAdmin(gateway.adminOrigin, call, body)).body
  const used = async () => ((await api('GET /api/clients/acme'))['client'] as ClientRow).day?.used
  const tried = async () => {
    const { clients } = (await api('GET /api/shadow')) as unknown as Shadow
    const [row] = clients
    if (row === undefined || row.requests < 2 * LIMIT) return undefined
    const { requests, degraded, refused, liveRefused } = row
    const judged = requests - degraded - refused.minute - refused.day
    return { degraded, judged, liveRefused: liveRefused.minute + liveRefused.day }
  }
  /** Each on a connection of its own, so that all workers are asked. What a worker holds that is late is asked for again; returns how many were refused. */
  const useAll = async (admitted: number): Promise<number> => {
    let refused = 0
    const askAll = async () => {
      const asked = times(2 * LIMIT, () => decided(() => ask(gateway.origin, { key: 'tg_acme' })))
      const { '429 rate_limit_exceeded': more = 0, ...others } = codes(await Promise.all(asked))
      expect({ '200': 0, ...others }).toEqual({ '200': 2 * LIMIT - more })
      refused += more
      return backend.requests.length >= admitted
    }
    await eventually('all is used', askAll)
    // Once more: what a worker spent since it was last answered might be of after a reset.
    await askAll()
    expect(backend.requests).toHaveLength(admitted)
    return refused
  }

  const refused = await useAll(LIMIT)
  // What was answered late is among the requests, too: they are no sign that all is told.
  const isTold = async () => (await tried())?.liveRefused === refused && (await used()) === LIMIT
  await eventually('all is told', isTold)
  const { degraded = 0, judged } = (await tried()) ?? {}
  expect(judged).toBeLessThanOrEqual(TRIED)
  expect(judged).toBeGreaterThanOrEqual(TRIED - degraded)

  writeFileSync(
    file,
    before.replaceAll(`perMinute: ${LIMIT}, perDay: ${LIMIT}`, 'perMinute: 5, perDay: 5'),
  )
  const { over } = await api('POST /api/reload', { dryRun: true })
  expect(over).toMatchObject({ scope: 'store', of: 1, lookedAt: 1, clients: ['acme'], count: 1 })
  writeFileSync(file, before)

  // Both of them know by heart that it is used up, until the day ends.
  const reset = await api('POST /api/clients/acme/reset', { window: 'both' })
  expect(reset).toMatchObject({ before: { day: LIMIT }, after: { day: 0 } })
  await useAll(2 * LIMIT)
  await eventually('it is kept', async () => (await used()) === LIMIT)
  // What is not written after a second is told of.
  await sleep(1_200)
  const unsaved = 'tollgate_counters_unsaved_seconds'
  await eventually('it is written', async () => (await gateway.metric(unsaved)) === 0)

  gateway.signal('SIGKILL')
  await gateway.finished
  gateway = await gatewayProcess(file)
  // What may have been spent after the latest write is taken for spent.
  expect(await used()).toBeGreaterThanOrEqual(LIMIT)
  expect(await used()).toBeLessThanOrEqual(LIMIT + LIMIT / 16)
  await useAll(2 * LIMIT)
})
