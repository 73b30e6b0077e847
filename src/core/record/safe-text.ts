/** Makes text from outside safe to log: short, and without characters that a terminal or a log reader acts upon. */

// Printable ASCII only. JSON escapes what is below 0x20, but not DEL, the C1 controls (0x9B begins an
// escape sequence), U+2028 or the characters that reverse the direction of writing.
const unprintable = /[^\x20-\x7e]/
const everyUnprintable = /[^\x20-\x7e]/g
const escaped = (char: string): string => `\\u{${char.charCodeAt(0).toString(16)}}`

/** Cuts the text to `maxChars`, and three more for an ellipsis; odd characters become `\u{hex}`. */
export function plainText(value: string, maxChars: number): string {
  const short = value.length > maxChars ? `${value.slice(0, maxChars)}...` : value
  return unprintable.test(short) ? short.replace(everyUnprintable, escaped) : short
}

/** Copies only these fields: libraries attach commands and their arguments to errors, and those may hold credentials. */
export function describeError(error: unknown): { error: string; code?: string; stack?: string } {
  if (!(error instanceof Error)) return { error: plainText(String(error), 500) }
  const { code } = error as NodeJS.ErrnoException
  return {
    error: plainText(`${error.name}: ${error.message}`, 500),
    ...(typeof code === 'string' && { code }),
    // Its first line is the message, which may quote text from outside.
    ...(error.stack !== undefined && {
      stack: error.stack.slice(0, 4_000).replace(/[^\n\x20-\x7e]/g, escaped),
    }),
  }
}

/** Makes a field from outside safe to log, and cuts it after 500 characters. */
export const text = (value: string): string => plainText(value, 500)
