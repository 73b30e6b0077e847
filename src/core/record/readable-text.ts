/** Formats log lines for a person at a terminal. */
import { createRequire } from 'node:module'
import type pinoPretty from 'pino-pretty'
import type { BlastRadius } from '../../config/changes/blast-radius.ts'
import { inWords } from '../../config/changes/radius-in-words.ts'

type Fields = Readonly<Record<string, unknown>>

/** Takes whole lines of JSON, line ends included; anything else is returned unchanged. */
export function createReadableText({ colour }: { colour: boolean }): (lines: string) => string {
  // Loaded only here: a start without a terminal saves its 30 ms.
  const pretty = createRequire(import.meta.url)('pino-pretty') as typeof pinoPretty
  const readable = pretty.prettyFactory({
    // pino-pretty obeys NO_COLOR and the like.
    colorize: colour && pretty.isColorSupported,
    translateTime: 'SYS:HH:MM:ss.l',
    messageKey: 'event',
    messageFormat: describe,
    hideObject: true,
    errorLikeObjectKeys: [],
  })
  return (lines) => lines.replace(/.+\n/g, (line) => readable(line) ?? line)
}

/** Puts the event with its short fields on one line, and long fields on lines of their own. */
function describe(fields: Fields): string {
  // pino-pretty prints the first three itself.
  const {
    level: _level,
    time: _time,
    pid: _pid,
    event,
    message,
    problems,
    stack,
    blastRadius,
    ...others
  } = fields
  const pairs = Object.entries(others).map(([name, value]) => `${name}=${shown(value)}`)
  const lines = [
    [event, ...(message === undefined ? [] : [message]), ...pairs].map(String).join(' '),
    ...(Array.isArray(problems) ? problems.map(String) : []),
    ...(blastRadius === undefined ? [] : inWords(blastRadius as BlastRadius)),
    ...(typeof stack === 'string' ? stack.split('\n') : []),
  ]
  return lines.join('\n    ')
}

const shown = (value: unknown): string =>
  typeof value === 'object' && value !== null ? JSON.stringify(value) : String(value)
