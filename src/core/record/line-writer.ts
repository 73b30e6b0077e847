/** Writes log lines of the configured levels: one flat JSON object per line, or readable text on a terminal. */
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
  /** A file descriptor, or something that takes whole lines. Default 2, as stdout is for the output of commands. */
  readonly destination?: number | { write(line: string): unknown }
  /** Number of this worker, written on each of its lines. A worker writes JSON; its supervisor makes text of it where configured. */
  readonly worker?: number | undefined
}

/** Writes a line at once. */
export type Say = (
  level: LineLevel,
  line: { readonly event: string; readonly [name: string]: unknown },
) => void

const severities = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent']

/** dropped: called with the number of lost lines, once lines can be written again. */
export function createLineWriter(
  { destination = 2, worker, ...first }: LineWriterOptions,
  dropped: (lines: number) => void,
) {
  const target =
    typeof destination === 'number'
      ? new DescriptorDestination(destination, dropped)
      : { ...nothingPending, write: (lines: string) => void destination.write(lines) }
  const isTerminal = typeof destination === 'number' && isatty(destination)
  const timestamp = createTimestamp(worker)
  let lowest = 0
  let text: ((lines: string) => string) | undefined
  let readable = text
  const use = ({ level, format = 'auto' }: LineStyle): void => {
    lowest = severities.indexOf(level)
    const isText = worker === undefined && (format === 'text' || (format === 'auto' && isTerminal))
    readable = isText ? (text ??= createReadableText({ colour: isTerminal })) : undefined
  }
  use(first)
  const pass = (lines: string): void => target.write(readable?.(lines) ?? lines)
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
    get fault(): string | undefined {
      return target.fault
    },
    get lostLines(): number {
      return target.lostLines
    },
    flush: () => target.flush(),
    flushSync: () => target.flushSync(),
    close: () => target.close(),
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

/** A destination of the caller's own, such as a test's array, looks after its own errors and keeps nothing back. */
const nothingPending = {
  fault: undefined,
  lostLines: 0,
  flush: () => {},
  flushSync: () => {},
  close: () => Promise.resolve(),
}
