/** Many clients on their way to workers that stand still or die over it. */
import { writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { sha256 } from '../support/gateway.ts'
import { configFile, eventually, gatewayProcess, startRawBackend } from '../process/gateways.ts'
import { ask, atRest, isAlive, thaw, workerBlocks, workerPids } from './workers.ts'

/** More than the pipe takes while nobody reads, and soon read: a worker that stands still for 10 s is killed. */
const COUNT = 5_000
const lines = (round: number): string =>
  Array.from({ length: COUNT }, (_, n) => {
    const [id, key] = [`customer-${n}`, sha256(`tg_${n}_${round}`)]
    return `${JSON.stringify({ id, plan: 'pro', keys: [{ id: `${id}-1`, sha256: key }] })}\n`
  }).join('')

describe('workers and a file of many clients', () => {
  it('have all of them, from the start, through reloads, one that is given up, and the death of one that was being sent them', async () => {
    const backend = await startRawBackend()
    const more = { clientFiles: 'clientFiles: [clients.jsonl]', clients: 'clients: []' }
    const file = configFile(backend.url, workerBlocks(2, [], { more }))
    const write = (round: number) =>
      writeFileSync(join(dirname(file), 'clients.jsonl'), lines(round))
    write(0)
    const gateway = await gatewayProcess(file)
    const last = (round: number) => ask(gateway.origin, { key: `tg_${COUNT - 1}_${round}` })
    /** Each worker, on a connection that the kernel gave it. */
    const holds = async (round: number, otherRound: number): Promise<void> => {
      const seen = gateway.logged('access').length
      const workers = () =>
        new Set(
          gateway
            .logged('access')
            .slice(seen)
            .map(({ worker }) => worker),
        )
      await eventually('an answer of both', async () => {
        expect([(await last(round)).status, (await last(otherRound)).status]).toEqual([200, 401])
        return workers().size === 2
      })
    }
    /** Its outcome is waited for by the event; meanwhile these workers stand still with half of it. */
    const halfSent = async (round: number, ...numbers: number[]): Promise<number[]> => {
      const pids = numbers.map((number) => workerPids(gateway).get(number) ?? 0)
      write(round)
      for (const pid of pids) process.kill(pid, 'SIGSTOP')
      gateway.signal('SIGHUP')
      // The supervisor has read all files then, and waits for those that stand still.
      await atRest(gateway.pid)
      return pids
    }
    // On a machine that is busy for so long the supervisor has done it.
    const end = (pid: number): void => void (isAlive(pid) && process.kill(pid, 'SIGKILL'))
    const count = (event: string) => gateway.logged(event).length
    const taken = async (round: number): Promise<void> => {
      const before = count('configTaken')
      write(round)
      gateway.signal('SIGHUP')
      await eventually('a reload', () => count('configTaken') > before)
    }

    await holds(0, 2)

    // It is given up as the other one dies, and the half that has been written is no part of the next.
    const [frozen = 0, dead = 0] = await halfSent(2, 1, 2)
    end(dead)
    await eventually('a refusal', () => count('configRefused') === 1)
    thaw(frozen)
    const { problems } = gateway.logged('configRefused')[0] ?? {}
    expect(problems).toEqual([expect.stringMatching(/^worker \d: has ended: signal SIGKILL$/)])
    await eventually('the other again', () => count('workerStarted') >= 3)
    await holds(0, 2)
    await taken(3)
    await holds(3, 2)

    // It ends itself, over what it was being sent.
    const [ended = 0] = await halfSent(4, 1)
    end(ended)
    await eventually('another refusal', () => count('configRefused') === 2)
    await eventually('the first again', () => count('workerStarted') >= 4)
    await holds(3, 4)
    await taken(5)
    await holds(5, 4)
    expect(gateway.logged('crash')).toEqual([])
    gateway.signal('SIGTERM')
    expect((await gateway.finished).code).toBe(0)
  })
})
