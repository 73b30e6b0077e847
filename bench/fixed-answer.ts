/** A bare node:http server that sends one recorded answer, headers and body, to every request: the floor for a refusal. */
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Answer } from './verify.ts'

const file = process.argv[2]
if (file === undefined) throw new Error('usage: fixed-answer.ts ANSWER.json')
const { status, headers, body } = JSON.parse(readFileSync(file, 'utf8')) as Answer
const flatHeaders = headers.flat()

const server = createServer((_request, response) => {
  response.writeHead(status, flatHeaders)
  response.end(body)
})

process.once('SIGTERM', () => process.exit(0))
process.once('disconnect', () => process.exit(0))

server.listen(0, '127.0.0.1', () => {
  const { port } = server.address() as AddressInfo
  console.log(`fixed-answer listening on http://127.0.0.1:${port}`)
})
