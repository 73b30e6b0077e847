/** State of backends, the store and the gateway's own processes. */
import { bytes, count, duration, latency, rate, tryText, UNKNOWN } from '../../insight/format.js'
import { live, now } from '../page/live.ts'
import { Table, type Listing } from '../page/table.ts'
import { html, section, state, timeText, useAnswer, useLive, type Kind } from '../page/ui.ts'
import type { Backends, Store, Workers } from './operations.ts'
import { register } from '../page/places.ts'

type Backend = Backends['backends'][number]
type Worker = Workers['workers'][number]

const kinds: Record<Backend['state'] | Store['state'] | Worker['state'], Kind> = {
  up: 'ok',
  listening: 'ok',
  ejected: 'bad',
  down: 'bad',
  away: 'bad',
  refused: 'bad',
  unknown: 'none',
  starting: 'warn',
  draining: 'warn',
}

const away: Record<Store['onOutage'], string> = {
  local: 'each process counts its share of the limits (onOutage local)',
  open: 'everything is admitted, and counted (onOutage open)',
  closed: 'everything is refused with 503 (onOutage closed)',
}

const stateText = ({ state: word, since }: { state: keyof typeof kinds; since: string | null }) =>
  `${word} ${since === null ? 'since this gateway started' : `for ${duration(Math.max(1_000, now() - Date.parse(since)), 1)} now`}`

const stateCell = (row: Parameters<typeof stateText>[0]) => state(kinds[row.state], stateText(row))

const backendListing: Listing<Backend> = {
  caption: 'Backends',
  idOf: ({ name }) => name,
  empty: 'No backend is configured.',
  columns: [
    ['Backend', ({ name }) => name, 'title wide'],
    ['State', stateCell, 'wide'],
    ['Why', ({ cause }) => cause ?? UNKNOWN, 'wide'],
    ['Next try', ({ nextTry: at }) => (at === null ? UNKNOWN : tryText(Date.parse(at), now()))],
    ['Requests/s, 10 s', ({ requestsPerSecond }) => rate(requestsPerSecond), 'number'],
    ['Failures/s, 10 s', ({ failuresPerSecond }) => rate(failuresPerSecond), 'number'],
    ['p99, 10 s', ({ p99Ms }) => latency(p99Ms), 'number'],
  ],
}

const workerListing: Listing<Worker> = {
  caption: 'Workers',
  idOf: ({ number }) => String(number),
  empty: 'No process serves.',
  columns: [
    ['Worker', ({ number, pid }) => `${number} (pid ${pid})`, 'title'],
    ['State', stateCell, 'wide'],
    ['Requests in flight', ({ inFlight }) => count(inFlight), 'number'],
    ['Connections', ({ connections }) => count(connections), 'number'],
    ['Event loop late by', ({ loopLagMs }) => latency(loopLagMs), 'number'],
    ['Memory', ({ rssBytes }) => bytes(rssBytes), 'number'],
    ['Restarts after a crash', ({ restarts }) => count(restarts), 'number'],
  ],
}

const fact = (name: string, value: unknown) => html`<dt>${name}</dt><dd>${value}</dd>`

function storeFacts(store: Store) {
  const { kind, where, cause, warning, onOutage, outages, callP99Ms, unsavedSeconds } = store
  const scope = store.state === 'up' ? '' : ', usage is of this gateway only'
  return [
    fact('Store', `${kind}, ${where ?? 'in memory alone'}`),
    fact(
      'State',
      state(kinds[store.state], stateText(store) + (cause === null ? '' : `: ${cause}`)),
    ),
    fact('While it is away', away[onOutage] + scope),
    fact('Outages since start', count(outages)),
    fact('p99 of its calls, 10 s', latency(callP99Ms)),
    fact('Not saved yet', unsavedSeconds === 0 ? 'nothing' : duration(unsavedSeconds * 1_000)),
    warning !== null && fact('Warning', state('warn', warning)),
  ]
}

function Version() {
  useLive()
  if (live.overview === null) return null
  const { version, startedAt } = live.overview
  return html`<p class="muted">Tollgate ${version}, up since ${timeText(startedAt)}</p>`
}

function System() {
  const backends = useAnswer<Backends>('/api/backends')
  const store = useAnswer<Store>('/api/store')
  const workers = useAnswer<Workers>('/api/workers')
  return html`
    ${section('Backends', backends.note, html`<${Table} ...${backendListing} rows=${backends.answer?.backends} />`)}
    ${section('Store', store.note, html`<dl>${store.answer && storeFacts(store.answer)}</dl>`)}
    ${section('Workers', workers.note, html`<${Table} ...${workerListing} rows=${workers.answer?.workers} />`)}
    <${Version} />`
}

register({ path: '/system', name: 'System', at: 5, key: 's', Whole: System })
