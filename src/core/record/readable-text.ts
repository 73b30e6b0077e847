/** Formats log lines for a person at a terminal. */
import { createRequire } from 'node:module'
import { styleText } from 'node:util'
import type pinoPretty from 'pino-pretty'
import type { BlastRadius } from '../../config/changes/blast-radius.ts'
import { inWords } from '../../config/changes/radius-in-words.ts'

type Fields = Readonly<Record<string, unknown>>

/** Takes whole lines of JSON, line ends included; anything else is returned unchanged. */
export function createReadableText({ colour }: { colour: boolean }): (lines: string) => string {
  // Loaded only here: a start without a terminal saves its 30 ms.
  const pretty = createRequire(import.meta.url)('pino-pretty') as typeof pinoPretty
  // pino-pretty obeys NO_COLOR and the like.
  const colorize = colour && pretty.isColorSupported
  const dimmed = (text: string): string =>
    colorize ? styleText('dim', text, { validateStream: false }) : text
  const readable = pretty.prettyFactory({
    colorize,
    translateTime: 'SYS:HH:MM:ss.l',
    messageKey: 'event',
    messageFormat: (fields) => describe(fields, dimmed),
    hideObject: true,
    errorLikeObjectKeys: [],
  })
  return (lines) => lines.replace(/.+\n/g, (line) => readable(line) ?? line)
}

/** Puts the event with its short fields on one line, and long fields on lines of their own. */
function describe(fields: Fields, dimmed: (text: string) => string): string {
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
  if (event === 'access') return `${accessInWords(fields)} ${dimmed(inPairs(others))}`
  const lines = [
    [event, ...(message === undefined ? [] : [message]), inPairs(others)]
      .map(String)
      .join(' ')
      .trimEnd(),
    ...(Array.isArray(problems) ? problems.map(String) : []),
    ...(blastRadius === undefined ? [] : inWords(blastRadius as BlastRadius)),
    ...(typeof stack === 'string' ? stack.split('\n') : []),
  ]
  return lines.join('\n    ')
}

/** What is looked for first, such as `GET /v1/pets 200 4 ms acme 59 left`; its pairs have all of it. */
function accessInWords({ method, path, target, status, totalMs, client, minuteLeft }: Fields) {
  const parts = [
    method,
    path ?? target,
    status,
    `${Number(Number(totalMs).toPrecision(2))} ms`,
    client,
    minuteLeft === undefined ? undefined : `${shown(minuteLeft)} left`,
  ]
  return parts
    .filter((part) => part !== undefined)
    .map(shown)
    .join(' ')
}

const inPairs = (fields: Fields): string =>
  Object.entries(fields)
    .map(([name, value]) => `${name}=${shown(value)}`)
    .join(' ')

const shown = (value: unknown): string =>
  typeof value === 'object' && value !== null ? JSON.stringify(value) : String(value)
