/** State of backends, the store and the gateway's own processes. */
import { bytes, count, duration, latency, rate, UNKNOWN } from '../../../insight/format.js'
import { live, now } from '../live.js'
import { Table } from '../table.js'
import { html, section, state, timeText, useAnswer, useLive } from '../ui.js'

/** @import { Backends, Store, Workers } from '../../../insight/api/state.ts' */
/** @import { Listing } from '../table.js' */
/** @import { Kind } from '../ui.js' */

/** @typedef {Backends['backends'][number]} Backend */
/** @typedef {Workers['workers'][number]} Worker */

/** @type {Record<Backend['state'] | Store['state'] | Worker['state'], Kind>} */
const kinds = {
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

/** @param {{ state: keyof typeof kinds, since: string | null }} row */
const stateText = ({ state: word, since }) =>
  `${word} ${since === null ? 'since the start' : duration(Math.max(1_000, now() - Date.parse(since)), 1)}`

/** @param {Parameters<typeof stateText>[0]} row */
const stateCell = (row) => state(kinds[row.state], stateText(row))

/** @type {Listing<Backend>} */
const backendListing = {
  caption: 'Backends',
  idOf: ({ name }) => name,
  empty: 'No backend is configured.',
  columns: [
    ['Backend', ({ name }) => name, 'title'],
    ['State', stateCell],
    ['Why', ({ cause }) => cause ?? UNKNOWN, 'wide'],
    ['Next try', ({ nextTry }) => timeText(nextTry, 'relative')],
    ['Requests/s, 10 s', ({ requestsPerSecond }) => rate(requestsPerSecond), 'number'],
    ['Failures/s', ({ failuresPerSecond }) => rate(failuresPerSecond), 'number'],
    ['p99, 10 s', ({ p99Ms }) => latency(p99Ms), 'number'],
  ],
}

/** @type {Listing<Worker>} */
const workerListing = {
  caption: 'Workers',
  idOf: ({ number }) => String(number),
  empty: 'No process serves.',
  columns: [
    ['Worker', ({ number, pid }) => `${number} (pid ${pid})`, 'title'],
    ['State', stateCell],
    ['In flight', ({ inFlight }) => count(inFlight), 'number'],
    ['Connections', ({ connections }) => count(connections), 'number'],
    ['Loop lag', ({ loopLagMs }) => latency(loopLagMs), 'number'],
    ['Memory', ({ rssBytes }) => bytes(rssBytes), 'number'],
    ['Restarts', ({ restarts }) => count(restarts), 'number'],
  ],
}

/** @param {Store} store @returns {[string, import('../ui.js').Child][]} */
function storeFacts(store) {
  const { kind, where, cause, warning, onOutage, outages, callP99Ms, unsavedSeconds } = store
  const scope = store.state === 'up' ? '' : ', usage is of this gateway only'
  return [
    ['Store', `${kind}, ${where ?? 'in memory alone'}`],
    [
      'State',
      state(kinds[store.state], `${stateText(store)}${cause === null ? '' : `: ${cause}`}`),
    ],
    ['While it is away', `onOutage ${onOutage}${scope}`],
    ['Outages since the start', count(outages)],
    ['Call p99, 10 s', latency(callP99Ms)],
    ['Not saved yet', unsavedSeconds === 0 ? 'nothing' : duration(unsavedSeconds * 1_000)],
    ...(warning === null
      ? []
      : [/** @type {[string, any]} */ (['Warning', state('warn', warning)])]),
  ]
}

function Version() {
  useLive()
  if (live.overview === null) return null
  const { version, startedAt } = live.overview
  return html`<p class="muted">Tollgate ${version}, up since ${timeText(startedAt)}</p>`
}

export function System() {
  /** @type {ReturnType<typeof useAnswer<Backends>>} */
  const backends = useAnswer('/api/backends')
  /** @type {ReturnType<typeof useAnswer<Store>>} */
  const store = useAnswer('/api/store')
  /** @type {ReturnType<typeof useAnswer<Workers>>} */
  const workers = useAnswer('/api/workers')
  const facts = (store.answer ? storeFacts(store.answer) : []).map(
    ([name, value]) => html`<dt>${name}</dt><dd>${value}</dd>`,
  )
  return html`
    ${section('Backends', backends.note, html`<${Table} ...${backendListing} rows=${backends.answer?.backends} />`)}
    ${section('Store', store.note, html`<dl class="facts">${facts}</dl>`)}
    ${section('Workers', workers.note, html`<${Table} ...${workerListing} rows=${workers.answer?.workers} />`)}
    <${Version} />`
}
