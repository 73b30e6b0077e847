/** Clients go to workers on a pipe: one table after the other, and to a worker that dies over them. */
import { createWriteStream, openSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { expect, it } from 'vitest'
import { parseConfigText } from '../../../src/config/clients/load.ts'
import { toPlainConfig } from '../../../src/config/clients/client-table.ts'
import { createConfigReader, sendClients } from '../../../src/server/workers/client-pipe.ts'
import { sha256 } from '../../support/gateway.ts'
import { temporaryFile } from '../../support/processes.ts'
import { configFile, eventually, gatewayProcess, startRawBackend } from '../../process/gateways.ts'
import { ask, atRest, isAlive, thaw, workerBlocks, workerPids } from './workers.ts'

const configOf = (clients: number) =>
  parseConfigText(
    `clients: [${Array.from({ length: clients }, (_, n) => `{ id: customer-${n}, plan: pro }`).join(', ')}]`,
    { file: 'F', env: {} },
  )

it('clients come one table after the other, whole, to whoever asks for them at once; what is missing is an error', async () => {
  const file = temporaryFile('pipe', '')
  const pipe = createWriteStream(file)
  const sent = [configOf(20_000), configOf(0), configOf(1), configOf(20_000)]
  await Promise.all(sent.map((config) => sendClients(config, pipe)))
  const read = createConfigReader(openSync(file, 'r'))
  const plain = sent.map((config) => structuredClone(toPlainConfig(config)))
  const arrived = await Promise.all(plain.map(read))
  for (const [at, { clients }] of arrived.entries())
    expect([...clients]).toEqual([...(sent[at]?.clients ?? [])])
  await expect(read(plain[0] as never)).rejects.toThrow('the supervisor is gone')
})

it('workers have all clients of a file: from the start, through a reload, and one that is given up over the death of one of them', async () => {
  const more = { clientFiles: 'clientFiles: [clients.jsonl]', clients: 'clients: []' }
  const file = configFile((await startRawBackend()).url, workerBlocks(2, [], { more }))
  /** More than the pipe takes while nobody reads, and soon read. */
  const write = (round: number) =>
    writeFileSync(
      join(dirname(file), 'clients.jsonl'),
      Array.from({ length: 5_000 }, (_, n) => {
        const [id, key] = [`customer-${n}`, sha256(`tg_${n}_${round}`)]
        return `${JSON.stringify({ id, plan: 'pro', keys: [{ id: `${id}-1`, sha256: key }] })}\n`
      }).join(''),
    )
  write(0)
  const gateway = await gatewayProcess(file)
  const count = (event: string) => gateway.logged(event).length
  /** Each worker has the clients of this round, and not those of the other. */
  const hold = async (round: number, otherRound: number): Promise<void> => {
    const seen = count('access')
    // While both are being replaced nobody listens.
    const last = (of: number) =>
      ask(gateway.origin, { key: `tg_4999_${of}` }).catch(() => undefined)
    await eventually('an answer of both', async () => {
      const [one, other] = [await last(round), await last(otherRound)]
      if (one === undefined || other === undefined) return false
      expect([one.status, other.status]).toEqual([200, 401])
      const served = gateway.logged('access').slice(seen)
      return new Set(served.map(({ worker }) => worker)).size === 2
    })
  }
  await hold(0, 1)

  /** Whether the round is given up; on a machine on which reading takes ten seconds both have been replaced before it begins. */
  const isGivenUp = async (round: number): Promise<boolean> => {
    const living = () => [...workerPids(gateway).values()].filter(isAlive)
    await eventually('both workers', () => living().length === 2)
    const [frozen = NaN, dead = NaN] = living()
    write(round)
    const taken = count('configTaken')
    for (const pid of [frozen, dead]) process.kill(pid, 'SIGSTOP')
    gateway.signal('SIGHUP')
    // The supervisor has read all files then, and waits for both, which have half of it.
    await atRest(gateway.pid)
    // On a machine that is busy for so long the supervisor has done it.
    if (isAlive(dead)) process.kill(dead, 'SIGKILL')
    await eventually('its end', () => count('configRefused') === 1 || count('configTaken') > taken)
    thaw(frozen)
    return count('configRefused') === 1
  }
  let inForce = 0
  while (!(await isGivenUp(inForce + 1))) inForce += 1
  expect(gateway.logged('configRefused')[0]?.['problems']).toEqual([
    expect.stringMatching(/^worker \d: has ended: signal SIGKILL$/),
  ])
  await eventually('the other again', () => count('workerStarted') >= 3)
  await hold(inForce, inForce + 1)

  const before = count('configTaken')
  write(inForce + 2)
  gateway.signal('SIGHUP')
  await eventually('a reload', () => count('configTaken') > before)
  await hold(inForce + 2, inForce + 1)
  expect(gateway.logged('crash')).toEqual([])
})
