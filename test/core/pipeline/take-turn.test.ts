import { describe, expect, it } from 'vitest'
import { MessageChannel } from 'node:worker_threads'
import { LONGEST_WAIT_MS, TurnsOfClients } from '../../../src/core/pipeline/take-turn.ts'

describe('the turns of clients', () => {
  const started = (limit: number, requests: number) => {
    const turns = new TurnsOfClients()
    const client = turns.of('a')
    const taken = Array.from({ length: requests }, () => client.take(limit))
    return { turns, client, taken }
  }

  it('are as many as the limit at once; the next come in the order in which they asked', async () => {
    const { client, taken } = started(2, 5)
    expect(taken.slice(0, 2)).toEqual([true, true])
    const came: number[] = []
    const note = async (nth: number): Promise<void> => void ((await taken[nth]) && came.push(nth))
    const noted = [2, 3, 4].map(note)
    client.giveBack()
    await noted[0]
    expect(came).toEqual([2])
    client.giveBack()
    client.giveBack()
    await Promise.all(noted)
    expect(came).toEqual([2, 3, 4])
  })

  it('are refused to those who waited for a quarter of a second, and at once when the line is full', async () => {
    const startedMs = performance.now()
    const { taken, turns } = started(40, 81)
    expect(taken.slice(0, 40)).toEqual(Array(40).fill(true))
    expect(taken[80]).toBe(false)
    for (const each of taken.slice(40, 80)) expect(await each).toBe(false)
    expect(performance.now() - startedMs).toBeGreaterThan(200)
    // Another client has its own.
    expect(turns.of('b').take(1)).toBe(true)
  })

  it('are had by those for whom one was free while the process stood still', async () => {
    const { client, taken } = started(1, 2)
    const { port1, port2 } = new MessageChannel()
    port1.once('message', () => client.giveBack())
    port2.postMessage('as the end of an answer that lies there unread')
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, LONGEST_WAIT_MS + 50)
    expect(await taken[1]).toBe(true)
    port1.close()
  })

  it('leave room in the line for what one connection may pipeline', () => {
    const { taken } = started(1, 34)
    expect(taken.filter((each) => each instanceof Promise)).toHaveLength(32)
    expect(taken[33]).toBe(false)
  })

  it('follow a limit that was lowered meanwhile', async () => {
    const { client } = started(3, 3)
    const waiting = client.take(2)
    client.giveBack()
    // Two are under way still.
    const late = client.take(2)
    client.giveBack()
    expect(await waiting).toBe(true)
    expect(await late).toBe(false)
  })

  it('are remembered of clients with requests under way, however many others come and go', () => {
    const turns = new TurnsOfClients()
    const busy = turns.of('busy')
    void busy.take(1)
    const idle = turns.of('client-0')
    for (let nth = 0; nth < 5_000; nth++) {
      const client = turns.of(`client-${nth}`)
      void client.take(1)
      client.giveBack()
    }
    expect(turns.of('busy')).toBe(busy)
    expect(['busy', 'client-4999', 'nobody'].map((id) => turns.takenBy(id))).toEqual([1, 0, 0])
    expect(turns.of('client-0')).not.toBe(idle)
  })
})
