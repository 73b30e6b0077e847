/** How the output looks where a person reads it on a terminal. */
import { styleText } from 'node:util'

export type Colour = 'red' | 'yellow' | 'green'

export interface Look {
  /** How wide a line may be. */
  readonly columns: number
  /** The text itself where there is to be no colour. */
  paint(colour: Colour | undefined, text: string): string
}

interface Shown {
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string | undefined>>
  /** undefined: the output goes into a pipe or a file. */
  readonly screen: { readonly columns: number } | undefined
}

/** undefined: a program reads the output. */
export function lookOf({ args, env, screen }: Shown): Look | undefined {
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

/** What others have written, such as a user agent: nothing in it acts upon the terminal or takes another width than its length. */
export const safe = (text: string): string =>
  text.replace(
    /[^\x20-\x7e\u00a1-\u00ac\u00ae-\u024f–…]/gu,
    (char) => `\\u{${(char.codePointAt(0) ?? 0).toString(16)}}`,
  )
