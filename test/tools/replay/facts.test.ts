/** How long an outage explains answers: until its own process has the store again, or is no more. */
import { expect, it } from 'vitest'
import type { LogNote } from '../../../src/tools/log-files/lines.ts'
import { Facts } from '../../../src/tools/replay/facts.ts'

const FROM = Date.parse('2026-11-02T10:00:00Z')
const BEGIN = 20_000
const LATER = 60_000

it.each<[string, number, [number, LogNote['event'], string][], boolean]>([
  ['goes on', LATER, [], true],
  ['is not there yet', 10_000, [], false],
  ['is over', LATER, [[30_000, 'storeBack', 'a.log/2']], false],
  ['is over for another gateway', LATER, [[30_000, 'storeBack', 'b.log/2']], true],
  ['is over for another worker', LATER, [[30_000, 'storeBack', 'a.log/1']], true],
  ['is over for its supervisor', LATER, [[30_000, 'storeBack', 'a.log']], true],
  ['is over for the store of bans', LATER, [[30_000, 'banStoreBack', 'a.log/2']], true],
  ['ends with its worker', LATER, [[30_000, 'workerCrashed', 'a.log/2']], false],
  ['does not end with another worker', LATER, [[30_000, 'workerCrashed', 'a.log/1']], true],
  ['ends with its gateway', LATER, [[30_000, 'drained', 'a.log']], false],
  ['is of a gateway that was killed and started', LATER, [[35_000, 'listening', 'a.log']], false],
  ['is of a start', LATER, [[21_000, 'listening', 'a.log']], true],
  [
    'ended with the next',
    LATER,
    [
      [30_000, 'storeLost', 'a.log/2'],
      [31_000, 'storeBack', 'a.log/2'],
    ],
    false,
  ],
])('an outage of a worker: %s', (_, at, notes, isLost) => {
  const facts = new Facts()
  const note = (event: LogNote['event'], atMs: number, process: string): void =>
    facts.applyNote({ event, atMs: FROM + atMs, process, fields: {} })
  note('storeLost', BEGIN, 'a.log/2')
  for (const [atMs, event, process] of notes) note(event, atMs, process)
  expect(facts.during('outage', FROM + at - 1_000, FROM + at) !== undefined).toBe(isLost)
})
