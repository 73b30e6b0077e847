/** The order of work in one turn of the event loop; what it saves is in bench/. */
import { setImmediate as turn } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { TurnStage } from '../../../src/core/http/turn-stages.ts'

/** Stages that note what they do, and go on with an item that names a further stage. */
const done: string[] = []
const act = (item: string): void => {
  done.push(item)
  if (item.endsWith('then read')) read.add('read later')
  else if (item.endsWith('then record')) record.add('record after')
}
const record = new TurnStage<string>('record', act)
const read = new TurnStage<string>('read answers', act)

it('all requests go through a stage before any goes through the next', async () => {
  for (const name of ['a', 'b']) {
    record.add(`record ${name}`)
    read.add(`read ${name}`)
  }
  expect(done.splice(0)).toEqual([])
  await turn()
  expect(done.splice(0)).toEqual(['read a', 'read b', 'record a', 'record b'])
})

it('what a stage leaves to a later one is done in the same turn, to an earlier one or itself in the next', async () => {
  read.add('read then record')
  record.add('record then read')
  read.add('again then read')
  await turn()
  const first = ['read then record', 'again then read', 'record then read', 'record after']
  expect(done.splice(0)).toEqual(first)
  await turn()
  expect(done).toEqual(['read later', 'read later'])
})
