/** What is written behind, when, how often it is sent, and what is told of it, with a store that does as a test says. */
import { expect, it, vi } from 'vitest'
import { StoreUnavailable } from '../../../src/state/contract.ts'
import { UsageHistory } from '../../../src/insight/usage/usage-history.ts'
import { createMemoryUsageStore, type Batch } from '../../../src/state/usage.ts'
import { row } from '../live/rows.ts'

const TODAY = Math.floor(Date.now() / 86_400_000)
const tallied = (client: string, admitted: number, dayIndex = TODAY) =>
  row(client, { admitted, dayIndex })

/** does: what becomes of each call; `late`: it is kept, and the answer comes too late. */
function historyWith(does: (call: number) => 'keep' | 'late' | 'away') {
  const memory = createMemoryUsageStore()
  const sent: Batch[] = []
  const told = { onFault: vi.fn(), onRecovered: vi.fn(), onDropped: vi.fn() }
  const history = new UsageHistory({
    ...told,
    store: {
      ...memory,
      add: async (batch) => {
        const fate = does(sent.push(batch))
        const isAgain = sent.slice(0, -1).some(({ sequence }) => sequence === batch.sequence)
        if (fate !== 'away' && !isAgain) await memory.add(batch)
        if (fate !== 'keep') throw new StoreUnavailable('timeout')
      },
    },
  })
  const dayOf = async (day = TODAY): Promise<Record<string, number>> => {
    const counts: Record<string, number> = {}
    for await (const rows of history.day(day))
      for (const { client, admitted } of rows) counts[client] = admitted
    return counts
  }
  return { history, sent, told, dayOf }
}

it('is written soon by itself, and at once where it is asked for or the gateway ends', async () => {
  const { history, sent, dayOf } = historyWith(() => 'keep')
  history.add([tallied('acme', 2), tallied('acme', 0), tallied('idle', 0)])
  await vi.waitFor(() => expect(sent).toHaveLength(1))
  history.add([tallied('acme', 3), tallied('left', 1)])
  expect(await dayOf()).toEqual({ acme: 5, left: 1 })
  history.add([tallied('left', -1)])
  expect(await dayOf()).toEqual({ acme: 5 })
  expect(await history.client('acme', TODAY - 1, TODAY)).toHaveLength(1)
  history.add([tallied('acme', 4)])
  await history.close()
  expect(sent.map(({ rows: [row] }) => row?.admitted)).toEqual([2, 3, -1, 4])
  expect(history.unsavedSeconds).toBe(0)
  expect(history.dropped).toBe(0)
})

it('is sent again as it was after a time-out, before what came meanwhile, and told once', async () => {
  const { history, sent, told, dayOf } = historyWith((call) =>
    call === 1 ? 'late' : call === 2 ? 'away' : 'keep',
  )
  history.add([tallied('acme', 2)])
  await vi.waitFor(() => expect(sent).toHaveLength(1))
  history.add([tallied('acme', 3), tallied('bolt', 1, TODAY - 1)])
  await expect(dayOf()).rejects.toThrow(StoreUnavailable)
  expect(history.unsavedSeconds).toBeGreaterThan(0)
  expect(await dayOf(TODAY - 2)).toEqual({})
  await vi.waitFor(() => expect(sent.length).toBeGreaterThan(2), { timeout: 5_000 })
  expect(await dayOf()).toEqual({ acme: 5 })
  expect(await dayOf(TODAY - 1)).toEqual({ bolt: 1 })
  expect(sent[1]).toEqual(sent[0])
  expect(sent[2]).toEqual(sent[0])
  expect(told.onFault).toHaveBeenCalledOnce()
  expect(told.onRecovered).toHaveBeenCalledOnce()
  await history.close()
})

it('waits for a store that is away in bounded memory, and says what it drops', async () => {
  let isAway = true
  const { history, told, dayOf } = historyWith(() => (isAway ? 'away' : 'keep'))
  const everyone = Array.from({ length: 200_000 }, (_, at) => tallied(`client-${at}`, 1))
  history.add(everyone)
  // Those of whom something waits find room.
  history.add(everyone.slice(1_000, 2_000))
  expect(history.dropped).toBe(0)
  history.add([tallied('late', 2), tallied('later', 3)])
  expect(history.dropped).toBe(5)
  expect(told.onDropped).toHaveBeenCalledOnce()
  isAway = false
  const counts = await dayOf()
  expect(Object.keys(counts)).toHaveLength(200_000)
  expect(Object.values(counts).reduce((sum, one) => sum + one, 0)).toBe(201_000)
  isAway = true
  history.add([tallied('last', 7)])
  await history.close()
  expect(history.dropped).toBe(12)
  expect(told.onDropped).toHaveBeenCalledTimes(2)
})

it('lets requests have their turn between the pieces of all readings', async () => {
  const { history, dayOf } = historyWith(() => 'keep')
  history.add(Array.from({ length: 20_000 }, (_, at) => tallied(`c${at}`, 1)))
  await dayOf()
  let [turns, isOver] = [0, false]
  const count = (): void => {
    turns++
    if (!isOver) setImmediate(count)
  }
  count()
  const read = async (): Promise<number> => {
    let pieces = 0
    for await (const _ of history.day(TODAY)) pieces += 1
    return pieces
  }
  const pieces = await Promise.all([read(), read()])
  isOver = true
  expect(pieces).toEqual([20, 20])
  expect(turns).toBeGreaterThan(35)
  await history.close()
})
