/** All clients: searched and sorted by the gateway, fifty at a time. */
import { plural } from '../../../insight/format.js'
import { live } from '../live.js'
import { Table } from '../table.js'
import { button, choice, html, searchBox, useAnswer, useEffect, useState } from '../ui.js'
import { clientListing } from './parts.js'

/** @import { Place } from '../main.js' */
/** @import { ClientsPage } from '../../../insight/api/usage.ts' */

const TYPING_MS = 250
const sorts = { nearest: 'nearest a limit', used: 'most used', refused: 'most refused', id: 'name' }

const listing = clientListing('Clients', 'No client and no key has this in its id.')

/** The value once nothing has been typed for a moment. @param {string} value */
function useTyped(value) {
  const [typed, take] = useState(value)
  useEffect(() => {
    const timer = setTimeout(() => take(value), TYPING_MS)
    return () => clearTimeout(timer)
  }, [value])
  return typed
}

/** @param {Place} place */
export function Clients({ query, change }) {
  const [asked, ask] = useState({
    q: query.get('q') ?? '',
    plan: query.get('plan') ?? '',
    sort: query.get('sort') ?? 'nearest',
  })
  /** Cursors of the pages up to the current one, after the first. */
  const [cursors, turn] = useState(/** @type {readonly string[]} */ ([]))
  const q = useTyped(asked.q)
  const parts = Object.entries({ ...asked, q, cursor: cursors.at(-1) ?? '' })
  const wanted = parts.map(([name, value]) => [name, value.trim()]).filter(([, value]) => value)
  /** @type {ReturnType<typeof useAnswer<ClientsPage>>} */
  const { answer, note } = useAnswer(`/api/clients?${new URLSearchParams(wanted)}`)
  const set =
    (/** @type {string} */ name) =>
    (/** @type {any} */ { currentTarget: { value } }) => {
      change(name, value)
      turn([])
      ask({ ...asked, [name]: value })
    }
  const names = (live.overview?.plans ?? []).map(({ plan }) => [plan, plan])
  const plans = { '': 'all', ...Object.fromEntries(names) }
  const next = answer?.cursor ?? null
  const seen = answer?.sort === 'id' ? '' : ', by what this gateway has seen'
  return html`
    <form class="filters" onSubmit=${(/** @type {Event} */ event) => event.preventDefault()}>
      <label>Client or key ${searchBox({ value: asked.q, onInput: set('q') })}</label>
      <label>Plan ${choice(plans, asked.plan, { onInput: set('plan') })}</label>
      <label>Sort ${choice(sorts, asked.sort, { onInput: set('sort') })}</label>
    </form>
    <p role="status">
      ${answer && `${plural(answer.total, 'client')}, sorted by ${sorts[answer.sort]}${seen}`}
    </p>
    ${note}
    <${Table} ...${listing} rows=${answer?.clients} />
    <p class="actions">
      ${cursors.length > 0 && button('Previous 50', () => turn(cursors.slice(0, -1)))}
      ${next !== null && button('Next 50', () => turn([...cursors, next]))}
    </p>`
}
