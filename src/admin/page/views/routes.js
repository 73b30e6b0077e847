/** Routes, and who still calls those that are deprecated. */
import { count, UNKNOWN } from '../../../insight/format.js'
import { Table } from '../table.js'
import { html, time, timeText, useAnswer } from '../ui.js'
import { clientLink } from './parts.js'

/** @import { Deprecations, Routes as Answer } from '../../../insight/api/state.ts' */
/** @import { Column } from '../table.js' */

/** @typedef {Answer['routes'][number]} Route */
/** @typedef {Deprecations['callers'][number]} Caller */

/** @param {Map<string, number>} callers how many each route has @returns {Column<Route>[]} */
const routeColumns = (callers) => [
  { head: 'Route', kind: 'title', cell: ({ name }) => name },
  { head: 'Match', kind: 'wide', cell: ({ methods, path }) => `${methods.join(' ')} ${path}` },
  { head: 'Stage', cell: ({ deprecated }) => deprecated?.stage ?? 'in use' },
  { head: 'Sunset', cell: ({ deprecated }) => deprecated?.sunset?.slice(0, 10) ?? UNKNOWN },
  { head: 'Successor', cell: ({ deprecated }) => deprecated?.successor ?? UNKNOWN },
  { head: 'Calls since start', number: true, cell: ({ requests }) => count(requests) },
  {
    head: 'Callers',
    number: true,
    cell: ({ name, deprecated }) => (deprecated === null ? UNKNOWN : count(callers.get(name) ?? 0)),
  },
]

/** @type {Column<Caller>[]} */
const callerColumns = [
  { head: 'Client', kind: 'title', cell: ({ client }) => clientLink(client) },
  { head: 'Route', cell: ({ route }) => route },
  { head: 'User agent', kind: 'wide', cell: ({ userAgent }) => userAgent },
  { head: 'Calls', number: true, cell: (caller) => count(caller.count) },
  { head: 'Last', cell: ({ lastSeen }) => time(lastSeen) },
]

/** Number of clients that call each route; one that calls with two user agents counts once. @param {readonly Caller[]} callers */
function callersByRoute(callers) {
  const clients = new Map(callers.map((one) => [`${one.route} ${one.client}`, one.route]))
  /** @type {Map<string, number>} */
  const byRoute = new Map()
  for (const route of clients.values()) byRoute.set(route, (byRoute.get(route) ?? 0) + 1)
  return byRoute
}

/** @param {Deprecations} answer */
function sinceText({ since, others }) {
  const more = others > 0 ? `; ${count(others)} calls of more callers than are kept` : ''
  return `Of this gateway alone, since ${timeText(since)}${more}`
}

export function Routes() {
  /** @type {ReturnType<typeof useAnswer<Answer>>} */
  const routes = useAnswer('/api/routes')
  /** @type {ReturnType<typeof useAnswer<Deprecations>>} */
  const deprecations = useAnswer('/api/deprecations')
  return html`
    ${routes.note}
    <${Table}
      caption="Routes"
      idOf=${(/** @type {Route} */ { name }) => name}
      empty="The configuration has no routes."
      columns=${routeColumns(callersByRoute(deprecations.answer?.callers ?? []))}
      rows=${routes.answer?.routes}
    />
    <p class="muted">Calls and callers are of this gateway alone.</p>
    <section>
      <h2>Callers of deprecated routes</h2>
      <p class="muted">${deprecations.answer && sinceText(deprecations.answer)}</p>
      ${deprecations.note}
      <${Table}
        caption="Callers of deprecated routes"
        idOf=${(/** @type {Caller} */ caller) => JSON.stringify([caller.route, caller.client, caller.userAgent])}
        empty="Nobody has called a deprecated route at this gateway."
        columns=${callerColumns}
        rows=${deprecations.answer?.callers}
      />
    </section>`
}
