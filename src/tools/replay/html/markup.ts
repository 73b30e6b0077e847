/** HTML of what others have written: file names, ids of a log. Nothing in a text is markup, and nothing in it is unseen. */

/** What is markup already. */
export class Markup {
  readonly html: string
  constructor(html: string) {
    this.html = html
  }
}
/** false and undefined: nothing. */
export type Content = Markup | string | number | false | undefined | readonly Content[]

const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}

/** Controls, marks of direction and halves of characters are shown by their number: a name is to look like no other. */
const seen = (text: string): string =>
  text.replace(
    /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu,
    (char) => `\\u{${(char.codePointAt(0) ?? 0).toString(16)}}`,
  )

const written = (content: Content): string => {
  if (content === undefined || content === false) return ''
  if (content instanceof Markup) return content.html
  if (typeof content === 'object') return content.map(written).join('')
  return seen(String(content)).replace(/[&<>"']/g, (char) => entities[char] ?? char)
}

export const markup = (strings: TemplateStringsArray, ...values: Content[]): Markup =>
  new Markup(String.raw({ raw: strings }, ...values.map(written)))

const LONGEST_NAME = 160

/** A name that leaves the direction of what stands around it as it is. */
export const named = (name: string): Markup =>
  markup`<bdi>${name.length > LONGEST_NAME ? `${name.slice(0, LONGEST_NAME)}…` : name}</bdi>`

/** For `script type="application/json"`: no text in it ends the script. */
export const data = (value: unknown): Markup =>
  new Markup(JSON.stringify(value).replaceAll('<', String.raw`\u003c`))

export interface Column<Row> {
  readonly head: string
  /** Of the cards of a narrow screen. */
  readonly kind?: 'title' | 'wide'
  readonly isNumber?: boolean
  cell(row: Row): Content
}

/** id: what the script of the page knows it by. last: rows that keep their place at the end. */
export function table<Row>(
  caption: string,
  columns: readonly Column<Row>[],
  rows: readonly Row[],
  { id, last = [] }: { readonly id?: string; readonly last?: readonly Row[] } = {},
): Markup {
  const classOf = ({ kind, isNumber = false }: Column<Row>): string =>
    [kind, isNumber && 'number'].filter(Boolean).join(' ')
  const cell = (row: Row, column: Column<Row>): Markup =>
    markup`<td role="cell" class="${classOf(column)}" data-head="${column.head}">${column.cell(row)}</td>`
  const line = (row: Row): Markup =>
    markup`<tr role="row">${columns.map((column) => cell(row, column))}</tr>\n`
  const heads = columns.map(
    (column) =>
      markup`<th scope="col" role="columnheader" class="${classOf(column)}">${column.head}</th>`,
  )
  return markup`<div class="table"${id && markup` id="${id}" role="region" aria-label="${caption}, table" tabindex="0"`}>
<table role="table" aria-label="${caption}">
<thead role="rowgroup"><tr role="row">${heads}</tr></thead>
<tbody role="rowgroup">${rows.map(line)}</tbody>
${last.length > 0 && markup`<tfoot role="rowgroup">${last.map(line)}</tfoot>`}
</table></div>`
}
