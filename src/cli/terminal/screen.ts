/** The terminal that a process writes to, and the page that a live view takes over and gives back. */
import type { ReadStream, WriteStream } from 'node:tty'
import { printable } from './printable.ts'

export type Screen = ReturnType<typeof createScreen>

interface ScreenListener {
  /** A key as the terminal sends it: 'q', or an escape sequence. */
  key(key: string): void
  resized(): void
  /** The terminal is closed. */
  gone(): void
}

/** Switches to the other page of the terminal without a cursor, and back. */
const [ENTER, LEAVE] = ['\x1b[?1049h\x1b[?25l', '\x1b[?25h\x1b[?1049l']
const [HOME, CLEAR_LINE_END, CLEAR_BELOW] = ['\x1b[H', '\x1b[K', '\x1b[J']

/** keyboard: opened once it is needed. */
export function createScreen(keyboard: () => ReadStream, output: WriteStream) {
  let restore = (): void => undefined
  return {
    // A terminal without a known size has this.
    get columns(): number {
      return output.columns || 80
    },
    get rows(): number {
      return output.rows || 24
    },
    /** Returns false where keys cannot be read one by one. */
    takeOver(on: ScreenListener): boolean {
      const input = keyboard()
      if (!input.isTTY) return false
      input.setRawMode(true).setEncoding('utf8').on('data', on.key)
      for (const end of ['end', 'close', 'error']) input.on(end, on.gone)
      output.on('resize', on.resized).write(ENTER)
      restore = () => {
        restore = () => undefined
        output.off('resize', on.resized).write(LEAVE)
        input.off('data', on.key).pause().setRawMode(false)
      }
      return true
    },
    /** Draws lines that fit over the earlier ones. */
    draw(lines: readonly string[]): void {
      output.write(
        HOME + lines.map((line) => printable(line) + CLEAR_LINE_END).join('\r\n') + CLEAR_BELOW,
      )
    },
    /** Gives the terminal back; to be called at every exit. */
    restore: (): void => restore(),
  }
}
