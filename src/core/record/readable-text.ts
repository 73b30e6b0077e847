/** Lines of the log as a person reads them on a terminal. */
import { createRequire } from 'node:module'
import type pinoPretty from 'pino-pretty'
import type { BlastRadius } from '../../config/changes/blast-radius.ts'
import { inWords } from '../../config/changes/radius-in-words.ts'

type Fields = Readonly<Record<string, unknown>>

/** Takes whole lines of JSON, ends included; anything else comes back as it is. */
export function createReadableText({ colour }: { colour: boolean }): (lines: string) => string {
  // Where nobody reads along, its 30 ms are better spent on the start.
  const pretty = createRequire(import.meta.url)('pino-pretty') as typeof pinoPretty
  const readable = pretty.prettyFactory({
    // NO_COLOR and the like are its own to obey.
    colorize: colour && pretty.isColorSupported,
    translateTime: 'SYS:HH:MM:ss.l',
    messageKey: 'event',
    messageFormat: describe,
    hideObject: true,
    errorLikeObjectKeys: [],
  })
  return (lines) => lines.replace(/.+\n/g, (line) => readable(line) ?? line)
}

/** The event with its short fields on one line, then what takes lines of its own. */
function describe(fields: Fields): string {
  // The first three stand before it.
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
