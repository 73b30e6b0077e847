/** State of backends, the store and the gateway's own processes. */
import { bytes, count, duration, latency, rate, UNKNOWN } from '../../../insight/format.js'
import { live, now } from '../live.js'
import { Table } from '../table.js'
import { h, source, state, timeText, write } from '../ui.js'

/** @import { View } from '../main.js' */
/** @import { Backends, Store, Workers } from '../../../insight/api/state.ts' */

/** @typedef {Backends['backends'][number]} Backend */
/** @typedef {Workers['workers'][number]} Worker */

/** @type {Record<Backend['state'] | Store['state'] | Worker['state'], 'ok' | 'warn' | 'bad' | 'none'>} */
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

/** @template {{ state: keyof typeof kinds, since: string | null }} Row @returns {import('../table.js').Column<Row>} */
const stateColumn = () => ({
  head: 'State',
  text: stateText,
  draw: (current) => state(kinds[current().state], stateText(current())),
})

const backendTable = () =>
  new Table({
    caption: 'Backends',
    idOf: (/** @type {Backend} */ { name }) => name,
    empty: 'No backend is configured.',
    columns: [
      { head: 'Backend', kind: 'title', text: ({ name }) => name },
      stateColumn(),
      { head: 'Why', kind: 'wide', text: ({ cause }) => cause ?? UNKNOWN },
      { head: 'Next try', text: ({ nextTry }) => timeText(nextTry, 'relative') },
      {
        head: 'Requests/s, 10 s',
        number: true,
        text: ({ requestsPerSecond }) => rate(requestsPerSecond),
      },
      {
        head: 'Failures/s',
        number: true,
        text: ({ failuresPerSecond }) => rate(failuresPerSecond),
      },
      { head: 'p99, 10 s', number: true, text: ({ p99Ms }) => latency(p99Ms) },
    ],
  })

const workerTable = () =>
  new Table({
    caption: 'Workers',
    idOf: (/** @type {Worker} */ { number }) => String(number),
    empty: 'No process serves.',
    columns: [
      { head: 'Worker', kind: 'title', text: ({ number, pid }) => `${number} (pid ${pid})` },
      stateColumn(),
      { head: 'In flight', number: true, text: ({ inFlight }) => count(inFlight) },
      { head: 'Connections', number: true, text: ({ connections }) => count(connections) },
      { head: 'Loop lag', number: true, text: ({ loopLagMs }) => latency(loopLagMs) },
      { head: 'Memory', number: true, text: ({ rssBytes }) => bytes(rssBytes) },
      { head: 'Restarts', number: true, text: ({ restarts }) => count(restarts) },
    ],
  })

/** @param {Store} store */
function storeFacts(store) {
  const { kind, where, cause, warning, onOutage, outages, callP99Ms, unsavedSeconds } = store
  const facts = [
    ['Store', `${kind}, ${where ?? 'in memory alone'}`],
    [
      'State',
      state(kinds[store.state], `${stateText(store)}${cause === null ? '' : `: ${cause}`}`),
    ],
    [
      'While it is away',
      `onOutage ${onOutage}${store.state === 'up' ? '' : ', usage is of this gateway only'}`,
    ],
    ['Outages since the start', count(outages)],
    ['Call p99, 10 s', latency(callP99Ms)],
    ['Not saved yet', unsavedSeconds === 0 ? 'nothing' : duration(unsavedSeconds * 1_000)],
    ...(warning === null ? [] : [['Warning', state('warn', warning)]]),
  ]
  return facts.flatMap(([name, value]) => [h('dt', {}, name), h('dd', {}, value)])
}

/** @returns {View} */
export function system() {
  const backends = backendTable()
  const workers = workerTable()
  const facts = h('dl', { class: 'facts' })
  let drawn = ''
  const sources = [
    source('/api/backends', (/** @type {Backends} */ answer) => backends.update(answer.backends)),
    source('/api/store', (/** @type {Store} */ answer) => {
      const made = storeFacts(answer)
      const text = made.map(({ textContent }) => textContent).join()
      if (text !== drawn) facts.replaceChildren(...made)
      drawn = text
    }),
    source('/api/workers', (/** @type {Workers} */ answer) => workers.update(answer.workers)),
  ]
  const [backendNote, storeNote, workerNote] = sources.map(({ note }) => note)
  const version = h('p', { class: 'muted' })
  const tick = () => {
    if (live.overview === null) return
    const { version: number, startedAt } = live.overview
    write(version, `Tollgate ${number}, up since ${timeText(startedAt)}`)
  }
  return {
    title: 'System',
    content: [
      h('section', {}, h('h2', {}, 'Backends'), backendNote, backends.node),
      h('section', {}, h('h2', {}, 'Store'), storeNote, facts),
      h('section', {}, h('h2', {}, 'Workers'), workerNote, workers.node),
      version,
    ],
    tick,
    load: () => Promise.all(sources.map(({ load }) => load())),
  }
}
