/** Columns of tables, which a terminal, a program and a page show alike. */
import { UNKNOWN } from '../insight/format.js'

/** Writes a character that cannot be seen by its number, such as \u{202e}. */
export const byNumber = (char: string): string => `\\u{${(char.codePointAt(0) ?? 0).toString(16)}}`

export type Colour = 'red' | 'yellow' | 'green' | 'dim'

export interface Column<Row> {
  readonly head: string
  /** Numbers are aligned right, ids and times are never cut, the last text may be cut. A note is for persons alone. */
  readonly kind: 'id' | 'number' | 'time' | 'text' | 'note'
  /** Cell for a person. */
  text(row: Row): string
  /** Cell for a program: times as RFC 3339, numbers as digits; null is an empty cell. */
  plain(row: Row): string | number | null
  colour?(row: Row): Colour | undefined
  /** In a narrow terminal the column with the highest value goes first. Left out: it never goes. */
  readonly drop?: number
}

type More<Row> = Partial<Pick<Column<Row>, 'colour' | 'drop' | 'plain'>>

/** A column that `write` formats for a person; null is not known. */
const columnOf =
  <Of extends string | number>(kind: Column<never>['kind']) =>
  <Row>(
    head: string,
    plain: (row: Row) => Of | null,
    { write = String, ...more }: More<Row> & { write?(value: Of): string } = {},
  ): Column<Row> => ({
    head,
    kind,
    plain,
    text(row) {
      const value = plain(row)
      return value === null ? UNKNOWN : write(value)
    },
    ...more,
  })

export const id = columnOf<string>('id')
export const number = columnOf<number>('number')
export const time = columnOf<string>('time')
export const text = columnOf<string>('text')
export const note = columnOf<string>('note')
