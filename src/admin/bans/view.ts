/** Current bans: who, why and until when. They can be lifted here. */
import { askToLift } from './view-dialogs.ts'
import { count, plural, UNKNOWN } from '../../insight/format.js'
import { Table, type Listing } from '../page/table.ts'
import { button, html, searchBox, time, useAnswer, useState } from '../page/ui.ts'
import { clientLink } from '../clients/view-rows.ts'
import type { Ban } from '../../insight/api/live.ts'
import type { Bans as Answer } from './operations.ts'
import { register, type Place } from '../page/places.ts'

const banned = (wanted: string, again: () => unknown): Listing<Ban> => ({
  caption: 'Bans',
  idOf: ({ key }) => key,
  empty:
    wanted === ''
      ? 'No key is banned. A key that goes on after refusals is banned by itself; to ban one, open its client.'
      : 'No ban has this in its key or client.',
  columns: [
    ['Key', ({ key }) => key, 'title'],
    ['Client', ({ client }) => (client === null ? 'no client has it' : clientLink(client))],
    ['By', ({ by }) => by],
    ['Since', ({ since }) => time(since, 'clock')],
    ['Ends', ({ until }) => time(until), 'wide'],
    ['Reason', ({ reason }) => reason ?? UNKNOWN, 'wide'],
    ['Action', (ban) => lifting(ban, again), 'acts'],
  ],
})

const lifting = (ban: Ban, again: () => unknown) =>
  button('Lift', () => askToLift(ban, again), { 'aria-label': `Lift ban of ${ban.key}` })

function Bans({ query, change }: Place) {
  const [q, search] = useState(query.get('q') ?? '')
  const { answer, note, load } = useAnswer<Answer>('/api/bans')
  const wanted = q.trim().toLowerCase()
  const rows = answer?.bans.filter(({ key, client }) =>
    `${key} ${client ?? ''}`.toLowerCase().includes(wanted),
  )
  const found = wanted === '' ? '' : `${count(rows?.length)} of `
  const onInput = ({ currentTarget }: { currentTarget: HTMLInputElement }) => {
    search(currentTarget.value)
    change('q', currentTarget.value)
  }
  return html`
    <form class="filters" onSubmit=${(event: Event) => event.preventDefault()}>
      <label>Client or key ${searchBox({ value: q, onInput })}</label>
    </form>
    <p role="status">
      ${rows && `${found}${plural(answer?.bans.length ?? 0, 'key')} banned now, the first to end first`}
    </p>
    ${note}
    <${Table} ...${banned(wanted, load)} rows=${rows} />`
}

register({ path: '/bans', name: 'Bans', at: 3, key: 'b', Whole: Bans })
