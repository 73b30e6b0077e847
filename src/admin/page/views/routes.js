/** Routes, and who still calls those that are deprecated. */
import { count, UNKNOWN } from '../../../insight/format.js'
import { Table } from '../table.js'
import { h, source, time, timeText, write } from '../ui.js'
import { clientLink } from './parts.js'

/** @import { View } from '../main.js' */
/** @import { Deprecations, Routes } from '../../../insight/api/state.ts' */
/** @import { Column } from '../table.js' */

/** @typedef {Routes['routes'][number]} Route */
/** @typedef {Deprecations['callers'][number]} Caller */

/** @param {Map<string, number>} callers how many each route has @returns {Column<Route>[]} */
const routeColumns = (callers) => [
  { head: 'Route', kind: 'title', text: ({ name }) => name },
  { head: 'Match', kind: 'wide', text: ({ methods, path }) => `${methods.join(' ')} ${path}` },
  { head: 'Stage', text: ({ deprecated }) => deprecated?.stage ?? 'in use' },
  { head: 'Sunset', text: ({ deprecated }) => deprecated?.sunset?.slice(0, 10) ?? UNKNOWN },
  { head: 'Successor', text: ({ deprecated }) => deprecated?.successor ?? UNKNOWN },
  { head: 'Calls since start', number: true, text: ({ requests }) => count(requests) },
  {
    head: 'Callers',
    number: true,
    text: ({ name, deprecated }) => (deprecated === null ? UNKNOWN : count(callers.get(name) ?? 0)),
  },
]

/** @type {Column<Caller>[]} */
const callerColumns = [
  {
    head: 'Client',
    kind: 'title',
    text: ({ client }) => client,
    draw: (current) => clientLink(current().client),
  },
  { head: 'Route', text: ({ route }) => route },
  { head: 'User agent', kind: 'wide', text: ({ userAgent }) => userAgent },
  { head: 'Calls', number: true, text: (caller) => count(caller.count) },
  {
    head: 'Last',
    text: ({ lastSeen }) => timeText(lastSeen),
    draw: (current) => time(current().lastSeen),
  },
]

/** @returns {View} */
export function routes() {
  /** @type {Map<string, number>} */
  const callersOf = new Map()
  const all = new Table({
    caption: 'Routes',
    idOf: (/** @type {Route} */ { name }) => name,
    empty: 'The configuration has no routes.',
    columns: routeColumns(callersOf),
  })
  const callers = new Table({
    caption: 'Callers of deprecated routes',
    idOf: (/** @type {Caller} */ caller) =>
      JSON.stringify([caller.route, caller.client, caller.userAgent]),
    empty: 'Nobody has called a deprecated route at this gateway.',
    columns: callerColumns,
  })
  const since = h('p', { class: 'muted' })
  const ofCallers = source('/api/deprecations', (/** @type {Deprecations} */ answer) => {
    callersOf.clear()
    // A client that calls with two user agents counts once.
    const clients = new Map(answer.callers.map((one) => [`${one.route} ${one.client}`, one.route]))
    for (const route of clients.values()) callersOf.set(route, (callersOf.get(route) ?? 0) + 1)
    const others =
      answer.others > 0 ? `; ${count(answer.others)} calls of more callers than are kept` : ''
    write(since, `Of this gateway alone, since ${timeText(answer.since)}${others}`)
    callers.update(answer.callers)
  })
  const ofRoutes = source('/api/routes', (/** @type {Routes} */ answer) =>
    all.update(answer.routes),
  )
  const title = h('h2', {}, 'Callers of deprecated routes')
  return {
    title: 'Routes',
    content: [
      ofRoutes.note,
      all.node,
      h('p', { class: 'muted' }, 'Calls and callers are of this gateway alone.'),
      h('section', {}, title, since, ofCallers.note, callers.node),
    ],
    load: () => Promise.all([ofCallers.load(), ofRoutes.load()]),
  }
}
