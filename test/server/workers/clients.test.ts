// Clients go to workers through a pipe: cut, given up, to one that dies over it.
import type { ChildProcess } from 'node:child_process'
import { EventEmitter } from 'node:events'
import { writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { Writable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { parseConfigText } from '../../../src/config/clients/load.ts'
import { borrowTable } from '../../../src/config/clients/release.ts'
import {
  TableReader,
  TableSender,
  START_TABLE,
} from '../../../src/server/workers/client-table-pipe.ts'
import { sha256 } from '../../support/gateway.ts'
import { configFile, eventually, gatewayProcess, startRawBackend } from '../../process/gateways.ts'
import { ask, atRest, isAlive, thaw, workerBlocks, workerPids } from './workers.ts'

/** Both ends, with what was written in between; `hold` lets nothing more be taken until what it returns is called. */
function ends() {
  const reader = new TableReader()
  const written: number[] = []
  let held: PromiseWithResolvers<void> | undefined
  const stdio = Array.from({ length: 6 }, () => undefined as Writable | undefined)
  stdio[5] = new Writable({
    async write(bytes: Buffer, _, done) {
      written.push(bytes.length)
      // The sender may use its own again as soon as it is told.
      for (let at = 0; at < bytes.length; at += 1_021) reader.take(bytes.subarray(at, at + 1_021))
      await held?.promise
      done()
    },
  })
  const worker = Object.assign(new EventEmitter(), { stdio }) as unknown as ChildProcess
  const hold = () => {
    held = Promise.withResolvers()
    return held.resolve
  }
  return { reader, worker, sender: new TableSender(worker), written, hold }
}

const configOf = (clients: number) =>
  parseConfigText(
    `clients:\n${Array.from({ length: clients }, (_, n) => `  - { id: customer-${n}, plan: pro }\n`).join('')}`,
    { file: 'F', env: {} },
  )

describe('the pipe for clients', () => {
  const [small, large] = [configOf(1), configOf(20_000)]
  const bytesOf = (config: typeof small) => Buffer.from(borrowTable(config).bytes)
  const arrived = (buffer: ArrayBuffer, config: typeof small) =>
    Buffer.from(buffer).subarray(0, bytesOf(config).length).equals(bytesOf(config))

  it('brings one after the other, asked for before or after', async () => {
    const { sender, reader } = ends()
    const first = reader.table(START_TABLE)
    await Promise.all([
      sender.send(START_TABLE, large),
      sender.send(1, small),
      sender.send(2, large),
    ])
    expect(arrived(await first, large)).toBe(true)
    expect(arrived(await reader.table(1), small)).toBe(true)
    expect(arrived(await reader.table(2), large)).toBe(true)
  })

  it('has one piece under way at most, ends one that is given up there, and goes on with the next', async () => {
    const { sender, reader, written, hold } = ends()
    const go = hold()
    const start = sender.send(START_TABLE, large)
    for (let round = 1; round <= 3; round++) void sender.send(round, large)
    await sleep(50)
    expect(written).toEqual([256 * 1024 + 16])
    for (const round of [1, 2]) {
      sender.giveUp(round)
      reader.giveUp(round)
    }
    go()
    await start
    await expect(reader.table(2)).rejects.toThrow('was given up')
    expect(arrived(await reader.table(START_TABLE), large)).toBe(true)
    expect(arrived(await reader.table(3), large)).toBe(true)
    const whole = bytesOf(large).length
    const sum = written.reduce((total, bytes) => total + bytes, 0)
    expect(sum).toBe(2 * whole + written.length * 16)
  })

  it('drops the half of a table that is given up, whoever hears of it first', async () => {
    const { sender, reader, written, hold } = ends()
    const go = hold()
    const asked = reader.table(1)
    void sender.send(1, large)
    await sleep(20)
    expect(written).toHaveLength(1)
    reader.giveUp(1)
    await expect(asked).rejects.toThrow('was given up')
    go()
    await sender.send(2, large)
    expect(arrived(await reader.table(2), large)).toBe(true)
  })

  it('gives up all with the end of the worker', async () => {
    const { sender, worker, written, hold } = ends()
    const go = hold()
    const sent = [sender.send(START_TABLE, large), sender.send(1, large)]
    await sleep(20)
    worker.emit('exit')
    go()
    await Promise.all(sent)
    expect(written).toHaveLength(1)
  })
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
    const [frozen = NaN, dead = NaN] = [...workerPids(gateway).values()].filter(isAlive)
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
