/** A backend that answers each request as its script says, and every other one with the token in its path. */
import type { Socket } from 'node:net'
import { setImmediate as turn, setTimeout as sleep } from 'node:timers/promises'
import { readRequests } from '../support/strict-request-reader.ts'
import type { Script } from './answer-grammar.ts'
import { startStrictBackend } from './strict-backend.ts'

export async function startScriptedBackend() {
  const scripts = new Map<string, Script>()
  const received = new Set<string>()
  const problems: string[] = []
  let playing = 0
  const url = await startStrictBackend((socket) => {
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
    return {
      push: (chunk) => {
        reader.push(chunk)
        if (reader.problem !== undefined) problems.push(reader.problem)
      },
      end: () => {},
    }
  })
  return {
    url,
    /** By the last part of the path. */
    scripts,
    /** Ids of the scripts that are played on a connection of their own; to be emptied by whoever reads it. */
    received,
    /** No script is being played. */
    atRest: () => playing === 0,
    /** What was wrong with what the gateway sent, since the last call. */
    takeProblems: () => problems.splice(0),
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
