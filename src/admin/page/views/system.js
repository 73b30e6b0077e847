/** State of backends, the store and the gateway's own processes. */
import { bytes, count, duration, latency, rate, UNKNOWN } from '../../../insight/format.js'
import { live, now } from '../live.js'
import { Table } from '../table.js'
import { html, state, timeText, useAnswer, useLive } from '../ui.js'

/** @import { Backends, Store, Workers } from '../../../insight/api/state.ts' */
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

/** @type {{ head: string, cell: (row: Parameters<typeof stateText>[0]) => import('../ui.js').Child }} */
const stateColumn = { head: 'State', cell: (row) => state(kinds[row.state], stateText(row)) }

/** @type {import('../table.js').Column<Backend>[]} */
const backendColumns = [
  { head: 'Backend', kind: 'title', cell: ({ name }) => name },
  stateColumn,
  { head: 'Why', kind: 'wide', cell: ({ cause }) => cause ?? UNKNOWN },
  { head: 'Next try', cell: ({ nextTry }) => timeText(nextTry, 'relative') },
  {
    head: 'Requests/s, 10 s',
    number: true,
    cell: ({ requestsPerSecond }) => rate(requestsPerSecond),
  },
  { head: 'Failures/s', number: true, cell: ({ failuresPerSecond }) => rate(failuresPerSecond) },
  { head: 'p99, 10 s', number: true, cell: ({ p99Ms }) => latency(p99Ms) },
]

/** @type {import('../table.js').Column<Worker>[]} */
const workerColumns = [
  { head: 'Worker', kind: 'title', cell: ({ number, pid }) => `${number} (pid ${pid})` },
  stateColumn,
  { head: 'In flight', number: true, cell: ({ inFlight }) => count(inFlight) },
  { head: 'Connections', number: true, cell: ({ connections }) => count(connections) },
  { head: 'Loop lag', number: true, cell: ({ loopLagMs }) => latency(loopLagMs) },
  { head: 'Memory', number: true, cell: ({ rssBytes }) => bytes(rssBytes) },
  { head: 'Restarts', number: true, cell: ({ restarts }) => count(restarts) },
]

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
  return html`
    <section>
      <h2>Backends</h2>
      ${backends.note}
      <${Table}
        caption="Backends"
        idOf=${(/** @type {Backend} */ { name }) => name}
        empty="No backend is configured."
        columns=${backendColumns}
        rows=${backends.answer?.backends}
      />
    </section>
    <section>
      <h2>Store</h2>
      ${store.note}
      <dl class="facts">
        ${
          store.answer &&
          storeFacts(store.answer).map(([name, value]) => html`<dt>${name}</dt><dd>${value}</dd>`)
        }
      </dl>
    </section>
    <section>
      <h2>Workers</h2>
      ${workers.note}
      <${Table}
        caption="Workers"
        idOf=${(/** @type {Worker} */ { number }) => String(number)}
        empty="No process serves."
        columns=${workerColumns}
        rows=${workers.answer?.workers}
      />
    </section>
    <${Version} />`
}
