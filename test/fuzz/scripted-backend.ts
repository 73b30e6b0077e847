/** A backend that answers each request as its script says, and every other one with the token in its path. */
import { createServer, type AddressInfo, type Socket } from 'node:net'
import { setImmediate as turn, setTimeout as sleep } from 'node:timers/promises'
import { readRequests } from '../support/strict-request-reader.ts'
import type { Script } from './answer-grammar.ts'

export interface ScriptedBackend {
  readonly url: string
  /** By the last part of the path. */
  readonly scripts: Map<string, Script>
  /** Ids of the scripts that are played on a connection of their own; to be emptied by whoever reads it. */
  readonly received: Set<string>
  /** No script is being played. */
  atRest(): boolean
  /** What was wrong with what the gateway sent, since the last call. */
  takeProblems(): string[]
  close(): Promise<void>
}

export async function startScriptedBackend(): Promise<ScriptedBackend> {
  const scripts = new Map<string, Script>()
  const received = new Set<string>()
  const sockets = new Set<Socket>()
  const problems: string[] = []
  let playing = 0
  const server = createServer({ allowHalfOpen: true, noDelay: true }, (socket) => {
    sockets.add(socket)
    let last = ''
    const reader = readRequests(0, {
      head: () => {},
      request: ({ target, method }) => {
        const id = target.slice(target.lastIndexOf('/') + 1)
        const script = scripts.get(id)
        if (script === undefined) {
          const body = method === 'HEAD' ? '' : id
          socket.write(
            `HTTP/1.1 200 OK\r\nX-Token: ${id}\r\nContent-Length: ${id.length}\r\n\r\n${body}`,
          )
          return
        }
        // On a connection that plays another script there is no telling what comes of it.
        if (!scripts.has(last)) received.add(id)
        last = id
        playing += 1
        void play(socket, script, id).finally(() => (playing -= 1))
      },
    })
    socket.on('data', (chunk: Buffer) => {
      reader.push(chunk)
      if (reader.problem !== undefined) problems.push(reader.problem)
    })
    socket.on('end', () => socket.end())
    socket.on('error', () => {})
    socket.on('close', () => sockets.delete(socket))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    scripts,
    received,
    atRest: () => playing === 0,
    takeProblems: () => problems.splice(0),
    close: async () => {
      for (const socket of sockets) socket.destroy()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

async function play(socket: Socket, { steps, end }: Script, token: string): Promise<void> {
  for (const step of steps) {
    if (socket.destroyed) return
    if (typeof step === 'string') socket.write(step.replaceAll('TOKEN', token), 'latin1')
    else if (step < 0) await sleep(-step)
    else for (let turns = 0; turns < step; turns++) await turn()
  }
  if (end === 'closes') socket.end()
  else if (end === 'resets') socket.resetAndDestroy()
}
