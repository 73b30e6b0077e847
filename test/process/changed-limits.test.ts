/** A running gateway takes other limits under load: no process admits one request more than the new ones allow, nor one fewer. */
import { writeFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { configText } from '../support/gateway.ts'
import { temporaryFile } from '../support/processes.ts'
import { again, clientsBlock, decided, eventually, gatewayProcess } from './gateways.ts'
import { startRawBackend } from './gateways.ts'

const KEY = 'tg_test_limits_0123456789abcdef'
/** More than the callers can spend while a change is taken. */
const FIRST = 20_000

it('from many to 5 under load no worker admits one more, and by as many as it is raised again so many are admitted, from the next request on', async () => {
  const backend = await startRawBackend()
  const text = (perMinute: number): string =>
    configText({
      upstreams: [backend.url],
      blocks: {
        server: 'server: { listen: "127.0.0.1:0", workers: 2, timeouts: { drain: 1s } }',
        // Whoever is refused goes on asking.
        bans: 'bans: { grace: 1m }',
        store: 'store: { file: "", timeout: 110ms, onOutage: closed }',
        // Of the day too, so that the end of a minute changes nothing.
        clients: clientsBlock([{ id: 'acme', keys: [KEY], perMinute, perDay: perMinute }]),
      },
    })
  const file = temporaryFile('gateway.yaml', text(FIRST))
  const gateway = await gatewayProcess(file)

  let admitted = 0
  let asked = 0
  /** What was asked since the latest change was taken, by limit and status. */
  let answers: string[] = []
  const ask = async (): Promise<void> => {
    const noted = answers
    asked += 1
    const { status, headers } = await decided(() => gateway.call(KEY))
    if (status === 200) admitted += 1
    noted.push(`${headers.get('x-ratelimit-limit')} ${status}`)
  }
  // A second after a client was met tokens are leased, so that they are in hand when the limit is lowered.
  await ask()
  await sleep(1100)
  const stop = again(4, ask, 10)
  const take = async (perMinute: number): Promise<void> => {
    const before = gateway.logged('configTaken').length
    writeFileSync(file, text(perMinute))
    gateway.signal('SIGHUP')
    await eventually('the change is taken', () => gateway.logged('configTaken').length > before)
    answers = []
  }
  const askedMore = (count: number): Promise<number> => {
    const enough = asked + count
    return eventually('more is asked', () => asked >= enough)
  }

  await eventually('some are admitted', () => admitted >= 8)
  await take(5)
  await askedMore(40)
  expect(new Set(answers)).toEqual(new Set(['5 429']))
  const meanwhile = answers
  const raised = admitted + 40
  await take(raised)
  await eventually('all are admitted', () => admitted >= raised)
  await askedMore(40)
  await stop()
  // All of it may be spent before the change is seen to be taken.
  const next = [...meanwhile, ...answers].find((answer) => answer.startsWith(`${raised} `))
  expect(next).toBe(`${raised} 200`)
  expect(admitted).toBe(raised)
})
