/** Why a request was answered as it was, or would be. */
import { call } from '../api.js'
import { wordsOf } from '../explained.js'
import { now } from '../live.js'
import { Table } from '../table.js'
import { choice, faultBox, h, searchBox, state } from '../ui.js'

/** @import { Place, View } from '../main.js' */
/** @import { ExplainAnswer, ExplainQuery } from '../../../insight/api/explain.ts' */

const methods = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'HEAD', 'OPTIONS']

/** @typedef {ReturnType<typeof wordsOf>['stages'][number]} Stage */

const stageTable = () =>
  new Table({
    caption: 'Stages',
    idOf: (/** @type {Stage} */ { stage }) => stage,
    empty: '',
    columns: [
      {
        head: 'Stage',
        kind: 'title',
        text: ({ stage, decides }) => `${stage}${decides ? ' decides' : ''}`,
        draw: (current) => h(current().decides ? 'strong' : 'span', {}, current().stage),
      },
      {
        head: 'Verdict',
        text: ({ verdict, decides }) => `${verdict} ${decides}`,
        draw: (current) => {
          const { verdict, decides } = current()
          const kind = verdict === 'refuse' ? 'bad' : verdict === '–' ? 'none' : 'ok'
          return state(kind, `${verdict}${decides ? ', decides' : ''}`)
        },
      },
      { head: 'What was found', kind: 'wide', text: ({ rule }) => rule },
      { head: 'Set in', text: ({ config }) => config },
    ],
  })

/** @param {URLSearchParams} query @returns {ExplainQuery | undefined} */
function queryOf(query) {
  const [requestId, target, keyId] = ['id', 'target', 'key'].map((name) => query.get(name))
  if (requestId) return { requestId }
  if (!target) return undefined
  return { method: query.get('method') ?? 'GET', target, ...(keyId && { keyId }) }
}

const go = () => h('button', {}, 'Explain')

/** @param {URLSearchParams} query */
const boxesOf = (query) => ({
  id: searchBox(query.get('id')),
  method: choice(
    Object.fromEntries(methods.map((name) => [name, name])),
    query.get('method') ?? 'GET',
  ),
  target: searchBox(query.get('target')),
  key: searchBox(query.get('key')),
})

/** @param {Place} place @returns {View} */
export function explain({ query, change }) {
  const out = h('div', { 'aria-live': 'polite' })
  const boxes = boxesOf(query)
  const { id, method, target, key } = boxes

  let asked = 0
  /** @param {ExplainQuery | undefined} body */
  const ask = async (body) => {
    const mine = ++asked
    out.replaceChildren()
    if (body === undefined) return
    try {
      /** @type {ExplainAnswer} */
      const answer = await call('/api/explain', { method: 'POST', body })
      if (mine === asked) out.replaceChildren(...drawn(answer))
    } catch (error) {
      if (mine === asked) out.replaceChildren(faultBox(error, () => ask(body)))
    }
  }
  /** Submits one form; the other is emptied. @param {(keyof typeof boxes)[]} own */
  const submit = (own) => (/** @type {Event} */ event) => {
    event.preventDefault()
    const given = new URLSearchParams()
    for (const [name, box] of Object.entries(boxes)) {
      const isOwn = /** @type {string[]} */ (own).includes(name)
      if (!isOwn && box !== method) box.value = ''
      const value = isOwn ? box.value.trim() : ''
      given.set(name, value)
      change(name, value)
    }
    return ask(queryOf(given))
  }
  void ask(queryOf(query))
  return {
    title: 'Explain',
    content: [
      h(
        'form',
        { class: 'filters', onsubmit: submit(['id']) },
        h('label', {}, 'Request id ', id),
        go(),
      ),
      h(
        'form',
        { class: 'filters', onsubmit: submit(['method', 'target', 'key']) },
        h('label', {}, 'Method ', method),
        h('label', {}, 'Target ', target),
        h('label', {}, 'Key id ', key),
        go(),
      ),
      h(
        'p',
        { class: 'muted' },
        'Nothing is sent and nobody is charged. Without a key id: a request without a credential.',
      ),
      out,
    ],
    close: () => void asked++,
  }
}

/** @param {ExplainAnswer} answer */
function drawn({ explanation, missing = [], scope, asOf }) {
  const { asked, answer, stages, more } = wordsOf(explanation, now())
  const table = stageTable()
  table.update(stages)
  return [
    missing.length > 0 && h('p', { class: 'missing' }, `▲ Incomplete: ${missing.join('; ')}`),
    h('p', { class: 'asked' }, asked.join('  ')),
    h('p', { class: 'says' }, state(explanation.code === null ? 'ok' : 'bad', answer)),
    table.node,
    ...more.map(([name, text]) => h('p', {}, h('strong', {}, `${name}: `), text)),
    h('p', { class: 'muted' }, `By the ${scope}, ${asOf.slice(11, 19)}Z`),
  ].filter((part) => part !== false)
}
