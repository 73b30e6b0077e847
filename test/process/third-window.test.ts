/** A third window is an edit of one list: sources that have one count by it, refuse by it and show it, in every store. */
import { cpSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { temporaryFolder } from '../support/processes.ts'
import { clientsBlock, configFile, decided, eventually, gatewayProcess } from './gateways.ts'
import { startRawBackend, startRedisServer, storeOn, tally, times } from './gateways.ts'

const hour = `{ name: 'hour', lengthMs: 3_600_000, limit: 'perHour', most: 1e12, suffix: ' this hour' },`
const edits: readonly (readonly [before: string, after: string])[] = [
  ["  { name: 'day'", `  ${hour}\n  { name: 'day'`],
  ['day: valueOf(windows[1], 1)', 'hour: valueOf(windows[1], 1), day: valueOf(windows[2], 2)'],
  ['{ minute, day }: PerWindow<Given>', '{ minute, hour, day }: PerWindow<Given>'],
  ['day: valueOf(day)', 'hour: valueOf(hour), day: valueOf(day)'],
]

/** Returns the entry of a copy of the sources whose list has the hour. */
function withAnHour(): string {
  const [root, folder] = [join(import.meta.dirname, '../..'), temporaryFolder()]
  for (const name of ['src', 'package.json'])
    cpSync(join(root, name), join(folder, name), { recursive: true })
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'))
  const list = join(folder, 'src/config/time.ts')
  let text = readFileSync(list, 'utf8')
  for (const [before, after] of edits) {
    expect(text.split(before)).toHaveLength(2)
    text = text.replace(before, after)
  }
  writeFileSync(list, text)
  const lines = join(folder, 'src/core/record/access-record.ts')
  const left = '    hourLeft: quota?.hour.remaining,\n    dayLeft:'
  writeFileSync(lines, readFileSync(lines, 'utf8').replace('    dayLeft:', left))
  return join(folder, 'src/main.ts')
}

it('counts by a third window in its own file, in memory of a supervisor and in Redis', async () => {
  const main = withAnHour()
  const [backend, redis] = await Promise.all([startRawBackend(), startRedisServer()])
  const clients = clientsBlock([{ id: 'acme', keys: ['tg_acme'], perMinute: 3 }])
  const blocks = {
    plans: 'plans: { enterprise: { custom: true } }',
    log: 'log: { access: true }',
    clients: clients.replace('perDay', 'perHour: 3, perDay'),
  }
  const stores = [
    { store: 'store: { file: tollgate.db }' },
    { store: 'store: { file: "" }', server: 'server: { listen: "127.0.0.1:0", workers: 2 }' },
    { store: storeOn(redis) },
  ]
  for (const store of stores) {
    const gateway = await gatewayProcess(configFile(backend.url, { ...blocks, ...store }), { main })
    const answers = await Promise.all(times(7, () => decided(() => gateway.call('tg_acme'))))
    const refused = answers.find(({ status }) => status === 429)
    expect(tally(answers)).toEqual({ '200': 3, '429 rate_limit_exceeded': 4 })
    expect(JSON.parse(refused?.body ?? '')).toMatchObject({ window: 'hour', limit: 3 })
    expect(refused?.headers.get('ratelimit')).toContain('"hour";r=0;t=')
    // The API's document does not know it, and would refuse it.
    const shown = await (await fetch(`${gateway.adminOrigin}/api/clients`)).json()
    expect(shown).toMatchObject({ clients: [{ hour: { limit: 3 }, state: { by: 'hour' } }] })
    await eventually('the log', () => gateway.logged('access').length === answers.length)
    expect(gateway.logged('access')).toContainEqual(expect.objectContaining({ hourLeft: 0 }))
    await gateway.end()
  }
})
