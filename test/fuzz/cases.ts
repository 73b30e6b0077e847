/** What the fuzzers found, each shrunk to what it takes: the oracles say what is right of them, as of all that is drawn. */
import { keys } from '../support/gateway.ts'
import type { Script } from './answer-grammar.ts'
import type { Conversation } from './client-grammar.ts'

const host = 'Host: api.example\r\n'
const auth = `${host}Authorization: Bearer ${keys.pro}\r\n`
const CHUNKED = 'Transfer-Encoding: chunked\r\n'
const SMALL = '3\r\nabc\r\n0\r\n\r\n'

const ofClients: Readonly<Record<string, Conversation['steps']>> = {
  'more is sent behind a request that said it was the last': [
    `OPTIONS /v1/pets HTTP/1.1\r\n${auth}Connection: CLOSE\r\n\r\n`,
    6,
    'GET /v1/pets HTTP/1.1\r\n',
    0,
    host,
  ],
  'more is sent behind an Upgrade that is not made': [
    `OPTIONS /v1/pets HTTP/1.1\r\n${auth}Upgrade: h2c\r\n\r\n0\r\n\r\n`,
    3,
    '0689-2 HTTP/1.1\r\n',
    -1,
    'def\r\n',
  ],
  'what is no request stands behind a refusal whose body was not read': [
    `POST /v1/pets HTTP/1.1\r\n${auth}\r\nDELETE /v1/pets/1 HTTP/1.1\r\n${host}${CHUNKED}\r\n${SMALL}X: evil\r\n`,
    5,
    '-Encoding: chunked\r\n',
    -1,
    'yy',
  ],
  'what is no request stands behind a refusal whose body was read': [
    `POST /v1/pets HTTP/1.1\r\n${host}Content-Length: 3\r\n\r\nabcPOST /v1/pets/1 HTTP/1.1\r\n${auth}Content-Length: 4\r\n\r\nHost: api.example\0\r\n`,
    5,
    'X-31: a\r\n',
  ],
  'the body of a refused request takes the beginning of the next one': [
    `HEAD /v1/pets HTTP/1.1\r\n${host}Content-Length: 2\r\n\r\nget /v1/pets/1 HTTP/1.1\r\n${auth}\r\n`,
  ],
  'a chunk is longer than its size behind an Upgrade that is not made': [
    `PUT /v1/pets/1 HTTP/1.1\r\n${auth}Upgrade: websocket\r\nConnection: Upgrade\r\n${CHUNKED}\r\n3\r\nabcd\r\n0\r\n\r\n`,
  ],
  'a body in chunks is too large in one packet with the next request': [
    `GET /v1/pets HTTP/1.1\r\n${auth}${CHUNKED}\r\n1000\r\n${'x'.repeat(4_096)}\r\n1\r\ny\r\n0\r\n\r\nGET /v1/pets/1 HTTP/1.1\r\n${auth}\r\n`,
  ],
  'a body in chunks breaks off before the backend has seen any of it': [
    `DELETE /v1/pets/1 HTTP/1.1\r\n${auth}${CHUNKED}\r\n2328\r\n${'y'.repeat(9_000)}\r\n0\r\n\r\n`,
  ],
  'a chunk has the largest size that can be written': [
    `PUT /v1/pets/1 HTTP/1.1\r\n${auth}${CHUNKED}\r\nffffffffffffffff\r\nabc\r\n0\r\n\r\n`,
  ],
  'a body is shorter than it says': [`GET /v1/pets HTTP/1.1\r\n${auth}Content-Length: 3\r\n\r\n`],
}

const EVIL = 'HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nEVIL'

const ofBackends: Readonly<Record<string, Pick<Script, 'steps' | 'end'>>> = {
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

/** With what is the same of all. */
const each = <Given, More>(cases: Readonly<Record<string, Given>>, whole: (given: Given) => More) =>
  Object.fromEntries(Object.entries(cases).map(([name, given]) => [name, whole(given)]))

export const clientCases = each(ofClients, (steps): Conversation => ({ steps, ending: 'patient' }))
export const answerCases = each(ofBackends, (given): Script => ({ method: 'GET', ...given }))
