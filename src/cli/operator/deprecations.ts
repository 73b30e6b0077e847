/** `tollgate deprecations`: who still calls a deprecated route, and with what. */
import type { Deprecations } from '../../admin/routes/operations.ts'
import { id, number, text } from '../../tools/columns.ts'
import { clock, count, plural, relative } from '../../insight/format.js'
import type { Declaration } from '../program.ts'
import { asking, listing } from './asking.ts'

export const deprecations: Declaration = (program, { once }) =>
  asking(program, 'deprecations', 'who still calls a deprecated route, and with what').action(
    once(() => deprecationsCommand),
  )

const deprecationsCommand = listing<Deprecations, Deprecations['callers'][number]>(
  () => '/api/deprecations',
  ({ callers, others, since }, nowMs) => ({
    rows: callers,
    none: `Nobody has called a deprecated route since ${since}.`,
    next: `Since ${clock(Date.parse(since), nowMs)}${others > 0 ? `; and ${plural(others, 'call')} of too many other callers` : ''}`,
    columns: [
      id('ROUTE', ({ route }) => route),
      id('CLIENT', ({ client }) => client),
      number('CALLS', (caller) => caller.count, { write: count }),
      text('LAST', ({ lastSeen }) => lastSeen, {
        write: (at) => relative(Date.parse(at), nowMs),
        drop: 1,
      }),
      text('USER AGENT', ({ userAgent }) => userAgent),
    ],
  }),
)
