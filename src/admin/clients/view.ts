/** All clients: searched and sorted by the gateway, fifty at a time. */
import { plural } from '../../insight/format.js'
import { live } from '../page/live.ts'
import { Table } from '../page/table.ts'
import { button, choice, html, searchBox, useAnswer, useEffect, useState } from '../page/ui.ts'
import { clientListing } from './view-rows.ts'
import type { ClientsPage } from './operations.ts'
import { register, type Place } from '../page/places.ts'
import { Client } from './view-one.ts'

const TYPING_MS = 250
const sorts = { nearest: 'nearest a limit', used: 'most used', refused: 'most refused', id: 'name' }
const orderText = (sort: ClientsPage['sort']) =>
  sort === 'id' ? 'by name' : `${sorts[sort]} first, as this gateway has seen them`

const listing = clientListing('Clients', 'There is no such client.')

/** The value once nothing has been typed for a moment. */
function useTyped(value: string) {
  const [typed, take] = useState(value)
  useEffect(() => {
    const timer = setTimeout(() => take(value), TYPING_MS)
    return () => clearTimeout(timer)
  }, [value])
  return typed
}

function Clients({ query, change }: Place) {
  const [asked, ask] = useState({
    q: query.get('q') ?? '',
    plan: query.get('plan') ?? '',
    sort: query.get('sort') ?? 'nearest',
  })
  /** Cursors of the pages up to the current one, after the first. */
  const [cursors, turn] = useState<readonly string[]>([])
  const q = useTyped(asked.q)
  const parts = Object.entries({ ...asked, q, cursor: cursors.at(-1) ?? '' })
  const wanted = parts.map(([name, value]) => [name, value.trim()]).filter(([, value]) => value)
  const { answer, note } = useAnswer<ClientsPage>(`/api/clients?${new URLSearchParams(wanted)}`)
  const set =
    (name: string) =>
    ({ currentTarget: { value } }: { currentTarget: HTMLInputElement }) => {
      change(name, value)
      turn([])
      ask({ ...asked, [name]: value })
    }
  const names = (live.overview?.plans ?? []).map(({ plan }) => [plan, plan])
  const plans = { '': 'all', ...Object.fromEntries(names) }
  const next = answer?.cursor ?? null
  const banned = live.overview?.counts.bannedKeys ?? 0
  return html`
    <form class="filters" onSubmit=${(event: Event) => event.preventDefault()}>
      <label>Client or key ${searchBox({ value: asked.q, onInput: set('q') })}</label>
      <label>Plan ${choice(plans, asked.plan, { onInput: set('plan') })}</label>
      <label>Sort ${choice(sorts, asked.sort, { onInput: set('sort') })}</label>
    </form>
    <p role="status">
      ${answer && `${plural(answer.total, 'client')}, ${orderText(answer.sort)}`}
      ${banned > 0 && html`; <a href="#/bans">${plural(banned, 'key')} banned</a>`}
    </p>
    ${note}
    <${Table} ...${listing} rows=${answer?.clients} />
    <p class="actions">
      ${cursors.length > 0 && button('Previous 50', () => turn(cursors.slice(0, -1)))}
      ${next !== null && button('Next 50', () => turn([...cursors, next]))}
    </p>`
}

register({ path: '/clients', name: 'Clients', at: 2, key: 'c', Whole: Clients, One: Client })
