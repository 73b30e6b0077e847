/** What the fuzzer found, each shrunk to what it takes: the oracle says what is right of them, as of all that is drawn. */
import type { Script } from './answer-grammar.ts'

const EVIL = 'HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nEVIL'

const cases: Readonly<Record<string, Pick<Script, 'steps' | 'end'>>> = {
  'its connection is reset behind a whole answer': {
    steps: [
      `HTTP/1.1 200 OK\r\nX-Token: TOKEN\r\nContent-Length: 25000\r\n\r\n${'TOKEN'.repeat(5_000)}`,
    ],
    end: 'resets',
  },
  'its connection is reset a turn behind a whole answer': {
    steps: ['HTTP/1.1 200 OK\r\nX-Token: TOKEN\r\nContent-Length: 5\r\n\r\nTOKEN', 1],
    end: 'resets',
  },
  'a look-alike gives another length than there is': {
    steps: [`HTTP/1.1 200 OK\r\nX-Token: TOKEN\r\nContent_Length: 5\r\n\r\nTOKEN${EVIL}`],
    end: 'closes',
  },
  'a look-alike gives a length to an answer that is cut off': {
    steps: ['HTTP/1.1 200 OK\r\nX-Token: TOKEN\r\nContent.Length: 5\r\n\r\nTOKEN'],
    end: 'resets',
  },
}

export const answerCases = Object.fromEntries(
  Object.entries(cases).map(([name, given]): [string, Script] => {
    return [name, { method: 'GET', ...given }]
  }),
)
