/** `tollgate backends`: shows the state of each backend, since when, and why. */
import type { Backends } from '../../admin/system/operations.ts'
import { id, number, text } from '../../tools/columns.ts'
import { duration, latency, tryText, rate } from '../../insight/format.js'
import type { Declaration } from '../program.ts'
import { asking, listing } from './asking.ts'

const colours = { up: 'green', ejected: 'red', down: 'red', unknown: 'yellow' } as const

export const backends: Declaration = (program, { once }) =>
  asking(program, 'backends', 'how each backend is, since when, and why').action(
    once(() => backendsCommand),
  )

const backendsCommand = listing<Backends, Backends['backends'][number]>(
  () => '/api/backends',
  ({ backends }, nowMs) => {
    const away = (at: string | null) => at && duration(Math.abs(Date.parse(at) - nowMs), 1)
    const tryOf = (at: string) => `next try ${tryText(Date.parse(at), nowMs)}`
    return {
      rows: backends,
      none: 'The configuration names no backend.',
      next: 'REQ/S and P99 are of the last 10 s; start is that of the gateway.',
      columns: [
        id('BACKEND', ({ name }) => name),
        text('STATE', ({ state }) => state, { colour: ({ state }) => colours[state] }),
        text('SINCE', ({ since }) => away(since) ?? 'start', { plain: ({ since }) => since }),
        number('REQ/S', (backend) => backend.requestsPerSecond, { write: rate, drop: 2 }),
        number('P99', ({ p99Ms }) => p99Ms, { write: latency, drop: 1 }),
        text(
          'WHY',
          ({ cause, nextTry }) =>
            [cause, nextTry && tryOf(nextTry)].filter((part) => part).join('; '),
          { plain: ({ cause }) => cause },
        ),
      ],
    }
  },
)
