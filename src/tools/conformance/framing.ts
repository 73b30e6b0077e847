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

/** Makes the bytes of a case. head: request line and common fields; hidden: a whole request that only one of two readings may see. */
type Bytes = (head: string, hidden: string) => string

const end = '0\r\n\r\n'
const chunked = 'Transfer-Encoding: chunked'
const length = (text: string): string => `Content-Length: ${text.length}`

const cases: Readonly<Record<string, readonly [Demand, Bytes]>> = {
  'cl-te': [
    'closed',
    (head, hidden) => `${head}\r\n${length(end + hidden)}\r\n${chunked}\r\n\r\n${end}${hidden}`,
  ],
  'two-lengths': [
    'refused',
    (head, hidden) => `${head}\r\nContent-Length: 0\r\n${length(hidden)}\r\n\r\n${hidden}`,
  ],
  'unknown-coding': [
    'refused',
    (head, hidden) => `${head}\r\n${chunked}, x\r\n\r\n${end}${hidden}`,
  ],
  'blank-colon': [
    'refused',
    (head, hidden) => `${head}\r\nContent-Length : ${hidden.length}\r\n\r\n${hidden}`,
  ],
  'obs-fold': [
    'once',
    (head, hidden) => `${head}\r\nX-A: b\r\n ${chunked}\r\n${length(hidden)}\r\n\r\n${hidden}`,
  ],
  'bare-lf': ['once', (head, hidden) => `${head}\r\nX-A: b\n${length(hidden)}\r\n\r\n${hidden}`],
  'chunk-lf': [
    'once',
    (head, hidden) =>
      `${head}\r\n${chunked}\r\n\r\n2;\nxx\r\n${hidden.length.toString(16)}\r\n${hidden}\r\n${end}`,
  ],
  'chunk-extension': [
    'both',
    (head, hidden) => `${head}\r\n${chunked}\r\n\r\n2;a=b;c="d"\r\nxx\r\n${end}${hidden}`,
  ],
  pipelined: ['both', (head, hidden) => `${head}\r\n${length(hidden)}\r\n\r\n${hidden}${hidden}`],
  'two-hosts': ['refused', (head) => `${head}\r\nHost: other.example\r\n\r\n`],
}

const checkOf =
  ([demand, bytes]: readonly [Demand, Bytes]): Check =>
  async ({ spare }) => {
    const connection = await spare.open()
    connection.send(bytes(spare.head(), `${spare.head()}\r\n\r\n`))
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
