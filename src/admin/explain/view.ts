/** Why a request was answered as it was, or would be. */
import { wordsOf } from './words.ts'
import { now } from '../page/live.ts'
import { UNKNOWN } from '../../insight/format.js'
import { Table, type Listing } from '../page/table.ts'
import { choice, html, searchBox, state, useAnswer, useState } from '../page/ui.ts'
import { clientLink, explainLink, whyOf } from '../clients/view-rows.ts'
import type { ExplainAnswer } from '../../insight/api/explain.ts'
import type { ExplainQuery } from './operations.ts'
import type { Requests, Whole } from '../../insight/api/live.ts'
import type { Decision } from '../../core/record/recent.ts'
import { register, type Place } from '../page/places.ts'

const methods = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'HEAD', 'OPTIONS']
const methodNames = Object.fromEntries(methods.map((name) => [name, name]))

type Stage = ReturnType<typeof wordsOf>['stages'][number]

function verdictOf({ verdict, decides }: Stage) {
  return state(verdict === 'refuse' ? 'bad' : 'ok', `${verdict}${decides ? ', decides' : ''}`)
}

const stages: Listing<Stage> = {
  caption: 'Stages',
  idOf: ({ stage }) => stage,
  columns: [
    ['Stage', ({ stage, decides }) => (decides ? html`<strong>${stage}</strong>` : stage), 'title'],
    ['Verdict', verdictOf, 'wide'],
    ['What was found', ({ rule }) => rule, 'wide'],
    ['Set in', ({ config }) => config || UNKNOWN, 'wide'],
  ],
}

type Boxes = Record<string, string>
function queryOf({ id, method = 'GET', target, key }: Boxes): ExplainQuery | undefined {
  if (id) return { requestId: id }
  return target ? { method, target, ...(key && { keyId: key }) } : undefined
}

const examples: Listing<Decision> = {
  caption: 'Latest refusals',
  idOf: ({ id }) => id,
  empty: 'Nothing that is kept in memory was refused.',
  columns: [
    ['Request', ({ method, path }) => `${method} ${path ?? UNKNOWN}`, 'title'],
    ['Client', ({ client }) => (client === null ? UNKNOWN : clientLink(client))],
    ['Why', whyOf],
    ['Request id', ({ id }) => explainLink(id), 'wide'],
  ],
}

/** What can be asked, from what was refused lately. */
function Examples() {
  const { answer, note } = useAnswer<Whole<Requests>>('/api/requests?refused=true')
  return html`
    <h2>Examples</h2>
    <p><a href="#/explain?method=GET&target=%2F">GET / without a key</a>, or one of the latest refusals:</p>
    ${note}
    <${Table} ...${examples} rows=${answer?.requests.slice(0, 5)} />`
}

function Explain({ query, change }: Place) {
  const given: Boxes = Object.fromEntries(query)
  const [boxes, fill] = useState(given)
  // An explanation is made anew at each turn, as the same may be asked twice.
  const [{ body, turn }, ask] = useState({ body: queryOf(given), turn: 0 })
  const values = { id: '', method: 'GET', target: '', key: '', ...boxes }
  /** Asks with the boxes of one form; those of the other are emptied. */
  const submit =
    (...own: (keyof typeof values)[]) =>
    (event: Event) => {
      event.preventDefault()
      const given = Object.fromEntries(own.map((name) => [name, values[name].trim()]))
      for (const name of Object.keys(values)) change(name, given[name] ?? '')
      fill(given)
      ask({ body: queryOf(given), turn: turn + 1 })
    }
  const type = ({ target: { name, value } }: { target: HTMLInputElement }) =>
    fill((known) => ({ ...known, [name]: value }))
  return html`
    <form class="filters" onInput=${type} onSubmit=${submit('id')}>
      <label>Request id ${searchBox({ name: 'id', value: values.id })}</label>
      <button>Explain this id</button>
    </form>
    <form class="filters" onInput=${type} onSubmit=${submit('method', 'target', 'key')}>
      <label>Method ${choice(methodNames, values.method, { name: 'method' })}</label>
      <label>Target ${searchBox({ name: 'target', value: values.target })}</label>
      <label>Key id ${searchBox({ name: 'key', value: values.key })}</label>
      <button>Explain this request</button>
    </form>
    <p class="muted">
      Nothing is sent and nobody is charged. Without a key id: a request without a credential.
    </p>
    ${body === undefined && html`<${Examples} />`}
    <div aria-live="polite">
      ${body && html`<${Explained} key=${turn} body=${body} />`}
    </div>`
}

function Explained({ body }: { body: ExplainQuery }) {
  const how = { method: 'POST', body }
  const { answer, note } = useAnswer<ExplainAnswer>('/api/explain', Infinity, how)
  return html`${note} ${answer && explained(answer)}`
}

function explained({ explanation, scope, asOf }: ExplainAnswer) {
  const { asked, answer, stages: rows, more } = wordsOf(explanation, now())
  const isReached = ({ verdict }: Stage) => verdict !== '–'
  const unreached = rows.filter((row) => !isReached(row)).map(({ stage }) => stage)
  return html`
    <p class="asked">${asked.join('  ')}</p>
    <p class="says">${state(explanation.code === null ? 'ok' : 'bad', answer)}</p>
    <${Table} ...${stages} rows=${rows.filter(isReached)} />
    <p class="muted">${unreached.length > 0 && `Not reached: ${unreached.join(', ')}.`}</p>
    ${more.map(([name, text]) => html`<p><strong>${name}: </strong>${text}</p>`)}
    <p class="muted">By the ${scope}, ${asOf.slice(11, 19)}Z</p>`
}

register({ path: '/explain', name: 'Explain', at: 7, key: 'e', Whole: Explain })
