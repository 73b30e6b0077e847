/** Routes, and who still calls those that are deprecated. */
import { count, UNKNOWN } from '../../../insight/format.js'
import { Table } from '../table.js'
import { html, section, time, timeText, useAnswer } from '../ui.js'
import { clientLink } from './parts.js'

/** @import { Deprecations, Routes as Answer } from '../../../insight/api/state.ts' */
/** @import { Listing } from '../table.js' */

/** @typedef {Answer['routes'][number]} Route */
/** @typedef {Deprecations['callers'][number]} Caller */

/** @param {Map<string, number>} callers how many each route has @returns {Listing<Route>} */
const routeListing = (callers) => ({
  caption: 'Routes',
  idOf: ({ name }) => name,
  empty: 'The configuration has no routes.',
  columns: [
    ['Route', ({ name }) => name, 'title'],
    ['Match', ({ methods, path }) => `${methods.join(' ')} ${path}`, 'wide'],
    ['Stage', ({ deprecated }) => deprecated?.stage ?? 'in use'],
    ['Sunset', ({ deprecated }) => deprecated?.sunset?.slice(0, 10) ?? UNKNOWN],
    ['Successor', ({ deprecated }) => deprecated?.successor ?? UNKNOWN],
    ['Calls since start', ({ requests }) => count(requests), 'number'],
    ['Callers', (route) => count(route.deprecated && (callers.get(route.name) ?? 0)), 'number'],
  ],
})

/** @type {Listing<Caller>} */
const callerListing = {
  caption: 'Callers of deprecated routes',
  idOf: ({ route, client, userAgent }) => JSON.stringify([route, client, userAgent]),
  empty: 'Nobody has called a deprecated route at this gateway.',
  columns: [
    ['Client', ({ client }) => clientLink(client), 'title'],
    ['Route', ({ route }) => route],
    ['User agent', ({ userAgent }) => userAgent, 'wide'],
    ['Calls', (caller) => count(caller.count), 'number'],
    ['Last', ({ lastSeen }) => time(lastSeen)],
  ],
}

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
  const { answer } = deprecations
  const listing = routeListing(callersByRoute(answer?.callers ?? []))
  return html`
    ${routes.note}
    <${Table} ...${listing} rows=${routes.answer?.routes} />
    <p class="muted">Calls and callers are of this gateway alone.</p>
    ${section(
      callerListing.caption,
      html`<p class="muted">${answer && sinceText(answer)}</p>`,
      deprecations.note,
      html`<${Table} ...${callerListing} rows=${answer?.callers} />`,
    )}`
}
