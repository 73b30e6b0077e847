/** Routes, and who still calls those that are deprecated. */
import { count, UNKNOWN } from '../../insight/format.js'
import { Table, type Listing } from '../page/table.ts'
import { html, section, time, timeText, useAnswer } from '../page/ui.ts'
import { clientLink } from '../clients/view-rows.ts'
import type { Deprecations, Routes as Answer } from './operations.ts'
import { register } from '../page/places.ts'

type Route = Answer['routes'][number]
type Caller = Deprecations['callers'][number]

/** callers: how many each route has. */
const routeListing = (callers: Map<string, number>): Listing<Route> => ({
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

const callerListing: Listing<Caller> = {
  caption: 'Callers of deprecated routes',
  idOf: ({ route, client, userAgent }) => JSON.stringify([route, client, userAgent]),
  empty: 'Nobody has called a deprecated route.',
  columns: [
    ['Client', ({ client }) => clientLink(client), 'title'],
    ['Route', ({ route }) => route],
    ['User agent', ({ userAgent }) => userAgent, 'wide'],
    ['Calls', (caller) => count(caller.count), 'number'],
    ['Last', ({ lastSeen }) => time(lastSeen), 'wide'],
  ],
}

/** Number of clients that call each route; one that calls with two user agents counts once. */
function callersByRoute(callers: readonly Caller[]) {
  const clients = new Map(callers.map((one) => [`${one.route} ${one.client}`, one.route]))
  const byRoute = new Map<string, number>()
  for (const route of clients.values()) byRoute.set(route, (byRoute.get(route) ?? 0) + 1)
  return byRoute
}

function sinceText({ since, others }: Deprecations) {
  const more = others > 0 ? `; ${count(others)} calls of more callers than are kept` : ''
  return `Since ${timeText(since)}${more}`
}

function Routes() {
  const routes = useAnswer<Answer>('/api/routes')
  const deprecations = useAnswer<Deprecations>('/api/deprecations')
  const { answer } = deprecations
  const listing = routeListing(callersByRoute(answer?.callers ?? []))
  return html`
    ${routes.note}
    <${Table} ...${listing} rows=${routes.answer?.routes} />
    <p class="muted">Calls are of this gateway alone.</p>
    ${section(
      callerListing.caption,
      html`<p class="muted">${answer && sinceText(answer)}</p>`,
      deprecations.note,
      html`<${Table} ...${callerListing} rows=${answer?.callers} />`,
    )}`
}

register({ path: '/routes', name: 'Routes', at: 4, key: 'r', Whole: Routes })
