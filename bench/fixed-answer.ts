/** A bare node:http server that sends one recorded answer, headers and body, to every request: the floor for a refusal. */
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { Socket } from 'node:net'
import { listen } from './own-process.ts'
import type { Answer } from './verify.ts'

const file = process.argv[2]
if (file === undefined) throw new Error('usage: fixed-answer.ts ANSWER.json')
const { status, headers, body } = JSON.parse(readFileSync(file, 'utf8')) as Answer
const flatHeaders = headers.flat()

/** As the gateway does, it closes a connection behind so many refusals in a row. */
const refusedAtMost = 100
const refused = new WeakMap<Socket, number>()

const server = createServer(({ socket }, response) => {
  const before = refused.get(socket) ?? 0
  refused.set(socket, before + 1)
  if (before >= refusedAtMost - 1) response.shouldKeepAlive = false
  response.writeHead(status, flatHeaders)
  response.end(body)
})

listen(server)
