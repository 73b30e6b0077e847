/**
 * Writes log lines of the configured levels: one flat JSON object per line, or readable text on a terminal. Text from outside is
 * made safe first: short, and without characters that a terminal or a log reader acts upon.
 */
import { isatty } from 'node:tty'
import type { LogFormat, LogLevel } from '../../config/config.ts'
import { DescriptorDestination } from './log-destination.ts'
import { createReadableText } from './readable-text.ts'

export type LineLevel = 'fatal' | 'error' | 'warn' | 'info' | 'debug'

export type LineWriter = ReturnType<typeof createLineWriter>

export interface LineStyle {
  readonly level: LogLevel
  /** auto, the default: text where the destination is a terminal. */
  readonly format?: LogFormat
}

export interface LineWriterOptions extends LineStyle {
  /** A file descriptor, or something else that takes whole lines. Default 2, as stdout is for the output of commands. */
  readonly destination?: number | Pick<DescriptorDestination, keyof DescriptorDestination>
  /** Number of this worker, written on each of its lines. */
  readonly worker?: number | undefined
  /** Other processes write lines to the same destination. */
  readonly isShared?: boolean
}

/** Writes a line at once. */
export type Say = (
  level: LineLevel,
  line: { readonly event: string; readonly [name: string]: unknown },
) => void

const severities = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent']

/** dropped: called with the number of lost lines, once lines can be written again. */
export function createLineWriter(
  { destination = 2, worker, isShared = false, ...first }: LineWriterOptions,
  dropped: (lines: number) => void,
) {
  const out =
    typeof destination === 'number'
      ? new DescriptorDestination(destination, isShared, dropped)
      : destination
  const isTerminal = typeof destination === 'number' && isatty(destination)
  const timestamp = createTimestamp(worker)
  let lowest = 0
  let readable: ((lines: string) => string) | undefined
  const use = ({ level, format = 'auto' }: LineStyle): void => {
    lowest = severities.indexOf(level)
    const isText = format === 'text' || (format === 'auto' && isTerminal)
    readable = isText ? createReadableText({ colour: isTerminal }) : undefined
  }
  use(first)
  const pass = (lines: string): void => out.write(readable?.(lines) ?? lines)
  return {
    /** Applies to lines from now on. */
    use,
    isEnabled: (of: LineLevel): boolean => severities.indexOf(of) >= lowest,
    /** Writes the fields as they are: the caller has cut and escaped all text from outside. */
    write: (of: LineLevel, fields: object, nowMs = Date.now()): void =>
      // JSON.stringify takes a fifth of the time that pino needs for the same line.
      pass(`{"level":"${of}"${timestamp(nowMs)},${JSON.stringify(fields).slice(1)}\n`),
    /** Writes whole lines of JSON, line ends included. */
    pass,
    /** The reason why lines are being lost at the moment; undefined while they are written. */
    fault: () => out.fault,
    lostLines: () => out.lostLines,
    flush: () => out.flush(),
    flushSync: () => out.flushSync(),
    close: () => out.close(),
  }
}

/** Formats time and worker as a fragment of a line, once per millisecond, as it costs more than a short line. */
function createTimestamp(worker: number | undefined): (nowMs: number) => string {
  const origin = worker === undefined ? '' : `,"worker":${worker}`
  let lastMs = 0
  let fragment = ''
  return (nowMs) => {
    if (nowMs !== lastMs) {
      lastMs = nowMs
      fragment = `,"time":"${new Date(nowMs).toISOString()}"${origin}`
    }
    return fragment
  }
}

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
