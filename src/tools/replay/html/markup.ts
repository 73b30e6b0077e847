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

type Head = string | { readonly text: string; readonly kind: 'number' }
/** Head of a column of numbers, or of texts that stand for numbers. */
export const number = (text: string): Head => ({ text, kind: 'number' })

/** Renders a table, whose first column names the rows. id: lets the page's script find it. */
export function table(
  caption: string,
  heads: readonly Head[],
  rows: readonly (readonly Content[])[],
  id?: string,
): Markup {
  const columns = heads.map((head, at) => {
    const { text, kind } = typeof head === 'string' ? { text: head, kind: '' } : head
    return { text, kind: at === 0 ? 'title' : kind }
  })
  const line = (row: readonly Content[]): Markup => {
    const cells = columns.map(({ text, kind }, at) => {
      const cell = row[at]
      const isCount = typeof cell === 'number' || (kind === 'number' && cell === undefined)
      return markup`<td role="cell" class="${kind}" data-head="${text}">${isCount ? count(cell) : cell}</td>`
    })
    return markup`<tr role="row">${cells}</tr>\n`
  }
  const heading = columns.map(
    ({ text, kind }) => markup`<th scope="col" role="columnheader" class="${kind}">${text}</th>`,
  )
  return markup`<div class="table"${id && markup` id="${id}" role="region" aria-label="${caption}, table" tabindex="0"`}>
<table role="table" aria-label="${caption}">
<thead role="rowgroup"><tr role="row">${heading}</tr></thead>
<tbody role="rowgroup">${rows.map(line)}</tbody>
</table></div>`
}
