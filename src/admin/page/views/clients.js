/** All clients: searched and sorted by the gateway, fifty at a time. */
import { plural } from '../../../insight/format.js'
import { live } from '../live.js'
import { Table } from '../table.js'
import { button, choice, filters, h, searchBox, source, write } from '../ui.js'
import { clientColumns } from './parts.js'

/** @import { Place, View } from '../main.js' */
/** @import { ClientRow, ClientsPage } from '../../../insight/api/usage.ts' */

const TYPING_MS = 250
const sorts = { nearest: 'nearest a limit', used: 'most used', refused: 'most refused', id: 'name' }

const clientTable = () =>
  new Table({
    caption: 'Clients',
    idOf: (/** @type {ClientRow} */ { id }) => id,
    empty: 'No client has this in its id, and no key is it.',
    columns: clientColumns,
  })

/** @param {Place} place @returns {View} */
export function clients({ query, change }) {
  /** Cursors of the pages up to the current one. */
  let cursors = ['']
  /** @type {string | null} */
  let next = null
  const plans = (live.overview?.plans ?? []).map(({ plan }) => [plan, plan])
  const controls = {
    q: searchBox(query.get('q')),
    plan: choice({ '': 'all', ...Object.fromEntries(plans) }, query.get('plan') ?? ''),
    sort: choice(sorts, query.get('sort') ?? 'nearest'),
  }
  const total = h('p', { role: 'status' })
  const previous = button('Previous 50', () => turn(cursors.slice(0, -1)))
  const following = button('Next 50', () => next !== null && turn([...cursors, next]))
  previous.hidden = following.hidden = true
  const path = () => {
    const asked = new URLSearchParams()
    for (const [name, { value }] of Object.entries(controls))
      if (value.trim() !== '') asked.set(name, value.trim())
    if (cursors.length > 1) asked.set('cursor', cursors.at(-1) ?? '')
    return `/api/clients?${asked}`
  }
  const rows = clientTable()
  const all = source(path, (/** @type {ClientsPage} */ page) => {
    next = page.cursor
    previous.hidden = cursors.length === 1
    following.hidden = next === null
    const seen = page.sort === 'id' ? '' : ', by what this gateway has seen'
    write(total, `${plural(page.total, 'client')}, sorted by ${sorts[page.sort]}${seen}`)
    rows.update(page.clients)
  })
  const turn = (/** @type {string[]} */ to) => {
    cursors = to
    rows.clear()
    return all.load()
  }
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let typing
  for (const [name, control] of Object.entries(controls))
    control.addEventListener('input', () => {
      clearTimeout(typing)
      change(name, control.value)
      typing = setTimeout(() => void turn(['']), control === controls.q ? TYPING_MS : 0)
    })
  const { q, plan, sort } = controls
  const pages = h('p', { class: 'actions' }, previous, following)
  return {
    title: 'Clients',
    content: [
      filters({ 'Client or key': q, Plan: plan, Sort: sort }),
      total,
      all.note,
      rows.node,
      pages,
    ],
    load: all.load,
  }
}
