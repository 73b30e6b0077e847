/** Current bans: who, why and until when. They can be lifted here. */
import { askToLift } from '../acts.js'
import { plural, UNKNOWN } from '../../../insight/format.js'
import { Table } from '../table.js'
import { button, html, searchBox, time, useAnswer, useState } from '../ui.js'
import { clientLink } from './parts.js'

/** @import { Place } from '../main.js' */
/** @import { Ban, Bans as Answer } from '../../../insight/api/state.ts' */
/** @import { Listing } from '../table.js' */

/** @param {() => unknown} again @returns {Listing<Ban>} */
const banned = (again) => ({
  caption: 'Bans',
  idOf: ({ key }) => key,
  empty:
    'No key is banned. A key that goes on after refusals is banned by itself; to ban one, open its client.',
  columns: [
    ['Key', ({ key }) => key, 'title'],
    ['Client', ({ client }) => (client === null ? 'none has it' : clientLink(client))],
    ['By', ({ by }) => by],
    ['Since', ({ since }) => time(since, 'clock')],
    ['Ends', ({ until }) => time(until)],
    ['Reason', ({ reason }) => reason ?? UNKNOWN, 'wide'],
    ['Action', (ban) => lifting(ban, again), 'acts'],
  ],
})

/** @param {Ban} ban @param {() => unknown} again */
const lifting = (ban, again) =>
  button('Lift', () => askToLift(ban, again), { 'aria-label': `Lift ban of ${ban.key}` })

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
    <${Table} ...${banned(load)} rows=${rows} />`
}
