/** Builds HTML from untrusted texts, such as file names and ids of a log: no text becomes markup, and none hides a character. */
import { count } from '../../../insight/format.js'

/** Text that is markup already. */
export class Markup {
  readonly html: string
  constructor(html: string) {
    this.html = html
  }
}
/** Content of an element; false and undefined write nothing. */
export type Content = Markup | string | number | false | undefined | readonly Content[]

const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}

/** Shows control characters, direction marks and lone surrogates by their number, so that no name looks like another. */
const visible = (text: string): string =>
  text.replace(
    /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu,
    (char) => `\\u{${(char.codePointAt(0) ?? 0).toString(16)}}`,
  )

const written = (content: Content): string => {
  if (content === undefined || content === false) return ''
  if (content instanceof Markup) return content.html
  if (typeof content === 'object') return content.map(written).join('')
  return visible(String(content)).replace(/[&<>"']/g, (char) => entities[char] ?? char)
}

export const markup = (strings: TemplateStringsArray, ...values: Content[]): Markup =>
  new Markup(String.raw({ raw: strings }, ...values.map(written)))

const LONGEST_NAME = 160

/** Isolates a name, so that it cannot change the direction of the text around it. */
export const named = (name: string): Markup =>
  markup`<bdi>${name.length > LONGEST_NAME ? `${name.slice(0, LONGEST_NAME)}…` : name}</bdi>`

/** Writes JSON for `script type="application/json"`; no text in it ends the script. */
export const data = (value: unknown): Markup =>
  new Markup(JSON.stringify(value).replaceAll('<', String.raw`\u003c`))

export interface Column<Row> {
  readonly head: string
  /** Place of the cell in the cards of a narrow screen. */
  readonly kind?: 'title' | 'wide'
  readonly isNumber?: boolean
  cell(row: Row): Content
}

/** A column of whole numbers. */
export const numbers = <Row>(head: string, of: (row: Row) => number | undefined): Column<Row> => ({
  head,
  isNumber: true,
  cell: (row) => count(of(row)),
})

/** Renders a table. id: lets the page's script find it. */
export function table<Row>(
  caption: string,
  columns: readonly Column<Row>[],
  rows: readonly Row[],
  id?: string,
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
</table></div>`
}
