/** Checks with requests that two parsers could read differently. */
import { TIMEOUT_MS } from './connection.ts'
import { broken, cannotTell, holds, type Check, type Checks } from './check.ts'

/** Shorter than servers keep an idle connection open. */
const CLOSED_WITHIN_MS = 3_000
const MOST_ANSWERS = 3

/**
 * What the gateway must do; to close the connection without an answer is always right. refused: answer 4xx or 5xx, and close.
 * once: answer once. closed: answer once, and close. both: answer once and close, or answer both requests that are really there.
 */
type Demand = 'refused' | 'once' | 'closed' | 'both'

/** Makes what follows the request line and the common fields. hidden: a whole request that only one of two readings may see. */
type Rest = (hidden: string) => string

const end = '0\r\n\r\n'
const chunked = 'Transfer-Encoding: chunked'
const length = (text: string): string => `Content-Length: ${text.length}`

const cases: Readonly<Record<string, readonly [Demand, Rest]>> = {
  'cl-te': ['closed', (hidden) => `${length(end + hidden)}\r\n${chunked}\r\n\r\n${end}${hidden}`],
  'two-lengths': ['refused', (hidden) => `Content-Length: 0\r\n${length(hidden)}\r\n\r\n${hidden}`],
  'unknown-coding': ['refused', (hidden) => `${chunked}, x\r\n\r\n${end}${hidden}`],
  'blank-colon': ['refused', (hidden) => `Content-Length : ${hidden.length}\r\n\r\n${hidden}`],
  'obs-fold': ['once', (hidden) => `X-A: b\r\n ${chunked}\r\n${length(hidden)}\r\n\r\n${hidden}`],
  'bare-lf': ['once', (hidden) => `X-A: b\n${length(hidden)}\r\n\r\n${hidden}`],
  'chunk-lf': [
    'once',
    (hidden) => `${chunked}\r\n\r\n2;\nxx\r\n${hidden.length.toString(16)}\r\n${hidden}\r\n${end}`,
  ],
  'chunk-extension': ['both', (hidden) => `${chunked}\r\n\r\n2;a=b;c="d"\r\nxx\r\n${end}${hidden}`],
  pipelined: ['both', (hidden) => `${length(hidden)}\r\n\r\n${hidden}${hidden}`],
  'two-hosts': ['refused', () => 'Host: other.example\r\n\r\n'],
}

const checkOf =
  ([demand, rest]: readonly [Demand, Rest]): Check =>
  async ({ spare }) => {
    const connection = await spare.open()
    const head = spare.head()
    connection.send(`${head}\r\n${rest(`${head}\r\n\r\n`)}`)
    // An answer that announces the end of the connection counts as the end.
    const isOver = (answers: number) => !connection.isOpen || connection.answers.length >= answers
    await connection.until(() => isOver(1), TIMEOUT_MS)
    await connection.until(() => isOver(MOST_ANSWERS), CLOSED_WITHIN_MS)
    const { answers } = connection
    const isClosed = !connection.isOpen
    connection.destroy()
    const statuses = answers.map(({ status }) => status)
    const [first] = statuses
    const seen = `${statuses.join(' ') || 'no answer'}, ${isClosed ? 'closed' : 'left open'}`
    if (first === undefined) return isClosed ? holds(seen) : cannotTell(seen)
    const isOne = statuses.length === 1
    const isGone = isClosed && isOne && first >= 400
    const isRight: Record<Demand, boolean> = {
      refused: isGone,
      closed: isOne && isClosed,
      once: isOne,
      both: (isOne && isClosed) || statuses.length === 2,
    }
    return isRight[demand] ? holds(seen) : broken(seen, { answers: statuses.length })
  }

export const framing: Checks = Object.fromEntries(
  Object.entries(cases).map(([name, each]) => [name, checkOf(each)]),
)
