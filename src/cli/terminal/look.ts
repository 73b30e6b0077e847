/** The look of the output where a person reads it on a terminal. */
import { styleText } from 'node:util'
import { byNumber, type Colour } from '../../tools/columns.ts'
import type { Output } from '../edge.ts'

export interface Look {
  readonly columns: number
  /** Returns the text itself where colours are off. */
  paint(colour: Colour | undefined, text: string): string
}

/** Returns undefined where a program reads the output. */
export function lookOf({
  args,
  env,
  screen,
}: Pick<Output, 'args' | 'env' | 'screen'>): Look | undefined {
  const isPlain =
    (env['NO_COLOR'] ?? '') !== '' || env['TERM'] === 'dumb' || args.includes('--no-color')
  return (
    screen && {
      columns: screen.columns,
      paint: (colour, text) =>
        isPlain || colour === undefined ? text : styleText(colour, text, { validateStream: false }),
    }
  )
}

/** Makes text of others, such as a user agent, harmless: nothing in it acts upon the terminal or takes another width than its length. */
export const safe = (text: string): string =>
  text.replace(/[^\x20-\x7e\u00a1-\u00ac\u00ae-\u024f–…]/gu, byNumber)
