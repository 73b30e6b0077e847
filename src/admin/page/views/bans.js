/** Current bans: who, why and until when. They can be lifted here. */
import { askToLift } from '../acts.js'
import { plural, UNKNOWN } from '../../../insight/format.js'
import { Table } from '../table.js'
import { button, html, searchBox, time, useAnswer, useState } from '../ui.js'
import { clientLink } from './parts.js'

/** @import { Place } from '../main.js' */
/** @import { Ban, Bans as Answer } from '../../../insight/api/state.ts' */
/** @import { Column } from '../table.js' */

const EMPTY =
  'No key is banned. A key that goes on after refusals is banned by itself; to ban one, open its client.'

/** @param {() => unknown} again @returns {Column<Ban>[]} */
const columnsOf = (again) => [
  { head: 'Key', kind: 'title', cell: ({ key }) => key },
  {
    head: 'Client',
    cell: ({ client }) => (client === null ? 'none has it' : clientLink(client)),
  },
  { head: 'By', cell: ({ by }) => by },
  { head: 'Since', cell: ({ since }) => time(since, 'clock') },
  { head: 'Ends', cell: ({ until }) => time(until) },
  { head: 'Reason', kind: 'wide', cell: ({ reason }) => reason ?? UNKNOWN },
  {
    head: 'Action',
    kind: 'acts',
    cell: (ban) =>
      button('Lift', () => askToLift(ban, again), { 'aria-label': `Lift ban of ${ban.key}` }),
  },
]

/** @param {Place} place */
export function Bans({ query, change }) {
  const [q, search] = useState(query.get('q') ?? '')
  /** @type {ReturnType<typeof useAnswer<Answer>>} */
  const { answer, note, load } = useAnswer('/api/bans')
  const wanted = q.trim().toLowerCase()
  const rows = answer?.bans.filter(({ key, client }) =>
    `${key} ${client}`.toLowerCase().includes(wanted),
  )
  const onInput = (/** @type {{ currentTarget: HTMLInputElement }} */ { currentTarget }) => {
    search(currentTarget.value)
    change('q', currentTarget.value)
  }
  return html`
    <form class="filters" onSubmit=${(/** @type {Event} */ event) => event.preventDefault()}>
      <label>Client or key ${searchBox({ value: q, onInput })}</label>
    </form>
    <p role="status">
      ${rows && `${plural(rows.length, 'key')} banned now, the first to end first`}
    </p>
    ${note}
    <${Table}
      caption="Bans"
      idOf=${(/** @type {Ban} */ { key }) => key}
      empty=${EMPTY}
      columns=${columnsOf(load)}
      rows=${rows}
    />`
}
