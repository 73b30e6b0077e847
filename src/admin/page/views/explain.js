/** Why a request was answered as it was, or would be. */
import { call } from '../api.js'
import { wordsOf } from '../explained.js'
import { now } from '../live.js'
import { UNKNOWN } from '../../../insight/format.js'
import { Table } from '../table.js'
import {
  choice,
  faultBox,
  html,
  incomplete,
  searchBox,
  state,
  useAnswer,
  useEffect,
  useRef,
  useState,
} from '../ui.js'
import { clientLink, explainLink, whyOf } from './parts.js'

/** @import { Place } from '../main.js' */
/** @import { ExplainAnswer, ExplainQuery } from '../../../insight/api/explain.ts' */
/** @import { Requests } from '../../../insight/api/live.ts' */
/** @import { Decision } from '../../../core/record/recent.ts' */
/** @import { Column } from '../table.js' */

const methods = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'HEAD', 'OPTIONS']
const methodNames = Object.fromEntries(methods.map((name) => [name, name]))

/** @typedef {ReturnType<typeof wordsOf>['stages'][number]} Stage */

/** @type {Column<Stage>[]} */
const stageColumns = [
  {
    head: 'Stage',
    kind: 'title',
    cell: ({ stage, decides }) => (decides ? html`<strong>${stage}</strong>` : stage),
  },
  {
    head: 'Verdict',
    cell: ({ verdict, decides }) => {
      const kind = verdict === 'refuse' ? 'bad' : verdict === '–' ? 'none' : 'ok'
      return state(kind, `${verdict}${decides ? ', decides' : ''}`)
    },
  },
  { head: 'What was found', kind: 'wide', cell: ({ rule }) => rule },
  { head: 'Set in', cell: ({ config }) => config },
]

/** @param {Record<string, string>} asked @returns {ExplainQuery | undefined} */
function queryOf({ id, method = 'GET', target, key }) {
  if (id) return { requestId: id }
  return target ? { method, target, ...(key && { keyId: key }) } : undefined
}

/** @type {Column<Decision>[]} */
const exampleColumns = [
  { head: 'Request', kind: 'title', cell: ({ method, path }) => `${method} ${path ?? UNKNOWN}` },
  { head: 'Client', cell: ({ client }) => (client === null ? UNKNOWN : clientLink(client)) },
  { head: 'Why', cell: whyOf },
  { head: 'Request id', kind: 'wide', cell: ({ id }) => explainLink(id) },
]

/** What can be asked, from what was refused lately. */
function Examples() {
  /** @type {ReturnType<typeof useAnswer<Requests>>} */
  const { answer, note } = useAnswer('/api/requests?refused=true')
  return html`
    <h2>Examples</h2>
    <p><a href="#/explain?method=GET&target=%2F">GET / without a key</a>, or one of the latest refusals:</p>
    ${note}
    <${Table}
      caption="Latest refusals"
      idOf=${(/** @type {Decision} */ { id }) => id}
      empty="Nothing that this gateway keeps in memory was refused."
      columns=${exampleColumns}
      rows=${answer?.requests.slice(0, 5)}
    />`
}

/** @param {Place} place */
export function Explain({ query, change }) {
  const [asked, ask] = useState(/** @type {Record<string, string>} */ (Object.fromEntries(query)))
  const [boxes, fill] = useState(asked)
  const [said, say] = useState(/** @type {{ answer?: ExplainAnswer, fault?: unknown }} */ ({}))
  const times = useRef(0)
  const load = async () => {
    const body = queryOf(asked)
    const mine = ++times.current
    say({})
    if (body === undefined) return
    const next = await call('/api/explain', { method: 'POST', body }).then(
      (answer) => ({ answer: /** @type {ExplainAnswer} */ (answer) }),
      (fault) => ({ fault }),
    )
    if (mine === times.current) say(next)
  }
  useEffect(() => {
    void load()
    return () => void times.current++
  }, [asked])
  const values = { id: '', method: 'GET', target: '', key: '', ...boxes }
  /** Asks with the boxes of one form; those of the other are emptied. @param {...(keyof typeof values)} own */
  const submit =
    (...own) =>
    (/** @type {Event} */ event) => {
      event.preventDefault()
      const given = Object.fromEntries(own.map((name) => [name, values[name].trim()]))
      for (const name of Object.keys(values)) change(name, given[name] ?? '')
      fill(given)
      ask(given)
    }
  const type = (/** @type {{ target: HTMLInputElement }} */ { target: { name, value } }) =>
    fill((known) => ({ ...known, [name]: value }))
  return html`
    <form class="filters" onInput=${type} onSubmit=${submit('id')}>
      <label>Request id ${searchBox({ name: 'id', value: values.id })}</label>
      <button>Explain</button>
    </form>
    <form class="filters" onInput=${type} onSubmit=${submit('method', 'target', 'key')}>
      <label>Method ${choice(methodNames, values.method, { name: 'method' })}</label>
      <label>Target ${searchBox({ name: 'target', value: values.target })}</label>
      <label>Key id ${searchBox({ name: 'key', value: values.key })}</label>
      <button>Explain</button>
    </form>
    <p class="muted">
      Nothing is sent and nobody is charged. Without a key id: a request without a credential.
    </p>
    ${queryOf(asked) === undefined && html`<${Examples} />`}
    <div aria-live="polite">
      ${said.answer && explained(said.answer)} ${said.fault !== undefined && faultBox(said.fault, load)}
    </div>`
}

/** @param {ExplainAnswer} answer */
function explained({ explanation, missing, scope, asOf }) {
  const { asked, answer, stages, more } = wordsOf(explanation, now())
  return html`
    ${incomplete(missing)}
    <p class="asked">${asked.join('  ')}</p>
    <p class="says">${state(explanation.code === null ? 'ok' : 'bad', answer)}</p>
    <${Table} caption="Stages" idOf=${(/** @type {Stage} */ { stage }) => stage} columns=${stageColumns} rows=${stages} />
    ${more.map(([name, text]) => html`<p><strong>${name}: </strong>${text}</p>`)}
    <p class="muted">By the ${scope}, ${asOf.slice(11, 19)}Z</p>`
}
