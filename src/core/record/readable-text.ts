/** Formats log lines for a person at a terminal. */
import { WriteStream } from 'node:tty'
import { styleText } from 'node:util'
import type { BlastRadius } from '../../config/changes/blast-radius.ts'
import { inWords } from '../../config/changes/radius-in-words.ts'

type Fields = Readonly<Record<string, unknown>>
type Style = Parameters<typeof styleText>[0]

const levelStyles: Readonly<Record<string, Style>> = {
  fatal: ['white', 'bgRed'],
  error: 'red',
  warn: 'yellow',
  info: 'green',
}

/** Takes whole lines of JSON, line ends included; anything else is returned unchanged. */
export function createReadableText({ colour }: { colour: boolean }): (lines: string) => string {
  // It obeys NO_COLOR and the like.
  const isColoured = colour && WriteStream.prototype.hasColors()
  const styled = (style: Style, text: string): string =>
    isColoured ? styleText(style, text, { validateStream: false }) : text
  const digits = { hour: '2-digit', minute: '2-digit', second: '2-digit' } as const
  const clock = new Intl.DateTimeFormat('en-GB', { ...digits, fractionalSecondDigits: 3 })
  const readable = ({ level, time, ...fields }: Fields): string => {
    const name = styled(levelStyles[String(level)] ?? 'blue', String(level).toUpperCase())
    return `[${clock.format(new Date(String(time)))}] ${name}: ${describe(fields, styled)}\n`
  }
  return (lines) =>
    lines.replace(/.+\n/g, (line) => {
      try {
        return readable(JSON.parse(line) as Fields)
      } catch {
        // It is no line of this log, or the last of a worker that was killed.
        return line
      }
    })
}

/** Puts the event with its short fields on one line, and long fields on lines of their own. */
function describe(fields: Fields, styled: (style: Style, text: string) => string): string {
  const { event, message, problems, stack, blastRadius, ...others } = fields
  if (event === 'access') return describeAccess(others, styled)
  const first = [event, ...(message === undefined ? [] : [message])].map(String).join(' ')
  const lines = [
    `${styled('cyan', first)} ${inPairs(others)}`.trimEnd(),
    ...(Array.isArray(problems) ? problems.map(String) : []),
    ...(blastRadius === undefined ? [] : inWords(blastRadius as BlastRadius)),
    ...(typeof stack === 'string' ? stack.split('\n') : []),
  ]
  return lines.join('\n    ')
}
/** What is looked for first, such as `GET /v1/pets 200 4 ms acme 59/60`; the pairs behind it have the rest. */
function describeAccess(fields: Fields, styled: (style: Style, text: string) => string): string {
  const { method, path, target, status, totalMs, client, left, ...others } = fields
  const took = `${Number(Number(totalMs).toPrecision(2))} ms`
  const first = [method, path ?? target, status, took, client, left]
  const words = first.filter((part) => part !== undefined).map(shown)
  return `${styled('cyan', words.join(' '))} ${styled('dim', inPairs(others))}`
}

const inPairs = (fields: Fields): string =>
  Object.entries(fields)
    .map(([name, value]) => `${name}=${shown(value)}`)
    .join(' ')

const shown = (value: unknown): string =>
  typeof value === 'object' && value !== null ? JSON.stringify(value) : String(value)
