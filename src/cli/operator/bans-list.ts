/** `tollgate bans list`: who is banned, why, and until when. */
import type { Ban, Bans } from '../../insight/api/state.ts'
import { id, text } from '../terminal/table.ts'
import { relative } from '../../insight/format.js'
import { listing } from './asking.ts'

export const bansListCommand = listing<Bans, Ban>(
  () => '/api/bans',
  ({ bans }, nowMs) => {
    const write = (at: string): string => relative(Date.parse(at), nowMs)
    return {
      rows: bans,
      none: 'No key is banned.',
      next: 'Lift one: tollgate bans lift KEY_ID',
      columns: [
        id('KEY', ({ key }) => key),
        id('CLIENT', ({ client }) => client),
        text('BY', ({ by }) => by, { drop: 2 }),
        text('SINCE', ({ since }) => since, { write, drop: 1 }),
        text('ENDS', ({ until }) => until, { write }),
        text('REASON', ({ reason }) => reason),
      ],
    }
  },
)
