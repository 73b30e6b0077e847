/** Current bans: who, why and until when. They can be lifted here. */
import { askToLift } from '../acts.js'
import { plural, UNKNOWN } from '../../../insight/format.js'
import { Table } from '../table.js'
import { button, filters, h, searchBox, source, time, timeText, write } from '../ui.js'
import { clientLink } from './parts.js'

/** @import { Place, View } from '../main.js' */
/** @import { Ban, Bans } from '../../../insight/api/state.ts' */
/** @import { Column } from '../table.js' */

const NOBODY = 'none has it'

/** @param {() => unknown} again @returns {Column<Ban>[]} */
const columnsOf = (again) => [
  { head: 'Key', kind: 'title', text: ({ key }) => key },
  {
    head: 'Client',
    text: ({ client }) => client ?? NOBODY,
    draw: (current) => {
      const { client } = current()
      return client === null ? NOBODY : clientLink(client)
    },
  },
  { head: 'By', text: ({ by }) => by },
  {
    head: 'Since',
    text: ({ since }) => timeText(since, 'clock'),
    draw: (current) => time(current().since, 'clock'),
  },
  { head: 'Ends', text: ({ until }) => timeText(until), draw: (current) => time(current().until) },
  { head: 'Reason', kind: 'wide', text: ({ reason }) => reason ?? UNKNOWN },
  {
    head: 'Action',
    kind: 'acts',
    text: () => '',
    draw: (current) => {
      const label = `Lift ban of ${current().key}`
      return button('Lift', () => askToLift(current(), again), { 'aria-label': label })
    },
  },
]

/** @param {Place} place @returns {View} */
export function bans({ query, change }) {
  const search = searchBox(query.get('q'))
  /** @type {readonly Ban[]} */
  let known = []
  const total = h('p', { role: 'status' })
  const rows = new Table({
    caption: 'Bans',
    idOf: (/** @type {Ban} */ { key }) => key,
    empty:
      'No key is banned. A key that goes on after refusals is banned by itself; to ban one, open its client.',
    columns: columnsOf(() => all.load()),
  })
  const draw = () => {
    const wanted = search.value.trim().toLowerCase()
    const found = known.filter(({ key, client }) =>
      `${key} ${client}`.toLowerCase().includes(wanted),
    )
    write(total, `${plural(found.length, 'key')} banned now, the first to end first`)
    rows.update(found)
  }
  search.addEventListener('input', () => {
    change('q', search.value)
    draw()
  })
  const all = source('/api/bans', (/** @type {Bans} */ answer) => {
    known = answer.bans
    draw()
  })
  const content = [filters({ 'Client or key': search }), total, all.note, rows.node]
  return { title: 'Bans', content, load: all.load }
}
