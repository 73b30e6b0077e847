/** Routes, and who still calls those that are deprecated. */
import { count, UNKNOWN } from '../../insight/format.js'
import { Table, type Listing } from '../page/table.ts'
import { html, section, state, time, timeText, useAnswer } from '../page/ui.ts'
import { clientLink } from '../clients/view-rows.ts'
import type { Deprecations, Routes as Answer } from './operations.ts'
import { register } from '../page/places.ts'

type Route = Answer['routes'][number]
type Caller = Deprecations['callers'][number]

function matchOf({ methods, path, matchesOnly: only }: Route) {
  return html`${methods.join(' ')} ${path} ${only && state('warn', `matches ${only} only`)}`
}

/** Clients that call the route; one that calls with two user agents counts once. */
const clientsOf = (callers: readonly Caller[], name: string) =>
  new Set(callers.filter(({ route }) => route === name).map(({ client }) => client)).size

const routeListing = (callers: readonly Caller[]): Listing<Route> => ({
  caption: 'Routes',
  idOf: ({ name }) => name,
  empty: 'The configuration has no routes.',
  columns: [
    ['Route', ({ name }) => name, 'title'],
    ['Match', matchOf, 'wide'],
    ['Stage', ({ deprecated }) => deprecated?.stage.replace('announce', 'deprecated') ?? 'current'],
    ['Sunset', ({ deprecated }) => deprecated?.sunset?.slice(0, 10) ?? UNKNOWN, 'wide'],
    ['Successor', ({ deprecated }) => deprecated?.successor ?? UNKNOWN],
    ['Calls since start, refused too', ({ requests }) => count(requests), 'number'],
    ['Callers', ({ name, deprecated }) => count(deprecated && clientsOf(callers, name)), 'number'],
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
    ['Calls, refused too', (caller) => count(caller.count), 'number'],
    ['Last', ({ lastSeen }) => time(lastSeen), 'wide'],
  ],
}

function sinceText({ since, others }: Deprecations) {
  const more = others > 0 ? `; ${count(others)} calls of more callers than are kept` : ''
  return `Since ${timeText(since)}${more}`
}

function Routes() {
  const routes = useAnswer<Answer>('/api/routes')
  const deprecations = useAnswer<Deprecations>('/api/deprecations')
  const { answer } = deprecations
  const listing = routeListing(answer?.callers ?? [])
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
