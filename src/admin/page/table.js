/** Tables whose rows keep their place while a pointer, the focus or a selection is on them; their values still change. */
import { plural } from '../../insight/format.js'
import { h, write } from './ui.js'

/** @import { Child } from './dom.js' */

/**
 * @template Row
 * @typedef {object} Column
 * @property {string} head
 * @property {(row: Row) => string} text what it shows, or what `draw` depends on
 * @property {(current: () => Row) => Child | Child[]} [draw]
 * @property {boolean} [number]
 * @property {string} [kind] of cards: title, wide, acts
 */
/**
 * @template Row
 * @typedef {{ caption: string, columns: Column<Row>[], idOf: (row: Row) => string, empty: string }} Options
 */

const MOST_ROWS = 100

/** @template Row */
export class Table {
  /** @type {Map<string, ReturnType<typeof tableRow<Row>>>} */
  #shown = new Map()
  /** @type {Row[]} */
  #latest = []
  #options
  #body = h('tbody', { role: 'rowgroup' })
  #nothing = h('p', { class: 'empty loading' }, 'Loading…')
  #moves = h('button', { type: 'button', class: 'reorder', hidden: true })
  #more = h('p', { class: 'muted' })
  #element

  /** @param {Options<Row>} options */
  constructor(options) {
    this.#options = options
    const heads = options.columns.map(({ head, number }) =>
      h('th', { scope: 'col', role: 'columnheader', class: number ? 'number' : '' }, head),
    )
    this.#element = h(
      'table',
      { role: 'table', 'aria-label': options.caption, hidden: true },
      h('thead', { role: 'rowgroup' }, h('tr', { role: 'row' }, ...heads)),
      this.#body,
    )
    this.#moves.addEventListener('click', () => {
      this.#order()
      this.#element.querySelector('a')?.focus()
    })
    this.node = h('div', { class: 'table' }, this.#moves, this.#element, this.#nothing, this.#more)
  }

  /** @param {readonly Row[]} rows */
  update(rows) {
    const { idOf, empty } = this.#options
    this.#latest = rows.slice(0, MOST_ROWS)
    this.#nothing.classList.remove('loading')
    write(this.#nothing, empty)
    write(this.#more, rows.length > MOST_ROWS ? `The first ${MOST_ROWS} of ${rows.length}.` : '')
    const wanted = new Set(this.#latest.map(idOf))
    for (const [id, { element }] of this.#shown) element.classList.toggle('gone', !wanted.has(id))
    const moved = this.#moved()
    if (moved > 0 && this.#shown.size > 0 && this.#isHeld()) {
      write(this.#moves, `${plural(moved, 'row')} would move: Reorder`)
      this.#moves.hidden = false
    } else this.#order()
    for (const row of this.#latest) this.#shown.get(idOf(row))?.patch(row)
  }

  /** Clears the table before rows of another query. */
  clear() {
    this.#latest = []
    this.#order()
    this.#nothing.hidden = true
  }

  #moved() {
    const places = [...this.#body.children]
    const { idOf } = this.#options
    const differs = (/** @type {Row} */ row, /** @type {number} */ at) =>
      this.#shown.get(idOf(row))?.element !== places[at]
    return this.#latest.filter(differs).length + Math.max(0, places.length - this.#latest.length)
  }

  #isHeld() {
    const element = this.#element
    if (matchMedia('(hover: hover)').matches && element.matches(':hover')) return true
    if (element.contains(document.activeElement)) return true
    const selection = getSelection()
    return selection?.type === 'Range' && selection.containsNode(element, true)
  }

  #order() {
    const { idOf, columns } = this.#options
    const body = this.#body
    const wanted = new Set(this.#latest.map(idOf))
    for (const [id, { element }] of this.#shown) {
      if (wanted.has(id)) continue
      element.remove()
      this.#shown.delete(id)
    }
    this.#latest.forEach((row, at) => {
      const made = this.#shown.get(idOf(row)) ?? tableRow(columns, row)
      this.#shown.set(idOf(row), made)
      const there = body.children[at] ?? null
      if (there !== made.element) body.insertBefore(made.element, there)
    })
    this.#moves.hidden = true
    this.#nothing.hidden = this.#latest.length > 0
    this.#element.hidden = this.#latest.length === 0
  }
}

/** @template Row @param {Column<Row>[]} columns @param {Row} first */
function tableRow(columns, first) {
  let row = first
  const cells = columns.map(({ head, number, kind = '' }) =>
    h('td', { role: 'cell', 'data-head': head, class: `${kind}${number ? ' number' : ''}` }),
  )
  /** @type {string[]} */
  const texts = []
  /** Writes only what differs. @param {Row} next */
  const patch = (next) => {
    row = next
    columns.forEach(({ text, draw }, at) => {
      const value = text(next)
      if (texts[at] === value) return
      texts[at] = value
      const drawn = draw === undefined ? value : draw(() => row)
      const children = Array.isArray(drawn) ? drawn : [drawn]
      cells[at]?.replaceChildren(...children.map((child) => child || ''))
    })
  }
  patch(row)
  return { element: h('tr', { role: 'row' }, ...cells), patch }
}
